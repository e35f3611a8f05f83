// Package lua holds the scripts that run inside Redis: one verb per file, each headed by what
// it takes and answers. lua.go puts clock.lua, which reads the time, in front of each.
// append.lua keeps a log that hosts share, of a credential or of a job. swap.lua replaces a small
// record, such as that of a subject of client limits. Neither decides anything.
//
// What must be atomic happens in one script, and a script touches the keys that it
// declares and no others. Package redisledger runs them and names the keys.
package lua
