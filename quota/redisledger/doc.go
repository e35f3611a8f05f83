// Package redisledger keeps the quota ledger in Redis, so that several hosts share one
// budget: every decision is one call of a script, on Redis' own clock.
//
// # A request
//
// Acquire looks up the credential's account, takes its turn and calls acquire.lua, which
// reads the account, a packed string, decides, appends what it grants to the log, a stream,
// and writes the account. What was granted is in this daemon's journal before Acquire
// returns. Mostly grant.lua, in front of it, does all that: it grants what is plain.
// account.lua says what is kept in Redis, entries.lua how the log is read, view.lua how it
// is counted. What a limit has used is a view of the log: hosts with the same limits and
// costs share one, another host has its own beside it, and counts the entries that it has
// not seen. A view that is new begins with its windows, and one that nobody used for as long
// is dropped.
//
// # States
//
// An account decides until a call fails. Then Redis is unreachable, and requests are
// decided by the credential's Policy, at once: refused, or granted offline, never more in
// any window than the allowance, nor than what was left of a limit when Redis was last
// heard. Or Redis has lost entries that are known here: nothing is granted while the log is
// recovering. The account's watcher, which looks at it each second, leads it back:
//
//   - Unreachable: what became of the last call is found out, what was granted offline is
//     replayed into the log, and Redis decides again.
//   - Lost: a quiet period begins in Redis, in which no host is granted anything. Only then is
//     the journal read, and staged; each step begins the period anew. When it has lasted for
//     three seconds, by the clock of a host that waited, and every daemon has staged what it
//     knows that is known to have written to the log while its entries count, the staged entries
//     are merged into the log in their order. While one of those daemons is missing the period
//     lasts for half a minute. An entry whose place has been passed counts from now on, and so
//     longer than it had to.
//
// A daemon that was stopped in order is waited for as well: what it was granted may stand in
// its journal alone, whichever way it left, and most that stop in order are being restarted.
// If it comes after the half minute, it finds that the log lacks its entries, and the log is
// quiet once more while they are put back; until then others may have been granted its units.
//
// A log that expired because nobody used it lacks nothing; nor does one that Reset ended.
//
// # Client limits
//
// What a subject of client limits has used is a record of its own, a string that one call of
// client_log.lua or client_counter.lua reads, decides upon and writes; package clientlimit
// says what it holds. There is no journal and no account of it: a lost record is a fresh
// budget. DecideClients sends the calls of a batch at once. After a call that was not
// answered its node is pinged until it answers, and until then asked nothing: asks fail at
// once, and clientlimit decides them by policy.
//
// # On disk
//
// The journal is a directory of segments; journal.go says what a line is. Each line stands
// alone: an entry is written as it stands in the log, and a settlement is written with the
// grant that it settles. A start reads the newest segment alone, which begins with all that
// is known of each log, and with the offline grants that count; where a machine that lost
// its power has not all of that beginning, the segments before it too.
//
// # Locks, in their order
//
//   - account.turn is held over a call that writes, and while an account recovers. Status,
//     metrics and other credentials never take it.
//   - Ledger.mu is held while SetCredentials runs.
//   - account.mu guards the state. Nothing waits with it held: no call, no file.
//   - journal.mu is held over a write to the journal, never over a sync.
package redisledger
