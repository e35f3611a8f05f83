// Package quota decides whether a metered call may be made: credentials with limits,
// requests against them, and the decisions of a ledger.
//
// A [Service] (service.go) knows the configured credentials and turns a [Request] into
// charges (credential.go). Each credential has an account (account.go): a denial that cannot change
// for a while is answered from its denial cache, and all else goes to the [Ledger].
// That keeps one log of each credential, whose lines
// are entries (entry.go), and decides together what waits for it; ledger.go is its contract, which
// package ledgertest tests, and sub-packages keep it in a file or in Redis. An operator's
// closings are entries, too (closing.go). [Service.Why] and
// [Service.Breakdown] read the log (why.go, breakdown.go).
//
// validate.go says what is wrong with a configured credential; name.go, text.go and units.go
// word names and amounts for people.
//
// The example of [Service] is a program that needs no daemon; those of package slidinglog are a Store of one's
// own, and why a log is exact.
//
// A [Batcher] has asks of any kind answered in batches, for the clients of package clientlimit and for middleware.
//
// The package writes no files. Each batcher and each denial cache has a mutex, and nothing waits under one; the
// configured credentials are a snapshot that is replaced as a whole.
package quota
