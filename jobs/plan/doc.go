// Package plan adds up what the schedule of the jobs asks of each limit ([Sum], in sum.go), and says when everybody else
// uses a limit up before that ([Rate], in rate.go).
//
// The sum is of what passes expect, in the window that asks for the most. A job asks for no more than its own shares and
// paces grant. It does not depend on when it is read. A [Planner] asks for both on behalf of a runner and a service. Its
// lock is mu, under which nothing waits.
package plan
