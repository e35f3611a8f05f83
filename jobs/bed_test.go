package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// eight are the regions of the shipped example.
func eight() regions.Ring {
	return regions.Ring{"US", "GB", "DE", "FR", "IN", "BR", "AU", "CA"}
}

// trending is a job that a test may change before it opens a bed.
func trending(t *testing.T) *Job {
	t.Helper()
	return &Job{
		Name: "trending", Credential: "youtube", Regions: eight(), Schedule: every(t, time.Hour), Stagger: EvenStagger,
		Command: []string{"/bin/fetch"}, Timeout: time.Minute,
	}
}

// trendingIn is that job in the first n of its regions.
func trendingIn(t *testing.T, n int) *Job {
	t.Helper()
	job := trending(t)
	job.Regions = job.Regions[:n]
	return job
}

// A bed is a runner in a synctest bubble, whose processes and whose budget are
// played by functions of the test. Its log tells the history.
type bed struct {
	*Runner
	t   testing.TB
	dir string

	tokens Tokens
	play   func(ctx context.Context, p played) Exit
	peek   func(calls map[string]quota.Units) (quota.Decision, error)

	ahead    atomic.Int64 // of its clock
	reserved atomic.Bool  // the gate was asked with the reserve last

	mu    sync.Mutex // guards what follows
	log   []string
	ended []Identity
	died  []Run
}

// played is a pass as its process sees it.
type played struct {
	Command
	region string
	token  string
	force  context.Context
	output func(Line)
}

func newBed(t testing.TB, dir string, jobs ...*Job) *bed {
	t.Helper()
	return newHost(t, dir, nil, jobs...)
}

// newBedAt returns a bed with another clock.
func newBedAt(t *testing.T, dir string, now func() time.Time, jobs ...*Job) *bed {
	t.Helper()
	b := newBed(t, dir, jobs...)
	b.Runner.config.Now = now
	return b
}

// newHost returns a bed on host a of those that share a ledger, or on one that is alone.
func newHost(t testing.TB, dir string, hosts func() ([]Daemon, time.Duration, bool), jobs ...*Job) *bed {
	t.Helper()
	b := &bed{t: t, dir: dir}
	b.play = func(context.Context, played) Exit { return Exit{} }
	b.peek = func(map[string]quota.Units) (quota.Decision, error) { return quota.Decision{}, nil }
	runner, err := Open(Config{
		Jobs: jobs, Gate: b, Launcher: b, Tokens: &b.tokens, OnEvent: b.observe, Dir: dir, Socket: "/run/quotad.sock",
		EndLeftover: b.endLeftover, Now: func() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) },
		Name: "a", Hosts: hosts,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Runner = runner
	t.Cleanup(b.stop) // also of a daemon that was killed: what it would not wait for ends with the bubble
	return b
}

// inBubble runs a test on a fake clock that begins at ten to eleven.
func inBubble(t *testing.T, test func(t *testing.T, dir string)) {
	t.Helper()
	t.Parallel() // it waits for the disk
	dir := filepath.Join(t.TempDir(), "jobs")
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(10*time.Hour + 50*time.Minute)
		test(t, dir)
	})
}

// tick ticks the job trending at the next full hour, and waits until nothing
// moves any more at that instant.
func (b *bed) tick() {
	b.t.Helper()
	slot := time.Now().Truncate(time.Hour).Add(time.Hour)
	time.Sleep(time.Until(slot))
	b.Tick("trending", slot.UTC())
	synctest.Wait()
}

// run ticks and lets an hour pass, less a second.
func (b *bed) run() {
	b.t.Helper()
	b.tick()
	time.Sleep(time.Hour - time.Second)
	synctest.Wait()
}

// begun has an operator begin a run, and waits until nothing moves any more at that instant.
func (b *bed) begun(list ...regions.Region) Run {
	b.t.Helper()
	run, err := b.Run("trending", "root", list...)
	must(b.t, err)
	if run.ID == "" {
		b.t.Fatal("no run begins")
	}
	synctest.Wait()
	return run
}

func (b *bed) stop() {
	b.t.Helper()
	ask, cancel := context.WithCancel(b.t.Context())
	cancel()
	b.Stop(ask, b.t.Context())
}

// Peek takes all jobs to count against the same limits.
func (b *bed) Peek(_ context.Context, _ string, own quota.Calls, others []quota.Calls, useReserve bool) (quota.Decision, error) {
	b.reserved.Store(useReserve)
	all := maps.Clone(own.Count)
	for _, calls := range others {
		for operation, count := range calls.Count {
			all[operation] += count
		}
	}
	return b.peek(all)
}

// Spent takes a job to have been granted three units for each region.
func (b *bed) Spent(context.Context, string, string, time.Time) (map[string]quota.Spent, error) {
	return map[string]quota.Spent{"US": {Units: 3, Calls: 3}, "GB": {Units: 3, Calls: 3}, "DE": {Units: 3, Calls: 3}}, nil
}

func (b *bed) Launch(ask, force context.Context, c Command, output func(Line)) Exit {
	p := played{Command: c, force: force, output: output}
	for _, entry := range c.Env {
		name, value, _ := strings.Cut(entry, "=")
		switch name {
		case "QUOTAD_REGION":
			p.region = value
		case "QUOTAD_TOKEN":
			p.token = value
		}
	}
	if c.Started != nil {
		c.Started(Identity{BootID: "boot-1", PID: 4711, Start: 42})
	}
	return b.play(ask, p)
}

// spend takes units on behalf of a pass, or is denied them.
func (b *bed) spend(p played, id string, units quota.Units) {
	b.decided(p, quota.Request{}, quota.Decision{GrantID: id, Units: units})
}

func (b *bed) deny(p played) {
	b.denyUntil(p, "", time.Now().Add(3*time.Hour))
}

// denyUntil denies a pass a call of an operation, which would be granted later.
func (b *bed) denyUntil(p played, operation string, at time.Time) {
	d := refused()
	d.RetryAt = at
	b.decided(p, quota.Request{Operation: operation}, d)
}

// decided has a request of a pass decided as the test says.
func (b *bed) decided(p played, r quota.Request, d quota.Decision) quota.Decision {
	b.tokens.Decided(p.token, r, d, nil)
	return d
}

func refused() quota.Decision {
	return quota.Decision{Reason: quota.LimitExceeded, Limit: "daily", Detail: "no room", Units: 4, RetryAt: time.Now().Add(3 * time.Hour)}
}

func (b *bed) endLeftover(_ context.Context, id Identity, _ time.Duration) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = append(b.ended, id)
	return true, nil
}

func (b *bed) observe(event any) {
	switch e := event.(type) {
	case RunChanged:
		line := fmt.Sprintf("run %s", e.Run.State) + because(e.Run.Reason)
		if e.Run.State == RunSkipped && e.Run.Reason != Missed {
			line += fmt.Sprintf(" ×%d", e.Run.Ticks)
		}
		if e.Run.Reason == Died {
			b.mu.Lock()
			b.died = append(b.died, e.Run)
			b.mu.Unlock()
		}
		b.add(line)
	case PassChanged:
		b.add(fmt.Sprintf("%s %s", e.Pass.Region, e.Pass.Outcome) + because(e.Pass.Reason))
	case Output:
		b.add(fmt.Sprintf("%s %s: %s", e.Pass.Region, e.Line.Stream, e.Line.Text))
	case Trouble:
		b.add(fmt.Sprintf("trouble: %s: %v", e.Job, e.Err))
	}
}

func because(reason Reason) string {
	if reason == "" {
		return ""
	}
	return fmt.Sprintf(" (%s)", reason)
}

func (b *bed) add(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log = append(b.log, time.Now().UTC().Format("15:04:05 ")+line)
}

// wants compares the log since the last call with what a test expects.
func (b *bed) wants(want ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.log, want) {
		b.t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(b.log, "\n\t"), strings.Join(want, "\n\t"))
	}
	b.log = nil
}

// forget empties the log.
func (b *bed) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log = nil
}

func (b *bed) status() Status {
	b.t.Helper()
	list, err := b.Status("trending")
	must(b.t, err)
	return list[0]
}

func (b *bed) wantCursor(want regions.Cursor) {
	b.t.Helper()
	if got := b.status().Cursor; got != want {
		b.t.Errorf("the cursor is at %q, want %q", got, want)
	}
}

// killed returns a bed on what a daemon would leave on disk that is killed now.
func (b *bed) killed(jobs ...*Job) *bed {
	b.t.Helper()
	dir := b.dir + "+"
	must(b.t, os.CopyFS(dir, os.DirFS(b.dir)))
	return newBed(b.t, dir, jobs...)
}

var errLedger = errors.New("ledger unavailable: connection refused")

// must fails a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// cursorAt has the next run of the bed's job begin at a region.
func (b *bed) cursorAt(region regions.Region) {
	b.t.Helper()
	j, err := b.state("trending")
	must(b.t, err)
	must(b.t, j.set(func(s *state) { s.Cursor = regions.Cursor(region) }))
}
