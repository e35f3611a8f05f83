// Package boltledger keeps the logs of a host in files: it is the [slidinglog.File], with
// nothing else to run. It does not know what stands in them.
//
// What is granted is one frame in the tail, written before it is answered; the tables are in
// a bbolt file, into which the tail is folded about once a second, with one transaction. The
// tail is two files that are overwritten in turn: while one is folded, the other is written.
// Its frames are linked by their checksums, and the tables say up to which frame they have
// them: what a start finds behind that, up to the first frame that is not whole, is what was
// written since.
//
// On disk: ledger.db, the tables; ledger.db.tail0 and .tail1, the tail; and
// ledger.db.position, a line that tells which ledger it was and how far it went. Whoever
// puts an older copy or none in its place is told so at the start. Verify says the same
// without a change to any of it.
//
// [Clients] (clients*.go, sweep.go) keeps the records of client limits in a file beside it,
// clients.db, which is not synced: a lost record is a fresh budget there. A batch is decided
// and written in one transaction. Records that have gone are swept in the background. One
// that is damaged is moved to clients.db.damaged.
//
// Locks, in their order: bbolt's own, of which one is held by the Fold or SetHead that
// writes, and one by each reader and by a Fold that maps a file that has grown; tail.mu,
// held for one write(2) to the page cache, or while a stretch gets more room, not while it is
// synced; position.mu; File.mu. So an Append waits for no Fold and for no
// reader, and a reader for no disk. Clients.mu stands for itself, and is held while its file
// is used: nobody waits for a disk there, but for the page cache.
package boltledger
