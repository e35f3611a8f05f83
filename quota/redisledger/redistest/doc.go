// Package redistest starts Redis for tests, as processes of their own: one server
// (server.go), a Cluster, a master with its replica and Sentinel. Beside that it has what
// tests do to them, down to a proxy that loses replies (proxy.go), and a clock that the
// scripts of package lua read instead of the server's (clock.go).
//
// Each server has a directory and a Unix socket of its own, and ends with its test.
package redistest
