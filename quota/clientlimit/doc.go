// Package clientlimit decides whether a caller of your own API may make a call: each
// subject, an address, a user or a key, has the limits of its [Clients] to itself.
//
// What a subject has used is one short record, on which the package decides (record.go; log.go and
// counter.go are its two forms). A [Store] keeps the records, in a file or in Redis, by the subject's
// [Key]. A [Ledger] decides on them: it reads a record, decides, and replaces the record if it is
// still the one that it read; else it decides again. Unlike a credential's log, a lost record starts
// over with a full budget: no other copy exists, and the windows are short.
//
// How a request is decided: a [Service] (service.go) finds its clients in a snapshot of the
// configuration, which a reload replaces, and its cost. Requests for the same clients that come
// while the ledger decides share its next call, by a quota.Batcher. The leader of a batch makes
// keys of the subjects (subject.go); tally.go estimates how many there are and counts their denials.
// If the ledger cannot decide, OpenOnOutage does.
//
// # Windows that change
//
// A record stays counted when a window gets longer, by a reload or because another host has a
// longer one. Both algorithms keep in a record what another host's window counts: from the first
// time that host writes to the record, or says hello, until it has not done so for a window. A
// record that had expired cannot come back. Its subject starts at 0: for one window, at most the
// old limit and the new one are granted.
//
// # What hosts share
//
// The hosts that share a store have a head in common (head.go). Each reads it every ten seconds,
// and replaces it if no other host has done so meanwhile (sharing.go). The head holds the secrets
// of keys, and the hello of each host: what it counts. By the hellos, a host finds differences and
// knows the windows of others.
//
// # Secrets
//
// A subject is kept by a keyed hash, unless its clients are Plain. The secret of that hash changes
// after a day or, where a window is longer, after the longest of any host. Two secrets are valid at
// a time, the newest and the former. A subject that has no record under the newest is looked up
// under the former. Its first grant writes the record under the newest, and so the record moves.
// When the former secret is dropped, what was last written under it has left its window.
//
// A host may not know the newest secret yet. It acts on a head for one minute at most, by the
// clock of the store, which is checked with each decision ([Rotation].UntilMs). Within two minutes
// of the change, hosts that know it seal the record under the former key before they write one under
// the newest: the seal holds what the record held, so that nothing is lost if they stop there,
// and a host that finds one reads the head again. So each subject has one record that may be
// written at any time, and never two budgets. A host that still knows the secrets writes a lost
// head again; if none does, all subjects start over.
//
// # Locks
//
// The package writes no files. Its locks are those of the batchers and of tallies;
// none is held during a call of the store, nor while another one is locked. sharing.refresh is
// held while the head is read: others wait for it until their deadline, and decisions do not.
package clientlimit
