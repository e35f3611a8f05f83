// Package servertest runs the daemon's API on a socket of its own, on a ledger in memory
// and its clock, for the tests of the server and of its clients. [Tokens] are the run
// tokens of passes (tokens.go); a [Conn] sends requests byte for byte (conn.go).
package servertest
