// Package slidinglog decides whether a request fits: for the embedded ledger and the shared one,
// while Redis is there and while it is away, for an acquire and a peek. No other package
// does; quota.Service only says of a refusal whether the cost is above a whole limit, and so can
// never fit.
//
// # The decision
//
// The units that a limit has used are a function of the set of a log's entries, of the limit and
// of the time ([quota.Entry.UnitsIn]). A [View] keeps that sum for one limit, in blocks, so that a
// decision does not read the log. An [Account] has the views of a credential's limits. A view is
// new if the limit, its window or its prices are; it then reads the entries in its window.
//
// A [Copy] is the set. An entry has an id of its own, with its time. Corrections name the entries
// that they change, the newest settlement counts, and of one request one grant counts. A reset begins
// a generation, and voids the entries of lower generations up to its time. It voids no less than any
// reset that its host knows. If two hosts reset logs that lack each other's reset, an entry is void if
// either voids it. So entries may come in any order, and twice. Booking offline grants, putting
// entries back into a lost log, and reading a log again are therefore the same operation.
//
// # An acquire
//
// Acquires and corrections wait for the replica of their credential (commit.go). The call that locks it decides
// for all that wait, on the copy, in one draft (decide.go). If it has less than half of its deadline left, it hands
// the lock to the call with most. The others go away at their own deadlines, and what they were granted is revoked.
// A call that depends on a correction of that draft waits for the next one, and a denial for the one after the
// entries of other calls. Denials share a draft. A draft that grants is appended: with a [Store], if no other host
// has written since and the store's clock is within the bounds of the decision; without one, at this host's clock.
// The record goes to the tail of the [File], then into the copy, and then the caller gets its
// answer. A host that was behind applies the missing records to its copy, and decides again. A
// draft that denies polls the log first, so that the answer is that of one instant.
//
// A draft that grants everything it was asked, and raises nothing, is appended behind grants and settlements that its
// host has not read, if they leave it room (slack.go). So hosts far from a limit do not get in each other's way.
// Everything else waits for its turn.
//
// If the answer to an append is lost, the append may have been carried out. It counts as granted
// until the log has its record, or one behind which it is refused ([attempt]); a hello is such a record.
// Its callers get an error. A grant with a request id is answered when the request is repeated;
// other grants are revoked. A call that was frozen is made once more: an operator's has an entry with an id of its
// own (once.go), and counts once.
//
// # Behind, offline, lost
//
// A replica polls its log about once a second (follow.go). While the store does not answer, open
// operations are granted on the copy, within an allowance (offline.go). When the store is back, the
// log gets these entries before anything else is granted.
//
// If the log lacks the record at this host's position, it was flushed, evicted or replaced by an
// older copy (lost.go). The host marks its entries as missing and reads the log from its beginning,
// which removes the marks of those that it finds. It declares a loss in the log, and a quiet period
// begins: no host grants anything, and each puts back the entries that the log lacks. The period ends
// when all hosts that are known to have written have done so, or have written nothing for ten times its
// normal length.
// One asynchronous Redis cannot exclude that a log which falls back unnoticed grants the lost units
// again, until a host that has them polls.
//
// # On disk
//
// Everything is in the [File]: tables of entries in the format of record.go, of request keys, and of
// marks of entries that the log lacks, and facts (facts.go) as JSON. Changes are folded into the tables each
// second, in the order of the keys (fold.go). A host that reads a long log, or puts it back, folds when
// it has many changes, so its memory and its time for each entry are bounded. Until a fold the tail has
// the records of this host. Those of other hosts are read from the store again.
//
// # Locks, in their order
//
// replica.locked from a decision until its record is in the copy, and while the log is followed.
// Ledger.renaming while another id of this host is written. Ledger.folding while tables are written.
// Ledger.gate from the write of a record with a place until the copy has it. Without a [Store] that includes its
// sync, for which each call waits anyway. replica.mu over the copy; it is never held during a call of the store or a sync.
// Ledger.mu and Ledger.identity for a few instructions. A panic in a call of the ledger ends the process.
package slidinglog
