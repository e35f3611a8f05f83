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

	"quotad/jobs/process/processtest"
	"quotad/quota"
	"quotad/regions"
)

func TestMain(m *testing.M) { os.Exit(processtest.InMemory(m.Run).Run()) }

// eight are the regions of the shipped example.
func eight() regions.Ring {
	return regions.Ring{"US", "GB", "DE", "FR", "IN", "BR", "AU", "CA"}
}

// trending is an hourly job in the first n of eight regions, which a test may change before it opens a bed.
func trending(t testing.TB, n int) *Job {
	t.Helper()
	return &Job{
		Name: "trending", Credential: "youtube", Regions: eight()[:n], Schedule: every(t, time.Hour), Stagger: EvenStagger,
		Command: []string{"/bin/fetch"}, Timeout: time.Minute,
	}
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
	hosts  func() ([]Daemon, time.Duration, bool) // nil: it is alone

	ahead    atomic.Int64 // of its clock
	reserved atomic.Bool  // the gate was asked with the reserve last

	mu    sync.Mutex // guards what follows
	log   []string
	ended []Identity
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
	b := &bed{t: t, dir: dir}
	b.play = func(context.Context, played) Exit { return Exit{} }
	b.peek = func(map[string]quota.Units) (quota.Decision, error) { return quota.Decision{}, nil }
	b.open(jobs...)
	return b
}

// open gives the bed a new daemon on its directory.
func (b *bed) open(jobs ...*Job) {
	b.t.Helper()
	runner, err := Open(Config{
		Jobs: jobs, Gate: b, Launcher: b, Tokens: &b.tokens, OnEvent: b.observe, Dir: b.dir, Socket: "/run/quotad.sock",
		EndLeftover: b.endLeftover, Now: func() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) },
		Name: "a", Hosts: b.hosts,
	})
	must(b.t, err)
	b.Runner = runner
	b.t.Cleanup(func() { b.end(runner) }) // also of a daemon that was killed: what it would not wait for ends with the bubble
}

// restart stops the daemon and starts the next one.
func (b *bed) restart(jobs ...*Job) {
	b.t.Helper()
	b.stop()
	b.open(jobs...)
	b.start()
}

func (b *bed) start() {
	b.t.Helper()
	b.Start(b.t.Context())
	synctest.Wait()
}

// kill starts the next daemon on what this one would leave on disk if it were killed now. Nothing is reported of this one
// any more.
func (b *bed) kill(jobs ...*Job) {
	b.t.Helper()
	b.Runner.config.OnEvent = func(any) {}
	must(b.t, os.CopyFS(b.dir+"+", os.DirFS(b.dir)))
	b.dir += "+"
	b.open(jobs...)
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

// tick ticks a job at the next full hour, and waits until nothing moves any more at that instant.
func (b *bed) tick(more ...string) {
	b.t.Helper()
	slot := time.Now().Truncate(time.Hour).Add(time.Hour)
	time.Sleep(time.Until(slot))
	for _, job := range append([]string{"trending"}, more...) {
		b.Tick(job, slot.UTC())
		synctest.Wait()
	}
}

// run ticks and lets an hour pass, less a second.
func (b *bed) run() {
	b.t.Helper()
	b.tick()
	b.wait(time.Hour - time.Second)
}

func (b *bed) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// begun has an operator begin a run, and waits until nothing moves any more at that instant.
func (b *bed) begun(list ...regions.Region) Run {
	b.t.Helper()
	run, err := b.Run("trending", "root", list...)
	must(b.t, err)
	synctest.Wait()
	return run
}

func (b *bed) stop() {
	b.t.Helper()
	b.end(b.Runner)
}

func (b *bed) end(r *Runner) {
	ask, cancel := context.WithCancel(b.t.Context())
	cancel()
	r.Stop(ask, b.t.Context())
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

// Walk takes a region to have been granted three units, as another job and another region.
func (b *bed) Walk(_ context.Context, _ string, _ time.Time, visit func(quota.Entry) bool) error {
	for _, of := range [][2]string{{"trending", "DE"}, {"trending", "GB"}, {"channels", "DE"}} {
		visit(quota.Entry{By: of[0], Region: of[1], Charges: []quota.Charge{{Units: 3}}, Body: quota.Grant{Operation: "list", Count: 3}})
	}
	return nil
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

// hang plays a pass that ends when it is asked to.
func hang(ctx context.Context, _ played) Exit {
	<-ctx.Done()
	return Exit{Code: -1, Signal: "SIGTERM", Cause: context.Cause(ctx)}
}

// exits plays a pass that ends at once.
func exits(code int) func(context.Context, played) Exit {
	return func(context.Context, played) Exit { return Exit{Code: code} }
}

// spend takes units of an operation on behalf of a pass.
func (b *bed) spend(p played, operation, id string, units quota.Units) {
	b.tokens.Decided(p.token, quota.Request{Operation: operation, Count: units}, quota.Decision{GrantID: id, Units: units}, nil)
}

// deny denies a pass a call of an operation, which would be granted later.
func (b *bed) deny(p played, operation string, later time.Duration) {
	d := refused()
	d.RetryAt = b.now().Add(later)
	b.tokens.Decided(p.token, quota.Request{Operation: operation}, d, nil)
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
	line := ""
	switch e := event.(type) {
	case RunChanged:
		line = "run " + string(e.Run.State) + because(e.Run.Reason)
		if e.Run.State == RunSkipped && e.Run.Reason != Missed {
			line += fmt.Sprintf(" ×%d", e.Run.Ticks)
		}
	case PassChanged:
		line = fmt.Sprintf("%s %s", e.Pass.Region, e.Pass.Outcome) + because(e.Pass.Reason)
	case Trouble:
		line = fmt.Sprintf("trouble: %s: %v", e.Job, e.Err)
	default:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log = append(b.log, time.Now().UTC().Format("15:04:05 ")+line)
}

func because(reason Reason) string {
	if reason == "" {
		return ""
	}
	return fmt.Sprintf(" (%s)", reason)
}

// ran is what is seen of a run of one region that does well at once.
func ran(clock string) []string {
	return []string{clock + " run running", clock + " US running", clock + " US ok", clock + " run done"}
}

// wants compares the log since the last call with what a test expects.
func (b *bed) wants(want ...string) {
	b.t.Helper()
	if got := b.forget(); !slices.Equal(got, want) {
		b.t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// forget empties the log.
func (b *bed) forget() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	log := b.log
	b.log = nil
	return log
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

// cursorAt has the next run of the bed's job begin at a region.
func (b *bed) cursorAt(region regions.Region) {
	b.t.Helper()
	must(b.t, b.job().set(func(s *state) { s.Cursor = regions.Cursor(region) }))
}

func (b *bed) job() *jobControl {
	b.t.Helper()
	j, err := b.state("trending")
	must(b.t, err)
	return j
}

var errLedger = errors.New("ledger unavailable: connection refused")

// must fails a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A history is what a job lives through from ten to eleven on, and what is seen of it.
type history struct {
	name    string
	regions int        // 0: one
	job     func(*Job) // changes it; nil: it does not
	play    func(ctx context.Context, b *bed, p played) Exit
	live    func(b *bed, job *Job) // nil: one slot
	want    []string
}

func play(t *testing.T, histories []history) {
	t.Helper()
	for _, h := range histories {
		t.Run(h.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				job := trending(t, max(1, h.regions))
				if h.job != nil {
					h.job(job)
				}
				b := newBed(t, dir, job)
				if h.play != nil {
					b.play = func(ctx context.Context, p played) Exit { return h.play(ctx, b, p) }
				}
				if h.live == nil {
					h.live = func(b *bed, _ *Job) { b.run() }
				}
				h.live(b, job)
				b.wants(h.want...)
			})
		})
	}
}
