// Package boltledger keeps the quota ledger in a bbolt file: one host, nothing
// else to run, every grant on disk before it is answered.
//
// A batch of requests is decided on the account in memory ([slidinglog.Account]),
// which reads the file where it must, and then written with one transaction. What
// is kept in memory is a view of the log and is read from it again at each start;
// the file holds the entries, the entry of each request key, and how many entries
// there are.
//
// On disk: ledger.db, and ledger.db.position, a line beside it that tells which ledger
// it was and how far it went. Whoever puts an older copy or none in its place is
// told so at the start. Verify says the same without a change to any of it.
//
// [Clients] (clients*.go, sweep.go) keeps the records of client limits in a file beside it,
// clients.db, which is not synced: a lost record is a fresh budget there. A batch is decided
// and written in one transaction. Records that have gone are swept in the background. One
// that is damaged is moved to clients.db.damaged.
//
// Locks, in their order: account.deciding, held by one writer of a credential until
// its batch is on disk; account.mu, under which nothing is written: a reader waits for no
// disk; bbolt's own, of which one is held by the writer of the file, and one by each reader
// and by a writer who maps a file that has grown; Ledger.mu. Clients.mu stands for itself, and is held while
// its file is used: nobody waits for a disk there, but for the page cache.
package boltledger
