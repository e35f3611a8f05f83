package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"quotad/quota"
)

const cappedJobs = `
[jobs.backfill]
credential = "api"
regions = ["US"]
schedule = "manual"
command = ["fetch"]
[jobs.trending]
credential = "api"
regions = ["US"]
schedule = "manual"
command = ["fetch"]
`

// capped returns the only credential of a configuration with two jobs.
func capped(t *testing.T, text string) *quota.Credential {
	t.Helper()
	c, err := load(t, t.TempDir(), text+cappedJobs)
	must(t, err)
	if warnings := c.Warnings(); len(warnings) > 0 {
		t.Errorf("got %v", warnings)
	}
	return c.Credentials[0]
}

// A share counts each operation as the widest limit that counts it does: of the costs that are
// tables, too, and beside numbers.
func TestSharesCostWhatTheirPoolsCost(t *testing.T) {
	c := capped(t, `
[credentials.api]
limits.pool = { units = 1_000, window = { calendar = "day", timezone = "America/Los_Angeles" } }
limits.searches = { units = 50, window = "24h" }
limits.minute = { units = 9_000, window = "1m" }
limits.uploads = { units = 10, window = { calendar = "day", timezone = "UTC" } }
limits.wide = { units = 9_000, window = "48h" }
limits.slim = { units = 9_500, window = "1m" }
limits.cap = { units = 200, jobs = ["backfill"] }
limits.few = { units = 8, except_jobs = ["trending"], only = ["insert"] }
limits.own = { units = 5, jobs = ["backfill"], window = "1h" }
[credentials.api.operations]
list = { pool = 2, minute = 1 }
search = { pool = 100, searches = 1, minute = 1 }
insert = { uploads = 3 }
scan = { wide = 7, slim = 1 }
delete = { pool = 5, own = 1 }
`)
	for operation, want := range map[string]string{
		"list": "1 minute, 2 cap, 2 own, 2 pool", "search": "1 minute, 1 searches, 100 cap, 100 own, 100 pool",
		"insert": "3 cap, 3 few, 3 own, 3 uploads", "delete": "1 own, 5 cap, 5 pool",
		"scan": "1 slim, 7 cap, 7 own, 7 wide",
	} {
		var costs []string
		for limit, units := range c.Operations[operation].Per {
			costs = append(costs, fmt.Sprint(units, " ", limit))
		}
		slices.Sort(costs)
		if got := strings.Join(costs, ", "); got != want {
			t.Errorf("%s costs %s, want %s", operation, got, want)
		}
	}
	for share, want := range map[string]string{"cap": "day America/Los_Angeles", "few": "day UTC", "own": "1h"} {
		if l, _ := c.Limit(share); l.Window.String() != want {
			t.Errorf("the window of %s is %s, want %s", share, l.Window, want)
		}
	}
}

// So it does beside presets, whichever way their costs are written.
func TestSharesBesidePresets(t *testing.T) {
	for preset, operation := range map[string]string{"youtube-classic": "videos.list", "youtube-2026-06": "videos.list", "github-rest": "core"} {
		c := capped(t, fmt.Sprintf("[credentials.api]\npreset = %q\nlimits.cap = { units = 20, jobs = [\"backfill\"] }\n", preset))
		for job, want := range map[string]quota.Units{"backfill": 1, "trending": 0} {
			charges, _ := c.Charges(operation, 1, job)
			if units, _ := quota.ChargeIn(charges, "cap"); units != want {
				t.Errorf("%s: %s of %s counts %d in the share, want %d", preset, operation, job, units, want)
			}
		}
	}
}

// A preset lists operations that a small limit has no room for. That is an error only of one
// that somebody is known to call.
func TestPresetBesideASmallLimit(t *testing.T) {
	const small = "[credentials.api]\npreset = \"youtube-classic\"\nlimits.cap = { units = 300, window = \"1h\" }\n"
	if _, listed := capped(t, small).Operations["captions.update"]; !listed {
		t.Error("an operation of the preset is not there")
	}
	_, err := load(t, t.TempDir(), small+strings.Replace(cappedJobs, "command =", "expects = { \"captions.update\" = 1 }\ncommand =", 1))
	if want := `jobs.backfill.expects: a pass expects 450 units of limit "cap", which never has more than 300 (units less reserve)`; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
