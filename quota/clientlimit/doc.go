// Package clientlimit decides whether a caller of one's own API may make a call: each
// subject, an address, a user or a key, has the limits of its [Clients] to itself.
//
// What a subject has used is one short record, on which the package computes (log.go,
// counter.go); a [Ledger] keeps the records, in a file or in Redis, by the subject's
// [Key]. Unlike that of a credential, a lost record is a fresh budget: nobody else counts
// along, and the windows are short.
//
// The package writes no files.
package clientlimit
