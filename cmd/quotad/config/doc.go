// Package config reads quotad's configuration: a TOML file in, checked credentials and
// jobs out, or everything that is wrong with the file, each error with its line, its
// key and its cure.
//
// Load reads the file (files.go) and refuses what is nested too deeply for the TOML package. It
// decodes the file into maps and finds the line of each key (document.go).
// From these it fills the structs of tables.go, and those of other packages within them, by their tags: key, type,
// default, and what a value must be (decode.go, texts.go, values.go, costs.go). Files that keys name are read with it
// (files.go). A credential's table is merged with its preset first (presets.go).
//
// If nothing is wrong so far, Config.complete checks what no single key shows and sets what follows from several
// (config.go, ledger.go, credentials.go, shares.go, jobs.go, clients.go, proxy.go, remote.go). A node records each
// error with its line, so that one reading shows every mistake, and one mistake makes one error. What is no error but
// hardly meant is a warning. For a reload, changes.go compares two files table by table.
//
// A new key is a field with tags, in tables.go or in the domain's struct, and its explanation in reference.toml. It is
// then read, checked and part of the Config. REFERENCE.md and the schema, which the program prints, are written from
// both by the tests: go test -run TestReferencePage -update (generate_test.go).
//
// The package writes nothing and has no locks. It reads the files that keys name, and
// the users and groups of the host.
package config
