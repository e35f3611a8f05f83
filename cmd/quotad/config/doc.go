// Package config reads quotad's configuration: a TOML file in, checked credentials and
// jobs out, or everything that is wrong with the file, each error with its line, its
// key and its cure.
//
// Load reads the file (files.go), refuses what lies so deep that the TOML package could not
// bear it, finds the line of each key (lines.go) and has the file decoded into maps
// (document.go). From these it fills the structs of tables.go, which list every key with its
// type and default (decode.go); types with a notation of their own, durations for instance,
// read themselves (values.go). If nothing is wrong so far, each struct checks what no single
// key shows and becomes the part of a Config that others use (config.go, ledger.go,
// credentials.go, jobs.go). What is wrong is noted in the document with its line, so that one
// reading shows every mistake, and one mistake makes one error. Changes compares the structs
// of two files, for a reload.
//
// A new key is a field in tables.go, its explanation in reference.toml, and a line where its table becomes
// part of the Config. Changes compares it without more; testdata/every-key.toml must have it. The
// reference (reference.go) lists every key from these two: as text, as REFERENCE.md, and as the
// manual page quotad.toml(5).
//
// The package writes nothing and has no locks. It reads the files that keys name, and
// the users and groups of the host.
package config
