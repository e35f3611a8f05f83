// Package wording says in words what quotad answers, for the terminal and the page alike:
// what a limit has left and for how long (limit.go), what a job does next and what its runs
// and passes came to (job.go, run.go), what needs a person, who spent what, and why a call
// was refused (status.go).
//
// Each function takes an answer and the term.View of its reader, and returns plain text or
// the style that goes with it. Nothing is asked, printed or kept here.
package wording
