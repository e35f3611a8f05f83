// Package redisledger keeps in Redis what hosts share: the logs of credentials, the records of jobs and the
// records of client limits.
//
// # The engine
//
// [Store] is a slidinglog.Engine: it runs the scripts of package lua, one call at a time, in two keys of each credential
// and one of all daemons. It repeats no call, and has go-redis repeat none: package slidinglog asks again under the same
// id. Each new connection declares, before anything else, which server it leads to: on another one than
// a log was written on, nothing is granted until all hosts have looked (engine.go).
//
// A log expires when nothing was written to it for twice as long as entries are kept.
//
// # Client limits
//
// What a subject of client limits has used is a record of its own, a string. Package clientlimit
// says what it holds, and decides by it. In one pipeline for a batch, swap.lua reads records, or replaces those that
// are still as they were read. The records are a key each,
// so that in a Cluster they are spread over its nodes. What hosts share, their secrets among it, is
// at the key "clients:salts".
//
// No host has a copy of a record: a subject whose record is lost has its whole budget again. After a
// call that was not answered for half a deadline, its node is pinged until it answers. Until then it is not called: asks
// fail at once, and clientlimit decides them by policy.
//
// # Answers and connections
//
// An error that Redis answers is a refusal (refusal.go): it has a cure, and nothing was done. Only a
// connection that breaks or is not made means that Redis cannot be reached. If the server behind an
// address has become a replica, or is a node of a Cluster, the client is replaced with its connections
// (client.go). No connection is used for longer than a minute.
//
// # Locks
//
// Store.mu guards what Health remembers of the server, and is held while the client is replaced. It is
// not held during a call.
package redisledger
