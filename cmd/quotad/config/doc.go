// Package config reads quotad's configuration: a TOML file in, checked credentials and
// jobs out, or everything that is wrong with the file, each error with its line, its
// key and its cure.
//
// Load reads the file, refuses what the decoder could not bear, and decodes it into
// tables. A table hands out its keys by their types and notes what is wrong with them;
// in the place of such a value it returns a harmless one, so that one mistake makes one
// error. Keys that nobody asked for are unknown. The credentials and the jobs then
// check themselves. Lines are looked up where an error is noted.
//
// The package writes nothing and has no locks. It reads the files that keys name, and
// the users and groups of the host.
package config
