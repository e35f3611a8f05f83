package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/notify"
	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/seedtest"
	"quotad/quota/server"
	"quotad/quota/upstream"
)

// A playedDaemon is a daemon on a fake clock, by its own wiring: its ledger, its jobs, their schedule and its judgement are
// real, its passes ask for units and end.
type playedDaemon struct {
	*testing.T
	*daemon
	calls map[string]quota.Units // of search.list, that a pass of a job makes

	launch func(env map[string]string) jobs.Exit // a pass, in place of those calls; nil: none

	mu     sync.Mutex // guards what follows
	events []string
}

// playDaemon runs a test with a configuration, in which jobs make calls of search.list.
func playDaemon(t *testing.T, text string, calls map[string]quota.Units, test func(d *playedDaemon)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.toml")
	must(t, os.WriteFile(file, []byte(text), 0o600))
	c, err := config.Load(file, config.Host{StateDirectory: t.TempDir(), Now: time.Now()})
	must(t, err)
	old := time.Unix(0, 0)
	must(t, os.Chtimes(file, old, old)) // the fake clock begins in 2000
	synctest.Test(t, func(t *testing.T) {
		d := &playedDaemon{T: t, daemon: &daemon{config: c}, calls: calls}
		d.open()
		test(d)
		d.stop()
	})
}

func (d *playedDaemon) open() {
	d.daemon = newDaemon(d.config, options{}, systemd{}, io.Discard)
	d.ask, d.force = d.Context(), d.Context()
	d.callers, d.launcher, d.sinks = nowhere{}, d, append(d.sinks, d.heard)
	d.diskOf = func(string) (free, size uint64) { return 0, 0 } // not that of the machine
	for _, step := range []func() error{d.startNotifier, d.openLedger, d.openProxy, d.openRunner, d.openSchedule, d.runJobs} {
		must(d, step())
	}
	d.warn(d.config)
}

// Nowhere is the socket of a daemon that nobody calls.
type nowhere struct{ net.Listener }

func (nowhere) Addr() net.Addr { return &net.UnixAddr{Name: "quotad.sock", Net: "unix"} }

// Launch implements jobs.Launcher: a pass makes its calls and stops at the first that is denied.
func (d *playedDaemon) Launch(ctx, _ context.Context, c jobs.Command, _ func(jobs.Line)) jobs.Exit {
	env := map[string]string{}
	for _, entry := range c.Env {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	if d.launch != nil {
		return d.launch(env)
	}
	calls, known := d.calls[env["QUOTAD_JOB"]]
	if !known {
		return jobs.Exit{Code: 1}
	}
	for range calls {
		b, _ := d.tokens.Bearer(env["QUOTAD_TOKEN"])
		r := quota.Request{Credential: "youtube", Operation: "search.list", Count: 1, Caller: b.Caller}
		decision, err := server.AcquireByToken(ctx, d.service, d.tokens, env["QUOTAD_TOKEN"], r)
		d.emit(server.Decided{Verb: "acquire", Request: r, Decision: decision, Err: err})
		if err != nil || !decision.Granted() {
			return jobs.Exit{Code: jobs.ExitExhausted}
		}
	}
	return jobs.Exit{}
}

// heard is a sink of events: it keeps the names of events.
func (d *playedDaemon) heard(event any) {
	e, ok := event.(notify.Event)
	if !ok {
		return
	}
	name := e.Event
	switch e.Event {
	case config.EventTrouble:
		name = "+" + string(e.Kind) + " " + e.Of
	case config.EventOver:
		name = "-" + string(e.Kind) + " " + e.Of
	}
	if e.Again {
		name += " again"
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, name)
}

// pass lets time pass, and has the daemon look at itself as often as a step.
func (d *playedDaemon) pass(long, step time.Duration, look func(now time.Time, list []trouble.Trouble)) {
	for end := time.Now().Add(long); time.Now().Before(end); {
		time.Sleep(step)
		synctest.Wait()
		now := time.Now()
		d.facts.tick(now)
		_, list := d.troubles(context.Background())
		d.report(list, now)
		look(now, list)
	}
}

// alerts returns the events that came, without those of each run.
func (d *playedDaemon) alerts() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.events), func(name string) bool { return name == config.EventRunStarted || name == config.EventRunEnded })
}

// A day of the recipe for a pace, of a share that is used up, and of a limit of a minute that is used up all the time: what
// is planned is no trouble, no event that needs a person, and no alert. No two jobs, and no look, are at one instant.
func TestADayOfPacesAndShares(t *testing.T) {
	seedtest.SkipUnderRace(t)
	t.Parallel()
	const text = `
[ledger]
backend = "embedded"
[credentials.youtube]
limits.daily = { units = 10_000, reserve = 500 }
limits.pace = { units = 1_600, window = "5h", jobs = ["backfill"] }
limits.share = { units = 2_000, jobs = ["discover"], warn_below = 200 }
limits.minute = { units = 800, window = "1m" }
operations."search.list" = 100
[jobs.backfill]
credential = "youtube"
regions = ["2021", "2022", "2023", "2024"]
cron = "1 */6 * * *"
stagger = "5m"
expects = { "search.list" = 8 }
command = ["true"]
[jobs.discover]
credential = "youtube"
regions = ["US"]
cron = "20 * * * *"
expects = { "search.list" = 2 }
command = ["true"]
[jobs.trending]
credential = "youtube"
regions = ["US", "GB"]
cron = "40 */4 * * *"
stagger = "2m"
expects = { "search.list" = 1 }
command = ["true"]
`
	playDaemon(t, text, map[string]quota.Units{"backfill": 8, "discover": 2, "trending": 1}, func(d *playedDaemon) {
		usedUp := map[string]int{}
		d.pass(24*time.Hour, 10*time.Minute, func(now time.Time, list []trouble.Trouble) {
			if len(list) > 0 {
				t.Errorf("%v: %+v", now, list)
			}
			usage, err := d.service.Usage(context.Background(), "youtube")
			must(t, err)
			for _, l := range usage.Limits {
				if l.Remaining() == 0 {
					usedUp[l.Name]++
				}
			}
		})
		if usedUp["pace"] < 10 || usedUp["share"] < 60 {
			t.Errorf("the limits are hardly used up: %v", usedUp)
		}
		if got := fmt.Sprint(d.alerts()); got != "["+config.EventLow+"]" {
			t.Errorf("there were the events %s", got)
		}
	})
}

// The opposite: a job that others keep from its units is named within two slots, and once; it is over a minute after it
// runs again. Before that a status says that units are short, and why.
func TestAJobThatStarves(t *testing.T) {
	t.Parallel()
	playDaemon(t, `
[ledger]
backend = "embedded"
[credentials.youtube]
limits.daily = { units = 1_000, window = "6h" }
operations."search.list" = 100
[jobs.big]
credential = "youtube"
regions = ["US"]
every = "1h"
expects = { "search.list" = 3 }
command = ["true"]
`, map[string]quota.Units{"big": 1}, func(d *playedDaemon) {
		for range 8 { // somebody else spends the units
			one := quota.Request{Credential: "youtube", Operation: "search.list", Count: 1}
			if decision, err := d.service.Acquire(context.Background(), one); err != nil || !decision.Granted() {
				t.Fatal(decision, err)
			}
		}
		var says, notes []string
		d.pass(24*time.Hour, time.Minute, func(now time.Time, list []trouble.Trouble) {
			if s := d.triage(context.Background()); len(says) == 0 && s.Says == trouble.Scarce && len(s.Notes) > len(notes) {
				notes = nil
				for _, one := range s.Notes {
					notes = append(notes, one.Of+" → "+one.Do)
				}
			}
			for _, one := range list {
				if one.Kind == trouble.Starved && !slices.Contains(says, one.Says) {
					says = append(says, one.Says)
				}
			}
		})
		if len(says) != 1 || !strings.HasPrefix(says[0], "big: 300 needed, 200 left of youtube daily; fits ") {
			t.Errorf("it says %q", says)
		}
		if want := "[limit youtube daily → quotactl plan job big → quotactl runs big]"; fmt.Sprint(notes) != want {
			t.Errorf("it notes %v, want %s", notes, want)
		}
		var starved []string
		for _, name := range d.alerts() {
			if strings.Contains(name, "starved") {
				starved = append(starved, name)
			}
		}
		if want := "[+starved job big -starved job big]"; fmt.Sprint(starved) != want {
			t.Errorf("got %v, want %s", starved, want)
		}
	})
}

// The watch reports a trouble at once after the event that shows it, and that it is over when it was absent for a minute.
func TestWatch(t *testing.T) {
	t.Parallel()
	playDaemon(t, "[ledger]\nbackend = \"embedded\"\n[credentials.youtube]\nlimits.daily.units = 1\noperations.list = 1\n", nil, func(d *playedDaemon) {
		d.background(d.watch)
		answer := func(class upstream.Class) {
			time.Sleep(64 * time.Second) // between two looks
			d.emit(upstream.Outcome{Verdict: upstream.Verdict{Class: class, Says: "API_KEY_INVALID"}, Credential: "youtube"})
			synctest.Wait()
		}
		want := "+key credential youtube"
		if answer(upstream.Key); fmt.Sprint(d.alerts()) != "["+want+"]" {
			t.Errorf("at once: %v, want %s", d.alerts(), want)
		}
		answer(upstream.OK)
		for _, row := range []struct {
			after time.Duration
			want  string
		}{{55 * time.Second, want}, {10 * time.Second, want + " -key credential youtube"}} {
			time.Sleep(row.after)
			if synctest.Wait(); fmt.Sprint(d.alerts()) != "["+row.want+"]" {
				t.Errorf("%v later: %v, want %s", row.after, d.alerts(), row.want)
			}
		}
	})
}

// A daemon that is restarted again and again in trouble says each time that it is there again; what only an answer of the upstream
// shows, it says once there is one.
func TestRestartsInTrouble(t *testing.T) {
	t.Parallel()
	playDaemon(t, `
[ledger]
backend = "embedded"
[credentials.youtube]
limits.daily = { units = 1_000 }
operations."search.list" = 100
[jobs.bad]
credential = "youtube"
regions = ["US", "GB"]
every = "1h"
command = ["true"]
`, nil, func(d *playedDaemon) {
		d.pass(time.Minute, time.Minute, func(time.Time, []trouble.Trouble) {})
		d.emit(upstream.Outcome{Verdict: upstream.Verdict{Class: upstream.Key, Says: "API_KEY_INVALID"}, Credential: "youtube"})
		d.pass(3*time.Hour, time.Minute, func(time.Time, []trouble.Trouble) {})
		before := d.alerts()
		slices.Sort(before)
		if want := "[+failing job bad +key credential youtube]"; fmt.Sprint(before) != want {
			t.Fatalf("got %v, want %s", before, want)
		}
		refused := upstream.Outcome{Verdict: upstream.Verdict{Class: upstream.Key, Says: "API_KEY_INVALID"}, Credential: "youtube"}
		for range 3 {
			d.stop()
			time.Sleep(30 * time.Minute)
			d.open()
			d.pass(2*time.Minute, 10*time.Second, func(time.Time, []trouble.Trouble) {})
			d.emit(refused)
			d.pass(2*time.Minute, 10*time.Second, func(time.Time, []trouble.Trouble) {})
		}
		want := slices.Repeat([]string{"+failing job bad again", "+key credential youtube"}, 3)
		if after := d.alerts(); !slices.Equal(after[2:], want) {
			t.Errorf("three restarts reported %v", after)
		}
		d.emit(upstream.Outcome{Verdict: upstream.Verdict{Class: upstream.OK}, Credential: "youtube"}) // another key
		d.pass(2*time.Minute, 10*time.Second, func(time.Time, []trouble.Trouble) {})
		if after := d.alerts(); after[len(after)-1] != "-key credential youtube" {
			t.Errorf("after another key: %v", after)
		}
	})
}
