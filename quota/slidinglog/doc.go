// Package slidinglog decides whether a request fits. It is the one place that does, for the
// embedded ledger and for the one that hosts share, while Redis is there and while it is away,
// for an acquire, a peek and a plan.
//
// # The decision
//
// What a limit has used is a function of the set of a log's entries, of the limit and of the
// time ([quota.Entry.UnitsIn]). A [View] carries that function on for one limit, in sums of
// blocks, so that deciding does not sum the log; an [Account] has the views of a credential's
// limits. A view that is new, because the limit, its window or the prices are, reads what is in
// its window. A [Simulation] plays later decisions on a list.
//
// A loan is an entry that makes a limit higher until a time. A decision made while one runs
// is not appended at or after its end, and a time to retry counts each loan until its end only.
//
// A [Copy] is the set. An entry has an id of its own, with its time; corrections name what they
// change, the newest settlement counts, a reset is a generation, and of one request one grant
// counts. So entries may come in any order, and twice: booking what was granted in an outage,
// putting back what a log has lost, and reading a log anew are the same.
//
// # An acquire
//
// [Ledger.Acquire] finds the credential's replica and takes its turn. A draft is decided on the
// copy. One that grants is appended: with a [Store], if nobody has written since and its clock
// is within the bounds of the decision; without one, at this host's clock. The record goes into
// the tail of the [File], then into the copy, and then the caller hears of it. A host that was
// behind takes what it lacked into its copy, and decides again. One that denies looks at the
// log first, so that the answer is that of one instant.
//
// An append whose answer was lost may have been carried out. Until the log shows it, or has gone
// on without it, it counts ([attempt]); a hello makes the log go on. Its callers were told that
// nobody knows: what it granted of a request with an id is answered when that is asked again, and
// all else is given back.
//
// # Behind, away, lost
//
// Each second a replica looks at its log (follow.go). When the store does not answer, open
// operations are granted on the copy, within an allowance (offline.go); the log gets those entries
// when it is back, before anything else is granted. When a record that this host knew last is
// not there, the log was flushed, evicted or replaced by an older copy: it says so in the log,
// nothing is granted anywhere, each host puts back what the log lacks, and when all who are
// known to have written are there, or have not come for ten times as long, the log is whole.
// One asynchronous Redis cannot exclude that a log which falls back unseen grants again what
// fell away, until a host that knows better has looked.
//
// # On disk
//
// Only through [File]: entries as record.go writes them, request keys, which entries the log
// lacks, and facts (facts.go). Each second what has changed is folded into the tables; until
// then the tail has what this host wrote. What other hosts wrote is read from the store again.
//
// # Locks, in their order
//
// Ledger.folding while tables are written; replica.turn from a decision until its record is in
// the copy, and while the log is followed; Ledger.gate from the write of a frame until the copy
// has it; replica.mu over the copy, under which nobody waits for the store or for a sync;
// Ledger.mu and Ledger.identity for a few instructions.
package slidinglog
