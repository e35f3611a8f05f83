// Package redisledger keeps in Redis what hosts share: the logs of credentials, the records of jobs and the
// records of client limits.
//
// # The store
//
// [Store] keeps one key for each log, a stream. append.lua appends a record if the log
// still ends where its caller saw it end, and if Redis' clock is within the caller's bounds; else
// it returns what the caller lacks, or that the caller's own last record is gone. It decides
// nothing: every host decides on its own copy of the log, by package slidinglog, which says what
// becomes of a lost reply, of an outage and of a lost log. Of a record it reads the head only, to append a grant
// also behind grants of other hosts that its host has not read, if it has room for them.
// The calls of one Append go in one pipeline, in a Cluster one to each node.
//
// An entry of the stream has one field, with one record. What another version wrote has others:
// it is returned as something that is no record, which slidinglog refuses.
//
// The log is trimmed of what no host needs any more. It expires when no host has written to it for
// twice as long as entries are needed.
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
