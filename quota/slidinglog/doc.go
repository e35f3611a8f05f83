// Package slidinglog is a host's side of the logs of all credentials: a [Ledger] has the scripts of package lua decide,
// keeps a journal of what they answered, and puts back what a log has lost.
//
// A request goes through decide.go, which makes it a call of checks; log.go, which asks until there is an answer; and
// an [Engine] (engine.go, which writes the arguments and reads the reply): a Redis, or a [Memory] (memory.go), which
// runs the same scripts in this process. correct.go settles, books, closes and resets; restore.go writes the journal,
// and puts back what a log lacks; poll.go looks at each log once a second, and mirrors what other hosts wrote; hosts.go
// says that this host lives; offline.go decides while the engine is away; entry.go writes and reads entries; ledger.go
// opens and closes.
//
// The journals are in Config.Dir, one directory for each credential: see package journal. An entry is there before its
// caller has the answer: on disk on one host alone, within a second on Redis. Closings, openings and resets stay there
// for 48 hours at least, other entries as long as any host keeps them. The text of an entry, in journal and log:
//
//	ENTRY    = CHARGES "\n" WHAT [ "\n" "was" CHARGES ]
//	CHARGES  = { " " LIMIT "=" UNITS }     what it counts now; a correction has none
//	WHAT     = KIND " " OF " " NUMBER " " BY " " REGION " " NOTE [ " outage" ] { " would=" LIMIT }
//
//	grant OPERATION COUNT    a grant
//	book - 0                 units that were spent elsewhere
//	settle ID UNITS          a settlement of the grant or booking ID
//	reset - WRONG            nothing older counts, no older closing holds, nor what a wrong clock dated up to WRONG
//	close LIMIT UNTIL        a closing until a time in µs; 0: an opening
//
// OPERATION, BY, REGION and NOTE are escaped as in a URL's query; % alone is an empty one. outage: a host granted it
// while the engine was away. would=LIMIT: that limit only observes, and would have refused it. The third line is what a
// settled entry was charged: the greatest charge becomes what it was settled to, all that tie with it too, a smaller one
// at most that. An entry counts from TIME of the engine in µs, or one more than the newest entry's, so that no two are
// the same and none goes back. Its id is that of its request, or a random one. If hosts granted different requests
// under one id while the engine was away, each but one has ID/OPERATION/COUNT/BY.
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
