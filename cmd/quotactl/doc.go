// Quotactl asks a running quotad what is left of its budgets, and operates it.
//
// Commands about one subject share a file: the text of the usage, the flags, the question
// to the daemon, and the answer as a table, as JSON and as one integer.
//
//	status.go, watch.go, page.go   what is left, live and in a browser
//	jobs.go, runs.go, run.go       jobs and their runs; begin and stop a run
//	plan.go, why.go                does it fit, why not
//	usage.go, report.go            who spent it, and what limits would have refused
//	log.go                         debits and refusals
//	callers.go                     clients of your own API, callers on other hosts
//	acquire.go                     spend
//	correct.go                     book, close, open and reset limits
//	daemon.go                      reload the configuration, try an event's command
//	instant.go                     times, as people write them
//	main.go                        the tree of commands; from each the usage, the manual page, the check of arguments
//	former.go                      answers to the names that commands had before
//	completion.go                  arguments and flags, by their names in the usage
//	cli.go, errors.go              answers in the user's format; hints and exit codes
//
// The server decides and explains: the hint of an error comes with the problem.
//
// Package term knows how text looks on a terminal, package wording says limits, jobs, runs
// and refusals in words, and package page serves the page in the same words.
//
// Quotactl writes nothing to disk and holds no locks.
package main
