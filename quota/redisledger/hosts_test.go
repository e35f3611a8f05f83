package redisledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/jobs"
	"quotad/jobs/scheduler"
	"quotad/quota"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/slidinglog"
	"quotad/regions"
)

// SimulatedHosts are daemons in a synctest bubble, each with a runner and a
// scheduler, that share a job through a Redis outside of it, which goes by the
// bubble's clock. Their log tells the history.
type simulatedHosts struct {
	t      *testing.T
	server *redistest.Server
	dirs   map[string]string // of each host, where its daemon keeps what it knows
	job    jobs.Job
	play   func(ctx context.Context, h *host, region string) jobs.Exit
	others []*jobs.Job // besides job
	left   quota.Units // what the gate sees of the one limit; 0: it lets everything through
	back   time.Time   // when the limit is back that the gate sees; until then it refuses

	outside chan func()   // does something out of the bubble
	done    chan struct{} // when it is done

	mu  sync.Mutex // guards log
	log []string
}

// withSimulatedHosts runs a test that begins at ten to eleven. The job runs every hour.
func withSimulatedHosts(t *testing.T, test func(c *simulatedHosts)) {
	t.Helper()
	t.Parallel()
	c := &simulatedHosts{server: redistest.Start(t), dirs: map[string]string{}, outside: make(chan func()), done: make(chan struct{})}
	for _, name := range []string{"a", "b", "c"} {
		c.dirs[name] = t.TempDir()
	}
	go func() {
		for do := range c.outside {
			do()
			c.done <- struct{}{}
		}
	}()
	defer close(c.outside)
	synctest.Test(t, func(bubble *testing.T) {
		time.Sleep(10*time.Hour + 50*time.Minute)
		hourly, err := jobs.NewEvery(time.Hour, 0)
		if err != nil {
			bubble.Fatal(err)
		}
		c.t = bubble
		c.job = jobs.Job{
			Name: "trending", Credential: "youtube", Regions: regions.Ring{"US", "GB", "DE", "FR"}, Schedule: hourly,
			Stagger: 10 * time.Minute, CatchUp: true,
			Command: []string{"/bin/fetch"}, Timeout: 2 * time.Hour, KillGrace: time.Second,
		}
		test(c)
	})
}

// killRedis and runRedis are for a process, which does not live in a bubble.
func (c *simulatedHosts) killRedis() {
	c.outside <- c.server.Kill
	<-c.done
}

func (c *simulatedHosts) runRedis() {
	c.outside <- func() { c.server.Run(c.t) }
	<-c.done
}

// A host is a daemon as far as its jobs go.
type host struct {
	*jobs.Runner
	all    *simulatedHosts
	name   string
	ticks  *scheduler.Scheduler
	clock  redis.UniversalClient
	ledger *Store
	tokens jobs.Tokens

	mu    sync.Mutex         // guards what follows
	dead  bool               // it was killed, or is cut off
	calls int                // after so many more it is; 0: whatever it asks
	runs  []string           // the regions of its passes
	found []string           // the bookmarks that they found, behind their regions
	after func(lines string) // is called when Redis has been told them; or nil
}

// told has something done each time that Redis has been told of a run, before anybody
// hears of it.
func (h *host) told(after func(lines string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.after = after
}

// start starts a daemon on a host, also again.
func (c *simulatedHosts) start(name string) *host {
	c.t.Helper()
	h := &host{all: c, name: name}
	config := Config{Addrs: []string{c.server.Addr}}
	var err1, err2, err3 error
	h.ledger, err1 = openStore(config, onClock(c.t, clockOfServer))
	h.clock = config.client(nil)
	job := c.job
	h.Runner, err2 = jobs.Open(jobs.Config{
		Jobs: append([]*jobs.Job{&job}, c.others...), Gate: h, Launcher: h, Tokens: &h.tokens, OnEvent: h.observe, Dir: c.dirs[name],
		EndLeftover: func(context.Context, jobs.Identity, time.Duration) (bool, error) { return false, nil },
		Now:         time.Now, Store: h, Host: name,
	})
	h.ticks, err3 = scheduler.New(h.Tick, func(job string, err error) { h.observe(jobs.Trouble{Job: job, Err: err}) })
	if err := errors.Join(err1, err2, err3, h.ticks.Set(job.Name, job.Schedule)); err != nil {
		c.t.Fatal(err)
	}
	h.Start(context.Background())
	h.ticks.Start()
	synctest.Wait()
	return h
}

// stop stops a daemon in order.
func (h *host) stop() {
	h.all.t.Helper()
	err := h.ticks.Stop()
	ask, cancel := context.WithCancel(context.Background())
	cancel()
	h.Stop(ask, context.Background())
	if err := errors.Join(err, h.ledger.Close(), h.clock.Close()); err != nil {
		h.all.t.Error(err)
	}
}

// kill has a daemon do nothing more that anybody would notice. The next one finds
// what this one has left.
func (h *host) kill() {
	c := h.all
	c.t.Helper()
	h.setDead(true)
	left := c.dirs[h.name] + "+"
	if err := os.CopyFS(left, os.DirFS(c.dirs[h.name])); err != nil {
		c.t.Fatal(err)
	}
	c.dirs[h.name] = left
	h.stop()
}

func (h *host) setDead(dead bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dead = dead
}

func (h *host) isDead() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dead
}

// dieAfter cuts the host off when Redis has done so many things more for it: of the last
// one it does not hear.
func (h *host) dieAfter(calls int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = calls
}

// answered returns the error of an answer, or that the host is cut off right then.
func (h *host) answered(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls == 0 {
		return err
	}
	if h.calls--; h.calls == 0 {
		h.dead = true
		return fmt.Errorf("%w: %w", quota.ErrOutcomeUnknown, errDead)
	}
	return err
}

var errDead = errors.New("the host is cut off")

// Append implements slidinglog.Store: it sets Redis' clock before it is asked something.
func (h *host) Append(ctx context.Context, calls []slidinglog.Call) []slidinglog.Outcome {
	outcomes := make([]slidinglog.Outcome, len(calls))
	if h.isDead() {
		for i := range outcomes {
			outcomes[i] = slidinglog.Outcome{Status: slidinglog.Failed, Err: fmt.Errorf("%w: %w", quota.ErrUnavailable, errDead)}
		}
		return outcomes
	}
	_ = h.clock.Set(ctx, "clock", time.Now().UnixMilli(), 0).Err() // if it fails, so does what is asked then
	outcomes = h.ledger.Append(ctx, calls)
	h.mu.Lock()
	after := h.after
	h.mu.Unlock()
	for i, call := range calls {
		if after != nil && outcomes[i].Status == slidinglog.Done {
			after(string(call.Body))
		}
		if err := h.answered(nil); err != nil {
			outcomes[i] = slidinglog.Outcome{Status: slidinglog.Unknown, Err: err}
		}
	}
	return outcomes
}

func (h *host) Name() string                                 { return h.ledger.Name() }
func (h *host) Health(ctx context.Context) ([]string, error) { return h.ledger.Health(ctx) }
func (h *host) Close() error                                 { return nil }

// Peek takes all calls to cost a unit.
func (h *host) Peek(_ context.Context, _ string, own quota.Calls, others []quota.Calls, _ bool) (quota.Decision, error) {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	if wait := time.Until(h.all.back); wait > 0 {
		return quota.Decision{Reason: quota.LimitExceeded, Limit: "pace", RetryAt: h.all.back, RetryAfter: wait}, nil
	}
	sum := quota.Units(0)
	for _, calls := range append(others, own) {
		for _, count := range calls.Count {
			sum += count
		}
	}
	if h.all.left > 0 && sum > h.all.left {
		return quota.Decision{Reason: quota.LimitExceeded, Limit: "daily", Units: sum}, nil
	}
	return quota.Decision{}, nil
}

// spend has a pass spend a unit.
func (h *host) spend(token string) {
	decided, d := h.tokens.Admit(token, quota.Request{Operation: "list", Count: 1}, 1)
	if !d.Granted() {
		h.all.t.Errorf("a call is refused: %s", d.Reason)
		return
	}
	h.all.mu.Lock()
	h.all.left--
	id := fmt.Sprintf("%s-%d", h.name, h.all.left)
	h.all.mu.Unlock()
	decided(quota.Decision{GrantID: id, Units: 1}, nil)
}

func (h *host) Spent(context.Context, string, string, time.Time) (map[string]quota.Spent, error) {
	return nil, nil
}

func (h *host) Cost(string, quota.Calls) quota.Units { return 0 }

func (h *host) Launch(ctx, _ context.Context, c jobs.Command, _ func(jobs.Line)) jobs.Exit {
	env := map[string]string{}
	for _, entry := range c.Env {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	region := env["QUOTAD_REGION"]
	h.mu.Lock()
	h.runs = append(h.runs, region)
	if mark := env["QUOTAD_BOOKMARK"]; mark != "" {
		h.found = append(h.found, region+" "+mark)
	}
	h.mu.Unlock()
	if h.all.play == nil {
		return jobs.Exit{}
	}
	return h.all.play(context.WithValue(ctx, tokenKey{}, env["QUOTAD_TOKEN"]), h, region)
}

type tokenKey struct{}

// served returns the regions of the host's passes until now.
func (h *host) served() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.runs)
}

// bookmarks returns those that the host's passes found until now, behind their regions.
func (h *host) bookmarks() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.found)
}

func (h *host) observe(event any) {
	switch e := event.(type) {
	case jobs.RunChanged:
		line := fmt.Sprintf("run %s", e.Run.State)
		if e.Run.Reason != "" {
			line += fmt.Sprintf(" (%s)", e.Run.Reason)
		}
		if e.Run.State == jobs.RunSkipped {
			line += fmt.Sprintf(" ×%d", e.Run.Ticks)
		}
		h.all.add(h, line)
	case jobs.PassChanged:
		if e.Pass.Outcome != jobs.Running {
			h.all.add(h, fmt.Sprintf("%s %s", e.Pass.Region, e.Pass.Outcome))
		}
	case jobs.Trouble:
		h.all.add(h, fmt.Sprintf("trouble: %s: %v", e.Job, e.Err))
	}
}

// add notes what a host does. Which one it is does not matter to most tests: it is
// named behind.
func (c *simulatedHosts) add(h *host, line string) {
	if h.isDead() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, time.Now().UTC().Format("15:04:05 ")+line+" on "+h.name)
}

// wants compares the log since the last call with what a test expects, in any
// order and on any host.
func (c *simulatedHosts) wants(want ...string) {
	c.t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	var got []string
	for _, line := range c.log {
		what, _, _ := strings.Cut(line, " on ")
		got = append(got, what)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		c.t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(c.log, "\n\t"), strings.Join(want, "\n\t"))
	}
	c.log = nil
}

// forget drops the log until now.
func (c *simulatedHosts) forget() {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = nil
}

// until lets time pass up to a time of day.
func (c *simulatedHosts) until(clock string) {
	c.t.Helper()
	at, err := time.Parse(time.TimeOnly, clock)
	if err != nil {
		c.t.Fatal(err)
	}
	now := time.Now().UTC()
	day := 24 * time.Hour
	wait := (at.Sub(at.Truncate(day)) - now.Sub(now.Truncate(day)) + day) % day
	time.Sleep(wait)
	synctest.Wait()
}

// status is how a host shows the job.
func (h *host) status() jobs.Status {
	h.all.t.Helper()
	list, err := h.Status("trending")
	if err != nil {
		h.all.t.Fatal(err)
	}
	return list[0]
}
