package config

import (
	"slices"
	"strings"
	"testing"
)

const twoHungry = `
[credentials.youtube.limits.daily]
units = 100
[credentials.youtube.operations]
"videos.list" = 1

[jobs.one]
credential = "youtube"
regions = ["US", "GB"]
every = "1h"
expects = { "videos.list" = 60 }
command = ["fetch"]

[jobs.two]
credential = "youtube"
regions = ["US", "GB"]
every = "1h"
command = ["fetch"]
`

// A warning names who asks for how much.
func TestWarnings(t *testing.T) {
	for _, row := range []struct {
		name, more string
		want       string // after the file
	}{
		{"a job that has no expects", "", `2: warning: credentials.youtube.limits.daily: ` +
			`youtube daily: the schedule does not fit: 2,880 units asked in any 24h, 2,780 more than the 100 for jobs: one 2,880 (24 runs)`},
		{"two that each ask for more than there is", `expects = { "videos.list" = 100 }`, `2: warning: credentials.youtube.limits.daily: ` +
			`youtube daily: the schedule does not fit: 7,680 units asked in any 24h, 7,580 more than the 100 for jobs: ` +
			`two 4,800 (24 runs), one 2,880 (24 runs)`},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := said(t, t.TempDir(), twoHungry+row.more); got != row.want {
				t.Errorf("got %v, want %s", got, row.want)
			}
		})
	}
}

// A log that is kept no longer than a limit counts it has a key that does nothing.
func TestKeepWithinAWindow(t *testing.T) {
	for keep, want := range map[string]string{
		"1d": `2: warning: credentials.youtube.keep: does nothing: a limit counts what was granted for 24h, and the log keeps that: remove it, or write more`,
		"2d": "",
	} {
		text := "\ncredentials.youtube.keep = \"" + keep + "\"\ncredentials.youtube.limits.daily.units = 100\ncredentials.youtube.operations.list = 1\n"
		if got := said(t, t.TempDir(), text); got != want {
			t.Errorf("keep %s: got %v, want %s", keep, got, want)
		}
	}
}

const openOnRedis = `
[ledger]
backend = "redis"

[credentials.youtube.limits.daily]
units = 10_000
reserve = 500
[credentials.youtube.limits.search]
units = 4_000
only = ["search.list", "playlists.list"]
[credentials.youtube.operations]
"search.list" = 100
"videos.list" = 1
"playlists.list" = { daily = 10, search = 1 }
[credentials.youtube.on_outage]
`

// What hosts may grant while they cannot see each other is to fit into the reserve.
func TestAllowanceBeyondTheReserve(t *testing.T) {
	for _, row := range []struct {
		name, outage string
		want         []string // after the file, and "each host may spend"
	}{
		{"it fits", `open_units = 500` + "\n" + `"videos.list" = "open"`, nil},
		{"nothing is open", `open_units = 9_000`, nil},
		{"it is larger", `"videos.list" = "open"` + "\n" + `open_units = 501`, []string{
			`501 units of daily, which keeps 500 in reserve: together they may spend more than there is; a reserve of 501 is enough, or open_units = 500`}},
		{"a limit without a reserve", `"search.list" = "open"` + "\n" + `open_units = 250`, []string{
			`200 units of search, which keeps 0 in reserve: together they may spend more than there is; a reserve of 200 is enough`}},
		{"a cost for each limit", `"playlists.list" = "open"` + "\n" + `open_units = 600`, []string{
			`600 units of daily, which keeps 500 in reserve: together they may spend more than there is; a reserve of 600 is enough, or open_units = 500`,
			`60 units of search, which keeps 0 in reserve: together they may spend more than there is; a reserve of 60 is enough`}},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, err := load(t, t.TempDir(), openOnRedis+row.outage+"\n")
			must(t, err)
			var got []string
			for _, w := range c.Warnings() {
				if w.Key != "credentials.youtube.on_outage.open_units" || w.Line != 16+strings.Count(row.outage[:strings.Index(row.outage, "open_units")], "\n") {
					t.Errorf("it stands at %d, %s", w.Line, w.Key)
				}
				got = append(got, strings.TrimPrefix(w.Message, "while Redis cannot be reached each host may spend "))
			}
			slices.Sort(got)
			slices.Sort(row.want)
			if !slices.Equal(got, row.want) {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

// A key in the file is a warning with the place where it belongs, and nothing that is printed has it.
func TestKeyInTheFile(t *testing.T) {
	const key = "AIzaSyD-of-thirty-nine-characters-in-all"
	for name, row := range map[string]struct{ line, want string }{
		"in command":      {`command = ["fetch", "https://x.test/?key=` + key + `&a=1"]`, "jobs.one.command: holds a key, which ps shows"},
		"in a parameter":  {`command = ["fetch", "--token=0123456789abcdef"]`, "jobs.one.command: holds a key, which ps shows"},
		"in env":          {`command = ["fetch"]` + "\n" + `env = { YOUTUBE = "` + key + `" }`, "jobs.one.env.YOUTUBE: holds a key"},
		"in env, by name": {`command = ["fetch"]` + "\n" + `env = { API_TOKEN = "0123456789abcdef" }`, "jobs.one.env.API_TOKEN: holds a key"},
		"the path of one": {`command = ["fetch"]` + "\n" + `env = { API_TOKEN = "/etc/quotad/the.token" }`, ""},
		"none":            {`command = ["fetch", "--page-token=CAUQAA", "key=$KEY"]` + "\n" + `env = { KEY = "short" }`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := load(t, t.TempDir(), "[credentials.y]\nlimits.daily.units = 100\noperations.list = 1\n[jobs.one]\ncredential = \"y\"\nregions = [\"US\"]\nevery = \"1h\"\n"+row.line+"\n")
			must(t, err)
			var got string
			for _, warning := range c.Warnings() {
				got += warning.Error()
			}
			if row.want == "" && got != "" || !strings.Contains(got, row.want) || strings.Contains(got, key) {
				t.Errorf("got %s\nwant %s", got, row.want)
			}
			if text := Redacted(strings.Join(c.Jobs[0].Command, " ")); strings.Contains(text, key) || strings.Contains(text, "0123456789abcdef") {
				t.Errorf("printed: %s", text)
			}
		})
	}
}
