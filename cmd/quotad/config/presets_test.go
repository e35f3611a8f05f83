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
	dir := oddDir(t)
	for _, name := range presetNames() {
		c, err := load(t, dir, fmt.Sprintf("[proxy]\nlisten = \"127.0.0.1:0\"\n[credentials.c]\npreset = %q\nproxy.key_file = \"a.key\"\n", name))
		must(t, err)
		target := c.Targets[0]
		if target.Routes.Len() < 1 || target.Upstream.Scheme != "https" || !reflect.DeepEqual(target.Key, proxy.FixedKey("the-key-of-sixteen")) {
			t.Errorf("%s: got %+v", name, target)
		}
		if len(c.Profiles["c"].Limits) != len(c.Credentials[0].Limits) {
			t.Errorf("%s: got %+v, want each limit to be known by its name upstream", name, c.Profiles["c"].Limits)
		}
		text, err := PresetText(name)
		if dated := "\nchecked = 2026-"; err != nil || strings.Count(text, dated) != 1 || strings.Count(text, "\npage = \"https://") != 1 || len(c.Warnings()) != 0 {
			t.Errorf("preset %s is not printed as it is: %v, %v", name, err, c.Warnings())
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
[credentials.youtube.operations]
"search.list" = { search = 1, daily = 1 }
"captions.list" = { daily = 50 }
`)
	must(t, err)
	credential, profile := c.Credentials[0], c.Profiles["youtube"]
	uploads, _ := credential.Limit("uploads")
	daily, _ := credential.Limit("daily")
	if uploads.Units != 6 || uploads.Window.Period != quota.Day || daily.Units != 10_000 || daily.Reserve != 500 || daily.Window != quota.Sliding(25*time.Hour) {
		t.Errorf("got %+v, %+v", uploads, daily)
	}
	if cost := credential.Operations["search.list"].In(daily, "search.list"); cost != 1 || len(credential.Operations) != 50 {
		t.Errorf("search.list costs %d in daily, of %d operations", cost, len(credential.Operations))
	}
	if !slices.Contains(profile.Limits["uploads"].Names, "Video Uploads per day") || profile.Format.Reasons["uploadLimitExceeded"] != upstream.OK || profile.Format.Day.Period != quota.Day {
		t.Errorf("got %+v", profile)
	}
}

// A sliding window that is shorter than the upstream's longest period grants more than that does, which is said. A period
// from an instant may begin in the future: periods come before it too.
func TestWindowsBesideTheUpstreams(t *testing.T) {
	now := time.Date(2026, 11, 26, 20, 0, 0, 0, time.UTC)
	const from = `{ every = "24h", from = "2026-01-01T12:30:15+01:00" }`
	for _, row := range []struct{ window, resets, want string }{
		{`"24h"`, `{ calendar = "day", timezone = "America/Los_Angeles" }`, `limits.daily.window: any 24h is unsafe: the upstream resets each day in America/Los_Angeles, and its longest period has 25h, in which this grants more than it does; write window = { calendar = "day", timezone = "America/Los_Angeles" }, or window = "25h"`},
		{`"25h"`, `{ calendar = "day", timezone = "America/Los_Angeles" }`, ""},
		{`"23h"`, from, `write window = { every = "24h", from = "2026-01-01T11:30:15Z" }, or window = "24h"`},
		{from, from, ""},
		{`"31d"`, `{ calendar = "month", timezone = "UTC" }`, `or window = "745h"`},
		{`"59m"`, `{ calendar = "hour", timezone = "UTC" }`, `or window = "1h"`},
		{`{ every = "24h", from = "2027-05-05T11:30:15Z" }`, from, `window.from: lies in the future: periods come before it too, of which one began at 2026-11-26T11:30:15Z`},
	} {
		file := write(t, t.TempDir(), "config.toml", "[credentials.c]\noperations.get = 1\nlimits.daily = { units = 10, window = "+row.window+", upstream.resets = "+row.resets+" }\n")
		c, err := Load(file, Host{Now: now})
		must(t, err)
		if got := c.Warnings().Error(); !strings.Contains(got, row.want) || row.want == "" && got != "" {
			t.Errorf("%s: got %s", row.window, got)
		}
		if w := c.Credentials[0].Limits[0].Window; w.Every > 0 {
			if _, end := w.Bounds(now); !end.Equal(time.Date(2026, 11, 27, 11, 30, 15, 0, time.UTC)) {
				t.Errorf("%s: it ends at %v", row.window, end)
			}
		}
	}
}
