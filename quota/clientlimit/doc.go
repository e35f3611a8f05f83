// Package clientlimit decides whether a caller of your own API may make a call: each subject, an address, a user or a
// key, has the limits of its [Clients] to itself.
//
// A [Service] finds the clients in a snapshot of the configuration, which a reload replaces, and what the call costs.
// It makes a [Key] of the subject (count.go), and asks a [Store], which decides in one call: in Redis by the scripts
// client_log.lua and client_counter.lua, on one host in [Memory] by the same rules. If the store is away, OpenOnOutage
// decides. A record expires when nothing in it counts. Unlike a credential's log, a lost record starts over with a full
// budget: no copy exists, and the windows are short.
//
// The key is a hash of the subject and of how it is counted, by a secret: with other windows, or another algorithm, a
// subject has another record. All who share a store share its secret, which the first of them draws. If it is lost, the
// first that notices puts back the one it knows.
//
// The package writes no files; Memory.Save writes what a daemon keeps over a restart. Its lock is Memory.mu.
package clientlimit
