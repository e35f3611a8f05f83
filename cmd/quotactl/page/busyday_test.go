package page_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/slidinglog"
)

// dayConfig is the configuration of the busy day, as quotad reads it.
const dayConfig = `
[credentials.youtube.limits.daily]
units = 10_000
reserve = 500
window = "24h"

[credentials.youtube.limits.search]
units = 4_000
window = "24h"
only = ["search.list"]

[credentials.youtube.operations]
"search.list" = 100
"videos.list" = 1
"captions.list" = 50

[credentials.maps.limits.daily]
units = 1_500
window = { calendar = "day", timezone = "UTC" }

[credentials.maps.limits.burst]
units = 60
window = "1m"

[credentials.maps.operations]
geocode = 1

[jobs.trending]
credential = "youtube"
regions = ["US", "GB", "DE", "FR", "IN", "BR", "AU", "CA"]
every = "30m"
stagger = "even"
expects = { "videos.list" = 4 }
command = ["true"]

[jobs.charts]
credential = "youtube"
regions = ["JP", "KR", "MX"]
every = "1h"
stagger = "2m"
expects = { "search.list" = 1 }
command = ["true"]

[jobs.captions]
credential = "youtube"
regions = ["München", "<script>alert(1)</script>", "c++", "a \"quoted\" name"]
every = "3h"
stagger = "10m"
expects = { "captions.list" = 1 }
command = ["true"]

[jobs.places]
credential = "maps"
regions = ["EU", "US", "AP"]
every = "2h"
stagger = "5m"
expects = { geocode = 15 }
command = ["true"]

[jobs.broken]
credential = "maps"
every = "6h"
regions = ["EU", "<script>alert(1)</script>"]
command = ["sh", "-c", "echo 'HTTP Error 404' >&2; exit 1"]
`

// exampleConfig is like the repository's config.toml, with one job more.
const exampleConfig = `
[credentials.youtube.limits.daily]
units = 10_000
reserve = 500
window = "24h"

[credentials.youtube.limits.search]
units = 4_000
window = "24h"
only = ["search.list"]

[credentials.youtube.limits.discover]
units = 2_000
jobs = ["discover"]

[credentials.youtube.operations]
"search.list" = 100
"videos.list" = 1

[jobs.trending]
credential = "youtube"
regions = ["US", "GB", "DE", "FR", "IN", "BR", "AU", "CA"]
every = "30m"
stagger = "even"
expects = { "videos.list" = 8 }
command = ["true"]

[jobs.discover]
credential = "youtube"
regions = ["US", "GB", "DE"]
every = "6h"
stagger = "10m"
expects = { "search.list" = 1, "videos.list" = 2 }
command = ["true"]

[jobs.channels]
credential = "youtube"
regions = ["music", "news", "science"]
every = "3h"
stagger = "0s"
expects = { "search.list" = 1 }
command = ["sh", "-c", "test $QUOTAD_REGION != science || { echo 'HTTP Error 404: no such channel' >&2; exit 1; }"]
`

// A plannedDay is what runs in a day by a configuration.
type plannedDay struct {
	config   string
	failures uint32        // one of this many passes fails
	byHand   quota.Request // what somebody asks for in the afternoon, a dozen times
}

// writeDay leaves in the state directory of a configuration what a quotad that has run these jobs for a
// day until now would have: its ledger and its jobs' files. The day passes at once, on a
// clock that was moved; what decides, debits and runs is what does so in the daemon.
func writeDay(t *testing.T, planned plannedDay, file string, now time.Time) {
	t.Helper()
	c, err := config.Load(file, config.Host{})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		moved := time.Until(now.Add(-25 * time.Hour))
		clock := func() time.Time { return time.Now().Add(moved) }
		day := openDay(t, planned, c, clock)
		for slot := clock().Truncate(30 * time.Minute).Add(30 * time.Minute); slot.Before(now.Add(-30 * time.Minute)); slot = slot.Add(30 * time.Minute) {
			time.Sleep(slot.Sub(clock()))
			day.tick(slot)
		}
		time.Sleep(25 * time.Minute)
		synctest.Wait()
		day.close()
	})
}

// A day runs jobs whose passes are played here.
type day struct {
	plannedDay
	*config.Config
	t       *testing.T
	ledger  *slidinglog.Ledger
	service *quota.Service
	runner  *jobs.Runner
	tokens  jobs.Tokens
}

func openDay(t *testing.T, planned plannedDay, c *config.Config, clock func() time.Time) *day {
	d := &day{t: t, plannedDay: planned, Config: c}
	d.ledger = slidinglog.Open(slidinglog.Config{Engine: slidinglog.NewMemory(clock), Dir: filepath.Join(c.StateDir, "ledger"), Unsynced: true})
	err := d.ledger.SetCredentials(c.Credentials, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d.service, err = quota.NewService(d.ledger, c.Credentials, time.Second); err != nil {
		t.Fatal(err)
	}
	d.runner, err = jobs.Open(jobs.Config{
		Jobs: c.Jobs, Gate: d.service, Launcher: d, Tokens: &d.tokens, Dir: filepath.Join(c.StateDir, "jobs"), Socket: "/run/quotad.sock", Now: clock,
		EndLeftover: func(context.Context, jobs.Identity, time.Duration) (bool, error) { return false, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *day) tick(slot time.Time) {
	slot = slot.UTC()
	for _, job := range d.Jobs {
		if job.Schedule.Next(slot.Add(-1)).Equal(slot) {
			d.runner.Tick(job.Name, slot)
		}
	}
	switch slot.Hour() {
	case 13: // somebody holds a job for a while
		if slot.Minute() == 0 {
			if err := d.runner.Pause("trending", "@0", "the importer is being moved", 100*time.Minute); err != nil {
				d.t.Error(err)
			}
		}
	case 16, 17: // and somebody spends by hand
		for range 3 {
			d.service.Acquire(d.t.Context(), d.byHand)
		}
	}
}

func (d *day) close() {
	ask, end := context.WithCancel(d.t.Context())
	end()
	d.runner.Stop(ask, d.t.Context())
	if err := d.ledger.Close(); err != nil {
		d.t.Error(err)
	}
}

// Launch plays a pass: it spends what its job expects, one region now and then twice as
// much; one fails, one takes too long.
func (d *day) Launch(ask, _ context.Context, c jobs.Command, output func(jobs.Line)) jobs.Exit {
	env := map[string]string{}
	for _, entry := range c.Env {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	chance := fnv.New32a()
	fmt.Fprint(chance, env["QUOTAD_JOB"], env["QUOTAD_REGION"], time.Now().Hour(), time.Now().Minute())
	number := chance.Sum32()
	time.Sleep(time.Duration(5+number%40) * time.Second)
	output(jobs.Line{Stream: "stdout", Text: "fetched"})
	i := slices.IndexFunc(d.Jobs, func(j *jobs.Job) bool { return j.Name == env["QUOTAD_JOB"] })
	for operation, calls := range d.Jobs[i].Expects {
		if env["QUOTAD_REGION"] == "IN" && number%2 == 0 {
			calls *= 2
		}
		if !d.spend(env["QUOTAD_TOKEN"], operation, calls) {
			return jobs.Exit{Code: jobs.ExitExhausted}
		}
	}
	switch {
	case number%d.failures == 0:
		return jobs.Exit{Code: 3}
	case number%(3*d.failures) == 1:
		time.Sleep(c.Timeout)
		return jobs.Exit{Cause: jobs.ErrTimeout}
	}
	return jobs.Exit{}
}

func (d *day) spend(token, operation string, count quota.Units) bool {
	bearer, _ := d.tokens.Bearer(token)
	r := quota.Request{Credential: bearer.Credential, Operation: operation, Count: count, Caller: bearer.Caller}
	decision, err := d.service.Acquire(d.t.Context(), r)
	d.tokens.Decided(token, r, decision, err)
	if err != nil {
		d.t.Error(err)
	}
	return decision.Granted()
}

// busyDay has two credentials, names that a page must escape, and limits that run dry.
func busyDay() plannedDay {
	return plannedDay{config: dayConfig, failures: 37, byHand: quota.Request{Credential: "youtube", Operation: "captions.list", Count: 4}}
}

// exampleDay is a usual day of the example configuration.
func exampleDay() plannedDay {
	return plannedDay{config: exampleConfig, failures: 300, byHand: quota.Request{Credential: "youtube", Operation: "videos.list", Count: 10}}
}

// place is where a test keeps what somebody may want to see: a directory that a variable
// names, else one that is gone with the test.
func place(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("QUOTAD_TEST_ARTIFACTS")
	if dir == "" {
		return filepath.Join(t.ArtifactDir(), name)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "page-"+name)
}
