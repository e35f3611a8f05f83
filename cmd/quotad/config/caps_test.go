package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

// begun is midnight in California.
var begun = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)

// A capped is a configuration with what decides by it, on a ledger whose clock is the test's.
type capped struct {
	t       *testing.T
	config  *Config
	service *quota.Service
	clock   *ledgertest.Clock
}

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

func loadCapped(t *testing.T, text string) (*Config, error) {
	t.Helper()
	return load(t, t.TempDir(), text+cappedJobs)
}

func newCapped(t *testing.T, text string) *capped {
	t.Helper()
	c, err := loadCapped(t, text)
	must(t, err)
	clock := ledgertest.NewClock(begun)
	ledger := slidinglog.Open(slidinglog.Config{Engine: slidinglog.NewMemory(clock.Now), Dir: t.TempDir()})
	t.Cleanup(func() { ledger.Close() })
	must(t, ledger.SetCredentials(c.Credentials, nil))
	service, err := quota.NewService(ledger, c.Credentials, time.Minute)
	must(t, err)
	return &capped{t, c, service, clock}
}

func (c *capped) ask(job, operation string, count quota.Units) quota.Decision {
	c.t.Helper()
	d, err := c.service.Acquire(c.t.Context(), quota.Request{Credential: c.config.Credentials[0].Name, Operation: operation, Count: count, Caller: quota.Caller{Job: job, UID: -1}})
	if err != nil {
		c.t.Fatal(err)
	}
	return d
}

func (c *capped) granted(job, operation string, count quota.Units) {
	c.t.Helper()
	if d := c.ask(job, operation, count); !d.Granted() {
		c.t.Errorf("job %q: %d × %s is refused: %s by %q %s, want a grant", job, count, operation, d.Reason, d.Limit, d.Detail)
	}
}

func (c *capped) denied(job, operation string) quota.Decision {
	c.t.Helper()
	d := c.ask(job, operation, 1)
	if d.Reason != quota.LimitExceeded || d.Limit != "cap" {
		c.t.Errorf("job %q: one %s more: reason %q of limit %q, want it denied by the cap", job, operation, d.Reason, d.Limit)
	}
	return d
}

// What a share beside a preset caps is what it says, whichever way the preset's costs are written.
func TestCapsBesidePresets(t *testing.T) {
	for preset, operation := range map[string]string{"youtube-classic": "videos.list", "youtube-2026-06": "videos.list", "github-rest": "core"} {
		with := func(limit string) *capped {
			return newCapped(t, fmt.Sprintf("[credentials.api]\npreset = %q\nlimits.cap = { units = 20, %s }\n", preset, limit))
		}
		c := with(`jobs = ["backfill"]`)
		c.granted("backfill", operation, 20)
		retry := c.denied("backfill", operation).RetryAfter
		c.granted("trending", operation, 30)
		c.granted("", operation, 30)
		c.clock.Add(retry)
		c.granted("backfill", operation, 20)

		c = with(`except_jobs = ["trending"]`)
		c.granted("backfill", operation, 15)
		c.granted("", operation, 5)
		c.denied("backfill", operation)
		c.denied("", operation)
		c.granted("trending", operation, 100)

		for window, want := range map[string]time.Duration{`"2h"`: 2 * time.Hour, `{ calendar = "hour", timezone = "UTC" }`: 40 * time.Minute} {
			c = with(`jobs = ["backfill"], window = ` + window)
			c.clock.Add(20 * time.Minute)
			c.granted("backfill", operation, 20)
			if d := c.denied("backfill", operation); d.RetryAfter != want {
				t.Errorf("%s, %s: it fits in %v", preset, window, d.RetryAfter)
			}
		}

		c = with(`jobs = ["backfill"], enforce = false`)
		c.granted("backfill", operation, 20)
		d := c.ask("backfill", operation, 1)
		if short := d.WouldDeny(false); !d.Granted() || len(short) != 1 || short[0].Limit != "cap" || short[0].Missing != 1 {
			t.Errorf("%s: got %+v, want a grant that the cap would deny", preset, short)
		}
	}
}

func (c *capped) limit(name string) quota.Limit {
	c.t.Helper()
	l, found := c.config.Credentials[0].Limit(name)
	if !found {
		c.t.Fatalf("there is no limit %q", name)
	}
	return l
}

// A share counts each operation as the widest limit that counts it does: of the costs that are
// tables, too, and beside numbers.
func TestSharesCostWhatTheirPoolsCost(t *testing.T) {
	c := newCapped(t, `
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
		for limit, units := range c.config.Credentials[0].Operations[operation].Per {
			costs = append(costs, fmt.Sprint(units, " ", limit))
		}
		slices.Sort(costs)
		if got := strings.Join(costs, ", "); got != want {
			t.Errorf("%s costs %s, want %s", operation, got, want)
		}
	}
	for share, want := range map[string]string{"cap": "day America/Los_Angeles", "few": "day UTC", "own": "1h"} {
		if got := c.limit(share).Window.String(); got != want {
			t.Errorf("the window of %s is %s, want %s", share, got, want)
		}
	}
}

// A preset lists operations that a small limit has no room for. That is an error only of one
// that somebody is known to call.
func TestPresetBesideASmallLimit(t *testing.T) {
	const small = "[credentials.api]\npreset = \"youtube-classic\"\nlimits.cap = { units = 300, window = \"1h\" }\n"
	c := newCapped(t, small)
	if warnings := c.config.Warnings(); len(warnings) > 0 {
		t.Errorf("got %v", warnings)
	}
	if d := c.ask("", "captions.update", 1); d.Reason != quota.CostExceedsLimit || d.Limit != "cap" {
		t.Errorf("got %+v, want a call that is made all the same to be refused for ever", d)
	}
	_, err := load(t, t.TempDir(), small+strings.Replace(cappedJobs, "command =", "expects = { \"captions.update\" = 1 }\ncommand =", 1))
	if want := `jobs.backfill.expects: a pass expects 450 units of limit "cap", which never has more than 300 (units less reserve)`; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
