// Package lua holds the scripts that run inside Redis, and on one host alone inside quotad: one verb a file, each headed
// by what it takes and answers. acquire.lua decides a request (it also looks and books); correct.lua settles,
// resets, closes and opens; walk.lua finds when units leave; restore.lua puts back what a log has lost, which
// declare.lua notices on a new connection; mirror.lua reads a log; hosts.lua says which daemons live. clock.lua,
// known.lua, pages.lua, settle.lua and server.lua are parts that several share. client_log.lua and client_counter.lua
// decide calls of clients, in Redis alone; README.md has their contract.
//
// What must be atomic happens in one script, and a script touches the keys that it declares and no others. One host
// runs the same text by gopher-lua, so a script uses only what both agree about: a number becomes text by
// string.format('%.0f'), never by .. or tostring, and no statement assigns a local that it also reads.
// Package redisledger runs them in Redis, package slidinglog on one host; slidinglog's doc.go has the grammar of an
// entry and what a host does with each answer.
package lua
