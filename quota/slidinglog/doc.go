// Package slidinglog is a host's side of the logs of all credentials: a [Ledger] has the scripts of package lua decide,
// keeps a journal of what they answered, and puts back what a log has lost. README.md has the grammar of an entry, what
// a host does with each answer, and what it promises.
//
// A request goes through decide.go, which makes it a call of checks; log.go, which asks until there is an answer;
// call.go, which writes the arguments and reads the reply; and an [Engine] (engine.go): a Redis, or a [Memory]
// (memory.go), which runs the same scripts in this process. correct.go settles, books, closes and resets; keep.go writes
// the journal, and puts back what a log lacks; poll.go looks at each log once a second, and mirrors what other hosts
// wrote; hosts.go says that this host lives; offline.go decides while the engine is away; entry.go writes and reads
// entries; ledger.go opens and closes.
//
// The journals are in Config.Dir, one directory for each credential: see package journal.
//
// Locks, in their order:
//
//   - log.restoring: held by the one call that puts entries back, also while it waits for the engine and the disk;
//   - Memory.mu: held while a script runs;
//   - log.mu: what a host knows of a log; nothing waits under it;
//   - Ledger.mu: which logs there are, and which hosts live; nothing waits under it. A call that holds log.mu may take
//     it, and never the other way round;
//   - those of a journal, last.
package slidinglog
