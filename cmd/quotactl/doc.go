// Quotactl asks a running quotad what is left of its budgets, and operates it.
//
// Each command has a file: its usage text, its flags, what it asks the daemon, and what
// it says of the answer as a table, as JSON and as one integer (cli.go). The server
// decides and explains: an error's hint is the one that came with the problem, and
// errors.go turns it into an exit code. How text looks is in term. The page is served by
// package page; pagesource.go asks for what is on it, and pagepicture.go says it in the
// words of the other commands.
//
// Quotactl writes nothing to disk.
package main
