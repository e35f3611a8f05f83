package config

//ci:norace

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"quotad/jobs"
	"quotad/jobs/process"
	"quotad/quota"
	"quotad/quota/redisledger"
	"quotad/quota/slidinglog"
	"quotad/quota/upstream"
	"quotad/regions"
)

// good is a file with one of everything that the tests below spoil.
const good = `
[ledger]
backend = "embedded"

[credentials.youtube.limits.daily]
units = 10_000
reserve = 500
window = "24h"

[credentials.youtube.limits.search]
units = 4_000
window = "7d"
only = ["search.list"]

[credentials.youtube.operations]
"search.list" = 100
"videos.list" = 1

[jobs.trending]
credential = "youtube"
regions = ["US", "GB", "DE"]
every = "30m"
stagger = "2s"
expects = { "videos.list" = 4 }
command = ["fetch", "trending"]
timeout = "2m"
`

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	c, err := load(t, dir, good)
	must(t, err)
	for _, row := range []struct {
		name      string
		got, want any
	}{
		{"places", []string{c.StateDir, c.Socket}, []string{"/state", "/state/quotad.sock"}},
		{"level, addresses, group", []string{c.Log.Level, c.Metrics.Listen, c.Proxy.Listen, c.Remote.Listen, c.Access.AdminGroup}, []string{"info", "", "", "", ""}},
		{"ledger", []any{c.Ledger.Backend, c.Ledger.Deadline}, []any{Embedded, 250 * time.Millisecond}},
		{"Redis", c.Ledger.Redis.Config, redisledger.Config{Addrs: []string{"127.0.0.1:6379"}, KeyPrefix: "quotad:"}},
		{"passes", []any{c.Passes.Drain, c.Passes.CgroupRoot, c.Passes.User}, []any{30 * time.Second, process.DelegatedCgroup(), (*process.User)(nil)}},
		{"credentials", c.Credentials, []*quota.Credential{{
			Name: "youtube",
			Limits: []quota.Limit{
				{Name: "daily", Units: 10_000, Reserve: 500, Window: quota.Sliding(24 * time.Hour)},
				{Name: "search", Units: 4_000, Window: quota.Sliding(7 * 24 * time.Hour), Only: []string{"search.list"}},
			},
			Operations: map[string]quota.Cost{"search.list": {Every: 100}, "videos.list": {Every: 1}},
		}}},
		{"outages", c.Outages, map[string]slidinglog.Policy{"youtube": {Open: map[string]bool{}}}},
		{"profiles", c.Profiles, map[string]upstream.Profile{"youtube": {
			Format: upstream.Format{Reasons: upstream.Reasons{}}, Limits: map[string]upstream.Counterpart{},
		}}},
		{"jobs", c.Jobs, []*jobs.Job{{
			Name:       "trending",
			Credential: "youtube",
			Regions:    regions.Ring{"US", "GB", "DE"},
			Schedule:   jobs.Every{Period: 30 * time.Minute},
			Stagger:    2 * time.Second,
			Expects:    map[string]quota.Units{"videos.list": 4},
			Command:    []string{filepath.Join(dir, "fetch"), "trending"},
			Files:      "/state/data/trending",
			Dir:        "/state/data/trending",
			Env:        map[string]string{},
			Timeout:    2 * time.Minute,

			CatchUp: true, MaxWait: time.Minute,
		}}},
	} {
		if !reflect.DeepEqual(row.got, row.want) {
			t.Errorf("%s: got  %+v\nwant %+v", row.name, row.got, row.want)
		}
	}
}

func load(t *testing.T, dir, text string) (*Config, error) {
	t.Helper()
	program(t, dir, "fetch")
	file := write(t, dir, "config.toml", text)
	return Load(file, Host{StateDirectory: "/state", Programs: dir})
}

// program makes an executable file.
func program(t *testing.T, dir, name string) {
	t.Helper()
	must(t, os.Chmod(write(t, dir, name, "#!/bin/sh\n"), 0o755))
}

func write(t *testing.T, dir, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestLoadDetails(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "youtube.env", "# a comment\n\nYOUTUBE_API_KEY=\"secret\"\nLEVEL='1'\nPIN=87654321\nHASH=ab#cdefgh1\nSPACED=a b = c\nEMPTY=\nNONE=\"\"\nQUOTE=\"\n")
	write(t, dir, "password", " hunter2 \r\n")
	must(t, os.Mkdir(filepath.Join(dir, "data"), 0o700))
	c, err := load(t, dir, `
state_dir = "state"
socket = "/run/quotad.sock"
log.level = "debug"
metrics.listen = "[::1]:9464"
on_event.command = ["fetch", "--near"]
on_event.kinds = ["low"]

[ledger]
backend = "redis"
deadline = "1s"
[ledger.redis]
addrs = ["unix:///run/redis.sock"]
username = "quotad"
password_file = "password"
key_prefix = "q"
tls = true

[passes]
drain = "0s"

[credentials.b.limits.daily]
units = 100
window = { calendar = "day", timezone = "America/Los_Angeles" }
warn_below = 30
[credentials.b.limits.calls]
units = 10
[credentials.b.operations]
list = 2
search = { daily = 50, calls = 1 }
[credentials.b.on_outage]
default = "open"
search = "closed"
open_units = 5

[credentials.a]
limits.daily.units = 1
operations.list = 1

[jobs.fetch]
credential = "b"
regions = ["all"]
every = "1d"
missed = "skip"
max_wait = "0s"
command = ["fetch"]
env_file = "youtube.env"
env = { LEVEL = "2", API_TOKEN = "0123456789abcdef" }
dir = "data"
`)
	must(t, err)
	zone, err := time.LoadLocation("America/Los_Angeles")
	must(t, err)
	job, b := c.Jobs[0], c.Credentials[0]
	tests := []struct {
		name      string
		got, want any
	}{
		{"state directory", c.StateDir, filepath.Join(dir, "state")},
		{"socket", c.Socket, "/run/quotad.sock"},
		{"metrics", c.Metrics.Listen, "[::1]:9464"},
		{"events", []any{c.OnEvent.Command, c.OnEvent.Kinds, c.OnEvent.WarnBelow}, []any{[]string{filepath.Join(dir, "fetch"), "--near"}, []string{EventLow}, map[string]quota.Units{"b daily": 30}}},
		{"deadline", c.Ledger.Deadline, time.Second},
		{"redis", c.Ledger.Redis.Addrs, []string{"unix:///run/redis.sock"}},
		{"redis password", c.Ledger.Redis.Password, " hunter2 "},
		{"redis tls", c.Ledger.Redis.TLS != nil, true},
		{"credentials in the order of the file", []string{b.Name, c.Credentials[1].Name}, []string{"b", "a"}},
		{"limits in the order of the file", []string{b.Limits[0].Name, b.Limits[1].Name}, []string{"daily", "calls"}},
		{"calendar window", b.Limits[0].Window, quota.Calendar(quota.Day, zone)},
		{"costs", b.Operations, map[string]quota.Cost{"list": {Every: 2}, "search": {Per: map[string]quota.Units{"daily": 50, "calls": 1}}}},
		{"outage", c.Outages["b"], slidinglog.Policy{Open: map[string]bool{"list": true}, Units: 5}},
		{"no wait", job.MaxWait, time.Duration(0)},
		{"schedule", job.Schedule.String(), "every 24h"},
		{"missed", job.CatchUp, false},
		{"working directory", job.Dir, filepath.Join(dir, "data")},
		{"environment", job.Env, map[string]string{"YOUTUBE_API_KEY": "secret", "LEVEL": "2", "SPACED": "a b = c", "QUOTE": `"`,
			"EMPTY": "", "NONE": "", "PIN": "87654321",
			"HASH": "ab#cdefgh1", "API_TOKEN": "0123456789abcdef"}},
		{"what is kept out of logs", job.Secrets, []string{"87654321", "ab#cdefgh1", "0123456789abcdef"}},
	}
	for _, test := range tests {
		if !reflect.DeepEqual(test.got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, test.got, test.want)
		}
	}
}

// Without stagger, regions start 2 s apart, or spread over a period that is too short for that.
func TestDefaultStagger(t *testing.T) {
	const apart = 2 * time.Second
	for every, want := range map[string]time.Duration{"4h": apart, "5s": apart, "4s": jobs.EvenStagger} {
		text := strings.Replace(good, "every = \"30m\"\nstagger = \"2s\"", fmt.Sprintf("every = %q", every), 1)
		c, err := load(t, t.TempDir(), text)
		if err != nil || c.Jobs[0].Stagger != want {
			t.Errorf("every %s: got %v (%v), want %v", every, c.Jobs[0].Stagger, err, want)
		}
	}
}

// On a ledger of its own a host leaves a job to the host that the job names.
func TestHostOfAJob(t *testing.T) {
	for host, want := range map[string]bool{"this": true, "that": false} {
		text := "name = \"this\"\n" + strings.Replace(good, `every = "30m"`, fmt.Sprintf("every = \"30m\"\nrun_at_start = true\nhost = %q",
			host), 1)
		c, err := load(t, t.TempDir(), text)
		must(t, err)
		if runs := c.Jobs[0].Schedule != (jobs.Unscheduled{}); runs != want || c.Jobs[0].RunAtStart != want {
			t.Errorf("of host %s: it runs here is %v", host, runs)
		}
	}
}

// What env_file holds is secret, also where it is malformed.
func TestEnvFileErrorsTellNoSecrets(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "youtube.env", "YOUTUBE_API_KEY: hunter2\n=hunter2\nhunter2\nGOOD=1\nhunter-2=1")
	_, err := load(t, dir, strings.Replace(good, `timeout = "2m"`, `env_file = "youtube.env"`, 1))
	if err == nil {
		t.Fatal("a malformed env_file was accepted")
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !strings.Contains(line, "config.toml:26: jobs.trending.env_file: ") || !strings.Contains(line, "youtube.env:") {
			t.Errorf("which line of which file is wrong? %s", line)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 4 {
		t.Errorf("got %d errors, want 4: %v", n, err)
	}
	if strings.Contains(err.Error(), "hunter") {
		t.Errorf("an error tells a secret: %v", err)
	}
}

// Where nobody names a state directory it lies in the working directory: there
// quotactl looks for the socket.
func TestDefaultPlaces(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "config.toml", good)
	t.Chdir(t.TempDir())
	program(t, dir, "fetch")
	c, err := Load(file, Host{Programs: dir})
	must(t, err)
	here, err := os.Getwd()
	must(t, err)
	if want := filepath.Join(here, ".quotad/quotad.sock"); c.Socket != want {
		t.Errorf("the socket is %s, want %s", c.Socket, want)
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1.5h": 90 * time.Minute, "250ms": 250 * time.Millisecond, "7d": 7 * day,
		"1d12h": 36 * time.Hour, "0s": 0, "0": 0, "65535d": 65535 * day,
		"": -1, "24": -1, "24 h": -1, "d": -1, "-1h": -1, "1d-1h": -1, "1.5d": -1, "1h1d": -1, "65536d": -1,
		"4294967296d": -1, "∞": -1,
	} {
		got, err := parseDuration(text)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q is %v (%v), want %v", text, got, err, want)
		}
	}
}

// must fails a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
