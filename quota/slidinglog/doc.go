// Package slidinglog is the sliding log as plain arithmetic: what a limit has used
// is a function of the log's entries, of the limit and of the time, and nothing
// else is kept as a fact.
//
// A [View] is that function of one limit, carried on from entry to entry, so that
// deciding does not sum the log. An [Account] has the views of a credential's
// limits. A view begins where its window does and reads the entries that are in
// it; whoever writes an entry, or changes one, tells the account. A new limit, a
// renamed one, another window and other prices are all the same: another view.
//
// What an entry counts is quota.Entry.UnitsIn: a settlement and what adjustments
// gave back stand with the entry that they are of, and leave the window with it.
//
// A [Simulation] plays later decisions on a copy of the log. The package reads no
// clock and no file; boltledger and the plan bring them.
package slidinglog
