// Package redisledger keeps in Redis what hosts share: the logs of credentials, the records of jobs and what
// clients of your own APIs have used.
//
// # The engine
//
// [Store] is a slidinglog.Engine: it runs the scripts of package lua, one call at a time, in two keys of each credential
// and one of all daemons. It repeats no call, and has go-redis repeat none: package slidinglog asks again under the same
// id. Each connection declares, before a log is used on it, which server it leads to: on another one than the log was
// written on, nothing is granted until all hosts have looked (declare.go).
//
// A log expires when nothing was written to it for twice as long as entries are kept.
//
// # Client limits
//
// A subject of client limits has one key. client_log.lua or client_counter.lua decides in one call, which is not repeated
// (clients.go). In a Cluster the keys are spread over its nodes. [OpenClients] does that without a daemon.
//
// After two calls that were not answered, their node is called by one call at a time, every 250 ms, until it answers.
// Others fail at once, and clientlimit decides them by policy.
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
