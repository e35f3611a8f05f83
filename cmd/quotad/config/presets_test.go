package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/proxy"
	"quotad/quota/upstream"
)

// Each preset is a whole credential by itself: its operations count somewhere, its routes
// lead to operations, and its facts have a date.
func TestEachPresetIsWhole(t *testing.T) {
	for _, name := range presetNames() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeKey(t, dir, "the-key-of-sixteen")
			c, err := load(t, dir, fmt.Sprintf("[proxy]\nlisten = \"127.0.0.1:0\"\n[credentials.c]\npreset = %q\nproxy.key_file = \"a.key\"\n", name))
			must(t, err)
			preset := c.Presets["c"]
			if preset.Checked.Year() < 2026 || !strings.HasPrefix(preset.Page, "https://") || preset.Operations != len(c.Credentials[0].Operations) {
				t.Errorf("got %+v", preset)
			}
			if target := c.Targets[0]; target.Routes.Len() < 1 || target.Upstream.Scheme != "https" || !reflect.DeepEqual(target.Key, proxy.FixedKey("the-key-of-sixteen")) {
				t.Errorf("got %+v", target)
			}
			if warnings := c.Warnings(); len(warnings) != 0 {
				t.Errorf("got %v", warnings)
			}
			if len(c.Profiles["c"].Limits) != len(c.Credentials[0].Limits) {
				t.Errorf("got %+v, want each limit to be known by its name upstream", c.Profiles["c"].Limits)
			}
		})
	}
	for _, name := range presetNames() {
		if text, err := PresetText(name); err != nil || strings.Count(text, "\nchecked = ") != 1 {
			t.Errorf("preset %s is not printed as it stands: %v", name, err)
		}
	}
}

// What the file says overrides what its preset brings, key by key.
func TestFileOverridesPreset(t *testing.T) {
	c, err := load(t, t.TempDir(), `
[credentials.youtube]
preset = "youtube-2026-06"
[credentials.youtube.limits.uploads]
units = 6
[credentials.youtube.limits.daily]
reserve = 500
window = "25h"
[credentials.youtube.limits.own]
units = 50
only = ["captions.list"]
[credentials.youtube.operations]
"search.list" = { search = 1, daily = 1 }
"captions.list" = { daily = 50, own = 1 }
`)
	must(t, err)
	credential := c.Credentials[0]
	limit := func(name string) quota.Limit {
		l, _ := credential.Limit(name)
		return l
	}
	if l := limit("uploads"); l.Units != 6 || l.Window.Period != quota.Day {
		t.Errorf("got %+v", l)
	}
	if l := limit("daily"); l.Units != 10_000 || l.Reserve != 500 || l.Window != quota.Sliding(25*time.Hour) {
		t.Errorf("got %+v", l)
	}
	if cost := credential.Operations["search.list"].In(limit("daily"), "search.list"); cost != 1 || len(credential.Operations) != 50 {
		t.Errorf("search.list costs %d in daily, of %d operations", cost, len(credential.Operations))
	}
	if names := c.Profiles["youtube"].Limits["uploads"].Names; !slices.Contains(names, "Video Uploads per day") {
		t.Errorf("got %q", names)
	}
	if c.Profiles["youtube"].Format.Reasons["uploadLimitExceeded"] != upstream.OK || c.Profiles["youtube"].Format.Day.Period != quota.Day {
		t.Errorf("got %+v", c.Profiles["youtube"].Format)
	}
}

// What is wrong with what a file says of its upstream, or hardly meant.
func TestUpstreamErrors(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{"an unknown preset", "[credentials.c]\npreset = \"youtube-2026\"\n", `credentials.c.preset: unknown preset "youtube-2026": did you mean "youtube-2026-06"?`},
		{"a limit like one of the preset", "[credentials.c]\npreset = \"youtube-classic\"\nlimits.dialy.reserve = 500\n",
			`:3: credentials.c.limits.dialy: preset youtube-classic has no limit of this name: did you mean "daily"?`},
		{"a reset that slides", "[credentials.c.limits.d]\nunits = 1\nupstream = { resets = \"24h\" }\n[credentials.c.operations]\nget = 1\n", `upstream.resets: must be a period, such as`},
		{"a class that is none", "[credentials.c]\npreset = \"github-rest\"\n[credentials.c.answers]\nreasons = { gone = \"forever\" }\n", `credentials.c.answers.reasons.gone: must be one of "ok", "minute", "day", "key", "billing", "unknown", not "forever"`},
		{"a reset of unknown form", "[credentials.c]\npreset = \"youtube-classic\"\n[credentials.c.answers.headers]\nreset = \"x-reset\"\n", `reset_is: is missing`},
	} {
		t.Run(row.name, func(t *testing.T) {
			if _, err := load(t, t.TempDir(), row.text); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %s", err, row.want)
			}
		})
	}
}

// A period from an instant may begin in the future: periods come before it too.
func TestPeriodFromAnInstant(t *testing.T) {
	now := time.Date(2026, 11, 26, 20, 0, 0, 0, time.UTC)
	for from, want := range map[string]string{
		`"2026-01-01T12:30:15+01:00"`: "",
		`2026-01-01T11:30:15Z`:        "",
		`"2027-05-05T11:30:15Z"`:      `:3: warning: credentials.c.limits.daily.window.from: lies in the future: periods come before it too, of which one began at 2026-11-26T11:30:15Z`,
	} {
		file := write(t, t.TempDir(), "config.toml", "[credentials.c]\noperations.get = 1\nlimits.daily = { units = 10, window = { every = \"24h\", from = "+from+" }, upstream.resets = { every = \"24h\", from = "+from+" } }\n")
		c, err := Load(file, Host{Now: now})
		must(t, err)
		if after, end := c.Credentials[0].Limits[0].Window.Bounds(now); !end.Equal(time.Date(2026, 11, 27, 11, 30, 15, 0, time.UTC)) || end.Sub(after) != 24*time.Hour+time.Microsecond {
			t.Errorf("%s: it is (%v, %v)", from, after, end)
		}
		warnings := c.Warnings()
		if want == "" && len(warnings) > 0 || want != "" && (len(warnings) != 2 || !strings.HasSuffix(warnings[1].Warning(), want)) {
			t.Errorf("%s: got %v", from, warnings)
		}
	}
	c, err := load(t, t.TempDir(), "[credentials.c]\noperations.get = 1\nlimits.daily = { units = 10, window = \"23h\", upstream.resets = { every = \"24h\", from = \"2026-01-01T11:30:15Z\" } }\n")
	must(t, err)
	if got := fmt.Sprint(c.Warnings()); !strings.Contains(got, `any 23h is unsafe: the upstream resets each 24h from 2026-01-01T11:30:15Z, and its longest period has 24h, in which this grants more than it does; write window = { every = "24h", from = "2026-01-01T11:30:15Z" }, or window = "24h"`) {
		t.Errorf("got %s", got)
	}
}

func TestUpstreamWarnings(t *testing.T) {
	warned := func(window string) string {
		c, err := load(t, t.TempDir(), "[credentials.c]\npreset = \"youtube-classic\"\n[credentials.c.limits.daily]\nwindow = "+window+"\n")
		must(t, err)
		return fmt.Sprint(c.Warnings())
	}
	if got := warned(`"24h"`); !strings.Contains(got, `:4: credentials.c.limits.daily.window: any 24h is unsafe: the upstream resets each day in America/Los_Angeles, and its longest period has 25h, in which this grants more than it does; write window = { calendar = "day", timezone = "America/Los_Angeles" }, or window = "25h"`) {
		t.Errorf("got %s", got)
	}
	for _, safe := range []string{`"25h"`, `{ calendar = "day", timezone = "America/Los_Angeles" }`} {
		if got := warned(safe); strings.Contains(got, "unsafe") {
			t.Errorf("%s: got %s", safe, got)
		}
	}
	dir := t.TempDir()
	file := write(t, dir, "config.toml", "[credentials.c]\npreset = \"github-rest\"\n")
	checked, _ := FindPreset("github-rest")
	for at, want := range map[time.Time]int{checked.Checked.Add(90 * day): 0, checked.Checked.Add(91 * day): 1} {
		c, err := Load(file, Host{Now: at})
		must(t, err)
		if got := c.Warnings(); len(got) != want || want == 1 && !strings.Contains(got[0].Message, "the facts of preset github-rest were checked on 2026-09-30, more than 90 days ago: providers change their quotas, compare them with https://docs.github.com/") {
			t.Errorf("%v: got %v", at, got)
		}
	}
}
