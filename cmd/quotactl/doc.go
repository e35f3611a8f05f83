// Quotactl asks a running quotad what is left of its budgets, and operates it.
//
// Commands about one subject share a file: the text of the help, the flags, the question to the daemon, and the answer as
// a table and as JSON.
//
//	status.go, watch.go, page.go   what is left, live and in a browser
//	jobs.go, runs.go, run.go       jobs and their runs; begin and stop a run
//	plan.go, why.go                does it fit, why not
//	usage.go, log.go               who spent it; debits and refusals
//	acquire.go                     spend
//	correct.go                     book, close, open and reset limits
//	daemon.go                      reload the configuration, try an event's command
//	instant.go                     times, as people write them
//	main.go                        the tree of commands
//	cli.go, table.go, errors.go    answers in the user's format; hints and exit codes
//
// The server decides and explains: the hint of an error comes with the problem. Package wording says limits, jobs and runs
// in words, and package page serves the page in the same words.
//
// Quotactl writes nothing to disk and holds no locks.
package main
