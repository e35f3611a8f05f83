package config

import (
	"fmt"
	"path/filepath"
	_ "time/tzdata" // time zones mean the same on a host that has no database of them

	"quotad/jobs"
	"quotad/quota"
)

// A Config is what a configuration file means on this host. Its paths are absolute.
type Config struct {
	File        string // as it was given
	StateDir    string // need not exist yet
	Socket      string
	LogLevel    string // "debug", "info", "warn" or "error"
	Metrics     string // the loopback address at which metrics are served too; empty: none
	Access      Access
	Ledger      Ledger
	Credentials []*quota.Credential
	Outages     map[string]Outage // by credential, each has one
	Passes      Passes
	Jobs        []*jobs.Job
	OnEvent     OnEvent

	lines *lines // of the file, for warnings
	notes Errors // warnings of what stands in the file
}

// A Host is what the meaning of a file depends on beside its text.
type Host struct {
	// StateDirectory is what systemd passes as $STATE_DIRECTORY; empty without it.
	StateDirectory string
	// Programs is the directory of the quotad executable, where the programs of
	// jobs are looked up before PATH.
	Programs string
}

// Load reads a file. The error is an Errors, unless the file could not be read.
func Load(file string, host Host) (*Config, error) {
	content, err := readFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read configuration: %w", err)
	}
	// A path without its directory would mean another file to a pass, which
	// has a working directory of its own.
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, fmt.Errorf("cannot read configuration %q: %w", file, err)
	}
	d, root, err := parse(file, content.text)
	if err != nil {
		return nil, err
	}
	r := &reader{document: d, host: host, dir: dir}
	c := r.config(root)
	if len(d.errors) > 0 {
		d.errors.sort()
		return nil, d.errors
	}
	c.File, c.lines = file, d.lines
	if content.writable {
		d.warnings = append(d.warnings, Error{File: file, Line: 1,
			Message: fmt.Sprintf("everybody on this host may write this file, and so say what quotad runs: chmod o-w %s", file)})
	}
	c.notes = d.warnings
	return c, nil
}

// A reader turns the tables of one document into a Config.
type reader struct {
	document *document
	host     Host
	dir      string // of the file: relative paths in it begin there
}

func (r *reader) config(root *table) *Config {
	c := &Config{}
	c.StateDir = r.stateDir(root)
	c.Socket = r.socket(root, c.StateDir)
	c.LogLevel = r.logLevel(root.table("log"))
	c.Metrics = r.metrics(root.table("metrics"))
	c.Access = r.access(root.table("access"))
	c.Ledger = r.ledger(root.table("ledger"))
	r.credentials(c, root.table("credentials"))
	c.Passes = r.passes(root.table("passes"))
	r.jobs(c, root.table("jobs"))
	c.OnEvent = r.onEvent(root.table("on_event"))
	root.end()
	return c
}
