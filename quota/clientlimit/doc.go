// Package clientlimit decides whether a caller of one's own API may make a call: each
// subject, an address, a user or a key, has the limits of its [Clients] to itself.
//
// What a subject has used is one short record, on which the package computes (log.go,
// counter.go); a [Ledger] keeps the records, in a file or in Redis, by the subject's
// [Key]. Unlike that of a credential, a lost record is a fresh budget: nobody else counts
// along, and the windows are short.
//
// A request goes this way. A [Service] looks its clients up in a snapshot of the
// configuration, which a reload replaces, and finds its cost. Requests for the same clients
// that come while the ledger decides share the next call of it, by a quota.Batcher. The
// leader of a batch makes keys of the subjects and, of those that are denied, notes which
// (topsubjects.go). Where the ledger cannot decide, OpenOnOutage does.
//
// # Windows that change
//
// A record that exists counts on when a window gets longer, by a reload or because another host
// has a longer one. Both algorithms keep in a record what another host's window counts, from the
// first time that host writes to it, or says hello, until it has not been there for a window. A
// record that had expired cannot come back: its subject begins at 0, so that for one window at
// most the old limit and the new one are granted.
//
// # What hosts share
//
// Those who share a ledger have a head in common (head.go), which each of them reads every ten
// seconds, and replaces if it is still what it was (sharing.go). It holds what each host counts,
// its hello, so that a difference is found and the windows of others are known; and the secrets
// of keys.
//
// # Secrets
//
// A subject is kept by a keyed hash, unless its clients are Plain. The secret of that hash changes
// after a day or, where a window is longer, after the longest of any host. Two secrets are valid at
// a time, the newest and the former. A subject that has no record under the newest is looked up
// under the former; its first grant writes the sum of both under the newest, and so its record
// moves. What was written under the former last has left its window when that goes.
//
// A host may not know of the newest secret yet. It acts on a head for one minute at most, by the
// clock of the ledger, which is checked with each decision ([Rotation].UntilMs). Within two minutes
// of the change, those who know seal the record under the former key before they write one under
// the newest: the seal holds what the record held, so that nothing is lost if they stop there,
// and a host that finds one reads the head again. So each subject has one record that may be
// written at any time, and never two budgets. A head that is lost is written again by a host that
// still knows the secrets; where none does, all subjects begin anew.
//
// # Locks
//
// The package writes no files. Its locks are those of the batchers, of topSubjects and of crowd;
// none is held while the ledger is asked, nor while another is taken. Who reads the head takes
// its turn, for which others wait until their deadline.
package clientlimit
