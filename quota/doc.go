// Package quota decides whether a metered call may be made: credentials with limits,
// requests against them, and the decisions of a ledger.
//
// A [Service] (service.go) knows the configured credentials and turns a [Request] into charges (credential.go), and a
// [Ledger] decides about them: ledger.go is its contract, which package ledgertest tests. It keeps one log of each
// credential, whose lines are entries (entry.go), and compares checks: what each limit asks of a request (check.go).
// An operator's closings are entries, too (change.go).
//
// validate.go says what is wrong with a configured credential; name.go, text.go and units.go
// word names and amounts for people.
//
// The example of [Service] is a program that needs no daemon.
//
// The package writes no files. The configured credentials are a snapshot that is replaced as a whole.
package quota
