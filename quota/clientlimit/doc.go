// Package clientlimit decides whether a caller of your own API may make a call: each
// subject, an address, a user or a key, has the limits of its [Clients] to itself.
//
// What a subject has used is one short record, on which the package decides (record.go; log.go and
// counter.go are its two forms). A [Store] keeps the records, in a file or in Redis, by the subject's
// [Key]. A [Decider] decides on them: it reads a record, decides, and replaces the record if it is
// still the one that it read; else it decides again. A record that it wrote a few seconds ago is taken for the one
// that is there, and a subject of which it has none for one without (cache.go): a grant then takes one call of the
// store, not two. Unlike a credential's log, a lost record starts
// over with a full budget: no other copy exists, and the windows are short.
//
// How a request is decided: a [Service] (service.go) finds its clients in a snapshot of the
// configuration, which a reload replaces, and its cost. Requests for the same clients that come
// while the ledger decides share its next call, by a quota.Batcher. The leader of a batch makes
// keys of the subjects (subject.go, salt.go). If the ledger cannot decide, OpenOnOutage does.
//
// # Keys
//
// The key of a record is a keyed hash of the subject and its group: the clients, their algorithm and
// their windows. With other windows, or another algorithm, a subject has another record and begins
// at 0. A plain subject is its own key in its group.
//
// The secret of that hash, the [Salt], changes with the period: as long as anything counts in a record
// of the group, and at least a UTC day. Each secret is a hash of the one before. The present one is
// kept and the one before; older ones are overwritten, so that records of older days cannot be linked.
//
// The clock of the store says which period it is. No record is written after its period, so the
// record of the period before is final. A subject without a record is decided by that one, and its
// first grant writes what that one holds to its own: a change of the period grants nothing extra. After
// two periods nothing of a record counts any more. In a Cluster the two records of a subject may be on
// nodes whose clocks differ: what is granted meanwhile under the former key may not count.
//
// # What hosts share
//
// The hosts on one store share a value with the salts, and how each of them counts (hosts.go). Each
// reads it every ten seconds, and when it finds that a period is over, and replaces it if no other host
// has done so meanwhile. If it is lost, the first host that notices writes its own salts, and the others
// use them: for ten seconds at most, a subject may have two records. By what others count, a host
// finds differences.
//
// # Locks
//
// The package writes no files. Its locks are those of the batchers and Cache.mu; none is held during a call of the
// store. sharing.lock is held while the shared value is read. Decisions wait for it until their deadline,
// but only for the first value, after a reload, and when a period is over.
package clientlimit
