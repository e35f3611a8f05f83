package config

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
)

// loadClients reads a file in which nothing but clients stands, from its first line on.
func loadClients(t *testing.T, text string) (*Config, error) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	must(t, os.WriteFile("config.toml", []byte(text), 0o600))
	return Load("config.toml", Host{StateDirectory: "/state", Programs: dir})
}

func TestClients(t *testing.T) {
	c, err := loadClients(t, `[clients.public]
units = 60
window = "1m"
[clients.partner]
algorithm = "counter"
on_outage = "closed"
limits.minute = { units = 600, window = "1m" }
limits.day = { units = 100_000, window = "1d", enforce = false }
operations.search = 10
`)
	must(t, err)
	want := []*clientlimit.Clients{
		{Name: "public", Algorithm: clientlimit.Log, OpenOnOutage: true, Operations: map[string]quota.Units{}, Limits: []quota.Limit{{Name: "default", Units: 60, Window: quota.Sliding(time.Minute)}}},
		{Name: "partner", Algorithm: clientlimit.Counter, Operations: map[string]quota.Units{"search": 10}, Limits: []quota.Limit{
			{Name: "minute", Units: 600, Window: quota.Sliding(time.Minute)},
			{Name: "day", Units: 100_000, Window: quota.Sliding(24 * time.Hour), DryRun: true},
		}},
	}
	if !reflect.DeepEqual(c.Clients, want) {
		t.Errorf("got  %+v %+v\nwant %+v %+v", c.Clients[0], c.Clients[1], want[0], want[1])
	}
	if keys := c.NeedsRestart(c); keys != nil {
		t.Errorf("%v need a restart", keys)
	}
}

func TestBadClients(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{"no name", "[clients]\nunits = 60\nwindow = \"1m\"", `2: clients.units: is in no table of its own: give that a name, such as [clients.public]`},
		{"no name, limits", "[clients.limits.minute]\nunits = 60\nwindow = \"1m\"", `1: clients.limits: is in no table of clients: give them a name, such as [clients.public]`},
		{"nothing", "[clients.public]", `1: clients.public.units: is missing: add units = 60
1: clients.public.window: is missing: add window = "1m"`},
		{"no window", "[clients.public]\nunits = 60", `1: clients.public.window: is missing: add window = "1m"`},
		{"no limit", "[clients.public]\nlimits = {}", `2: clients.public.limits: clients need at least one limit, and have at most 8: 0`},
		{"units beside limits", "[clients.public]\nunits = 60\nlimits.minute = { units = 60, window = \"1m\" }", `2: clients.public.units: cannot be combined with limits: move it into one of them, such as [clients.public.limits.minute]`},
		{"no units", "[clients.public]\nunits = 0\nwindow = \"1m\"\noperations.search = 10", `2: clients.public.units: must be from 1 to 100000 with algorithm log and a window of 1m0s: 0`},
		{"a text", "[clients.public]\nunits = \"60\"\nwindow = \"1m\"\noperations.search = 10", `2: clients.public.units: must be a whole number, not the string "60"`},
		{"a window of a calendar", "[clients.public]\nunits = 60\nwindow = { calendar = \"day\", timezone = \"UTC\" }", `3: clients.public.window: must be a trailing time of whole seconds, from 1s to 8784h0m0s: day UTC`},
		{"a window of a fraction", "[clients.public]\nunits = 60\nwindow = \"1500ms\"", `3: clients.public.window: must be a trailing time of whole seconds, from 1s to 8784h0m0s: 1.5s`},
		{"a long log", "[clients.public]\nunits = 1_000_000\nwindow = \"1d\"", `2: clients.public.units: must be from 1 to 100000 with algorithm log and a window of 24h0m0s: 1000000`},
		{"an algorithm", "[clients.public]\nunits = 60\nwindow = \"1m\"\nalgorithm = \"bucket\"", `4: clients.public.algorithm: must be one of "log", "counter", not "bucket"`},
		{"a key", "[clients.public]\nunits = 60\nwindow = \"1m\"\nreserve = 1", `4: clients.public.reserve: unknown key: known are "algorithm", "enforce", "limits", "on_outage", "operations", "units", "window"`},
		{"how subjects were kept", "[clients.public]\nunits = 60\nwindow = \"1m\"\nsubjects = \"plain\"", `4: clients.public.subjects: is no key any more: remove it: subjects are always kept as hashes`},
		{"a window of a millisecond", "[clients.public]\nunits = 60\nwindow = \"1ms\"", `3: clients.public.window: must be a trailing time of whole seconds, from 1s to 8784h0m0s: 1ms`},
		{"an outage", "[clients.public]\nunits = 60\nwindow = \"1m\"\non_outage = \"opened\"", `4: clients.public.on_outage: must be one of "open", "closed", not "opened"`},
		{"a cost", "[clients.public]\nunits = 60\nwindow = \"1m\"\noperations.search = 61", `4: clients.public.operations.search: costs 61 units, which can never fit limit "default": 60 units`},
		{"a name without quotes", "[clients.public]\nunits = 60\nwindow = \"1m\"\noperations.search.list = 10", `4: clients.public.operations.search: must not be a table: an operation with a dot in its name needs quotes, "search.list"`},
		{"one window twice", "[clients.public]\nlimits.minute = { units = 60, window = \"1m\" }\nlimits.second = { units = 1, window = \"60s\" }", `3: clients.public.limits.second.window: limit "minute" has the same: the smaller of the two is enough`},
		{"a key of a limit", "[clients.public]\nlimits.minute = { units = 60, window = \"1m\", only = [\"search\"] }", `2: clients.public.limits.minute.only: unknown key: known are "enforce", "units", "window"`},
		{"a name", "[clients.\"the public\"]\nunits = 60\nwindow = \"1m\"", `1: clients."the public": a name is made of letters, digits and any of "_-", and begins with a letter or digit: "the public"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := said(t, t.TempDir(), row.text); got != row.want {
				t.Errorf("got\n%s\nwant\n%s", got, row.want)
			}
		})
	}
}

// What the page shows is a good file.
func TestClientsOfThePage(t *testing.T) {
	page, err := os.ReadFile("../CLIENTS.md")
	must(t, err)
	_, rest, _ := strings.Cut(string(page), "```toml\n[clients.partners]")
	block, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the page shows no clients")
	}
	if c, err := loadClients(t, "[clients.partners]"+block); err != nil || len(c.Warnings()) > 0 || len(c.Clients[0].Limits) != 2 {
		t.Errorf("%+v, %v", c, err)
	}
}
