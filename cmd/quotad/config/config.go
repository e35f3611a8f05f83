package config

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
	_ "time/tzdata" // time zones mean the same on a host that has no database of them

	"quotad/jobs"
	"quotad/jobs/plan"
	"quotad/jobs/process"
	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/proxy"
	"quotad/quota/server"
	"quotad/quota/slidinglog"
	"quotad/quota/upstream"
)

// A Config is what a configuration file means on this host: the values of its keys, with their defaults, and what
// follows from several of them. Its paths are absolute.
type Config struct {
	fileTable
	File         string // as it was given
	Name         string // of this host, for others and for people
	Callers      []server.RemoteCaller
	Credentials  []*quota.Credential
	Outages      map[string]slidinglog.Policy // by credential, each has one
	Profiles     map[string]upstream.Profile  // by credential, each has one
	Targets      []*proxy.Target              // of calls through the proxy, for each credential that has one
	Jobs         []*jobs.Job
	Fits         func() []plan.Fit      // whether the jobs fit the limits, limit by limit, if no other caller spends
	Clients      []*clientlimit.Clients // of your own API
	ClientSecret string                 // of secret_file; empty: the one that quotad draws
}

// The kinds of events for which the command of [on_event] may run.
const (
	EventTrouble    = "trouble"     // a trouble begins
	EventOver       = "over"        // it ends
	EventLow        = "low"         // less than warn_below of a limit is left
	EventRunStarted = "run_started" // each run that was not skipped
	EventRunEnded   = "run_ended"   // each run, also one that was skipped
)

// Events are all kinds of them.
func Events() []string {
	return []string{EventTrouble, EventOver, EventLow, EventRunStarted, EventRunEnded}
}

// A Host is what the meaning of a file depends on, apart from its text.
type Host struct {
	// Name is that of the machine.
	Name string
	// StateDirectory is what systemd passes as $STATE_DIRECTORY; empty without it.
	StateDirectory string
	// PassesUser is the user that passes run as if the file names none. Our units pass it
	// in $QUOTAD_PASSES_USER; empty: the user that quotad runs as.
	PassesUser string
	// Programs is the directory of the quotad executable, where the programs of
	// jobs are looked up before PATH.
	Programs string
	// Now is the time by which certificates and beginnings of periods are judged; zero: none is.
	Now time.Time
	// Checking says that the file is read for a service that need not run: files that only systemd
	// provides may be missing.
	Checking bool
}

// Load reads a file. The error is an Errors, unless the file could not be read.
func Load(file string, host Host) (*Config, error) {
	content, err := readFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read configuration: %w", err)
	}
	// A relative path would mean another file to a pass, which
	// has a working directory of its own.
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, fmt.Errorf("cannot read configuration %q: %w", file, err)
	}
	d := &document{file: file, host: host, dir: dir}
	values, err := d.parse(content.text)
	if err != nil {
		return nil, err
	}
	c := &Config{File: file}
	root := node{document: d, value: values}
	root.into(&c.fileTable)
	if len(d.errors) == 0 { // else errors would follow from errors: a misspelt key makes another one missing
		d.errors = d.later
		c.complete()
	}
	if len(d.errors) > 0 {
		d.errors.sort()
		return nil, d.errors
	}
	if content.writable {
		root.warn("everybody on this host may write this file, and so say what quotad runs: chmod o-w %s", file)
	}
	c.Fits = sync.OnceValue(func() []plan.Fit { return plan.Sum(c.Jobs, c.Credentials) })
	return c, nil
}

// Warnings returns what is hardly meant but no error. Among them is each limit that the jobs do not fit, where runs
// will end early.
func (c *Config) Warnings() Errors {
	warnings := slices.Clone(c.document.warnings)
	for _, f := range c.Fits() {
		if f.Over() > 0 {
			limit := []string{"credentials", f.Credential, "limits", f.Limit}
			warnings = append(warnings, c.document.at(limit, "%s: plan fewer runs or regions, or some will stop early", f.Shortage()))
		}
	}
	warnings.sort()
	return warnings
}

// DataDir holds a directory for each job, in which its passes keep files.
func (c *Config) DataDir() string { return filepath.Join(c.StateDir, "data") }

// complete sets what follows from several keys, and checks it.
func (c *Config) complete() {
	c.defaultPlaces()
	c.Name = cmp.Or(c.fileTable.Name, c.document.host.Name)
	c.Ledger.complete()
	c.Passes.CgroupRoot = process.DelegatedCgroup()
	c.Passes.defaultUser(c.document.host.PassesUser)
	c.OnEvent.complete()
	c.credentials()
	c.idleProxy()
	c.jobs()
	c.remote()
	c.shares()
	c.clients()
}

const (
	// quotactl looks for the daemon in the same places.
	localStateDir = ".quotad"
	socketName    = "quotad.sock"
	// maxSocketPath is what sun_path holds on Linux, less its closing zero: unix(7).
	maxSocketPath = 107
)

// defaultPlaces puts the state directory into the working directory if neither the
// file nor systemd names one, and the socket into the state directory.
func (t *fileTable) defaultPlaces() {
	if t.StateDir == "" {
		t.StateDir, _ = filepath.Abs(cmp.Or(t.document.host.StateDirectory, localStateDir)) // where it fails, nothing is there
	}
	t.Socket = cmp.Or(t.Socket, t.StateDir+"/"+socketName)
	if len(t.Socket) > maxSocketPath {
		t.fail("socket", "%q has %d bytes, the path of a socket at most %d: name a shorter one", t.Socket, len(t.Socket), maxSocketPath)
	}
}

// defaultUser sets the user of passes that the unit names, if any. quotad then has the capabilities
// to become that user, and passes of quotad's own user would have them too.
func (t *Passes) defaultUser(byDefault string) {
	if byDefault == "" {
		return
	}
	name, present := t.values["user"].(string)
	if !present {
		var err error
		if t.User, err = findUser(byDefault); err != nil {
			t.fail("user", "$QUOTAD_PASSES_USER: %v", err)
		}
		return
	}
	if own, err := process.LookupUser(name); name == "" || err == nil && own.UID == os.Geteuid() {
		t.fail("user", "passes of quotad's own user would have its capabilities: leave the key out for %s, or apply systemd/drop-ins/daemon-user.conf", byDefault)
	}
}

func (t *OnEvent) complete() {
	t.WarnBelow = map[string]quota.Units{}
	if !t.has("kinds") {
		t.Kinds = []string{EventTrouble, EventOver}
	}
	for _, kind := range t.Kinds {
		if !slices.Contains(Events(), kind) {
			t.fail("kinds", "there is no event %q%s", kind, suggest(kind, Events()))
		}
	}
}

// warnBelow reads the number of units that are few of a limit.
func (t *limitTable) warnBelow(on *OnEvent, name string) {
	if !t.has("warn_below") {
		return
	}
	if t.WarnBelow < 1 || t.WarnBelow > t.Units-t.Reserve {
		t.fail("warn_below", "must be from 1 to %d, which jobs may spend: %d", t.Units-t.Reserve, t.WarnBelow)
	}
	if on.Command != nil && !slices.Contains(on.Kinds, EventLow) {
		t.at("warn_below").warn(`is only logged: add "low" to kinds in [on_event]`)
	}
	on.WarnBelow[name] = t.WarnBelow
}
