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
// The package writes no files. Its locks are those of the batchers and of topSubjects; none
// is held while the ledger is asked, nor while another is taken.
package clientlimit
