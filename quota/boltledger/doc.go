// Package boltledger keeps the logs of a host in files: it implements [slidinglog.File], and needs
// no other server. It does not know what the logs contain.
//
// A grant is one frame in the tail, written before the grant is answered. The tables are in a
// bbolt file. About once a second, one transaction folds the tail into the tables. The tail is
// two files that are overwritten in turn: while one is folded, the other one is written. Each
// frame's checksum depends on the frame before, and the tables record the last frame that they
// contain. At a start, the frames after that one, up to the first that is not whole, are what
// was written since.
//
// On disk: ledger.db, the tables; ledger.db.tail0 and .tail1, the tail; and ledger.db.position,
// a line that says which ledger this is and how far it went. Because of that line, Open refuses
// an older copy, or none, in place of the ledger. Verify reports the same and changes nothing.
//
// [Clients] (clients*.go, sweep.go) keeps the records of client limits in a file next to it,
// clients.db. That file is not synced: a subject whose record is lost has its whole budget again.
// A batch is written in one transaction. Expired records are removed in the
// background. A damaged file is moved to clients.db.damaged.
//
// Locks, in their order:
//
//   - bbolt's own: one is held by the Fold or SetHead that writes, and one by each reader and by a
//     Fold that maps a file that has grown;
//   - tail.mu, held for one write(2) to the page cache, or while a segment gets more room, but not
//     during a sync;
//   - position.mu;
//   - File.mu.
//
// So an Append waits for no Fold and for no reader, and a reader does not wait for the disk.
// Clients.mu is apart from these, and held while its file is used: that waits for the page cache,
// and not for the disk.
package boltledger
