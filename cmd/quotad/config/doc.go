// Package config reads quotad's configuration: a TOML file in, checked credentials and
// jobs out, or everything that is wrong with the file, each error with its line, its
// key and its cure.
//
// Load reads the file (files.go) and refuses what is nested too deeply for the TOML package. It
// decodes the file into maps and finds the line of each key (document.go).
// From these it fills the structs of tables.go, which list every key with its
// type, its default, and what it requires (decode.go). Types with a notation of their own, such as durations,
// read themselves (values.go, costs.go, commands.go), and so do the files that keys name (files.go). A credential's table is merged with its preset
// first (presets.go).
//
// If nothing is wrong so far, each struct checks what no single key shows and becomes the part of a
// Config that others use (config.go, ledger.go, credentials.go, shares.go, jobs.go, clients.go, proxy.go,
// remote.go). A node records each error with its line, so that one
// reading shows every mistake, and one mistake makes one error. What is no error but hardly meant is a
// warning (warnings.go). Changes compares the structs of two files, for a reload (changes.go).
//
// A new key is a field in tables.go, its explanation in reference.toml, and a line where its table becomes
// part of the Config. Changes compares it without more. The tests then name the rest: the list of changes_test.go, and
// REFERENCE.md, which -update writes. The reference (reference.go) lists every key from these two: as text, as REFERENCE.md, and
// as the manual page quotad.toml(5).
//
// The package writes nothing and has no locks. It reads the files that keys name, and
// the users and groups of the host.
package config
