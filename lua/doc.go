// Package lua holds the scripts by which a ledger in Redis decides: one verb per file,
// each headed by what it takes and answers. lua.go joins each with what it shares: clock.lua
// has the time, account.lua the state of a credential's log, entries.lua its entries, view.lua
// what they count, index.lua a summary of that, and corrections.lua what changes them
// afterwards. grant.lua stands in front of acquire alone. The verbs of a job that hosts share,
// claim, hold, load and save, need the clock alone, and so do those of client limits,
// client_counter and client_log, which decide about one subject's record.
//
// What must be atomic happens in one script, and a script touches the keys that it
// declares and no others. Package redisledger runs them and names the keys.
package lua
