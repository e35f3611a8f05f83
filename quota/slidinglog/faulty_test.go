package slidinglog

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"quotad/lua"
	"quotad/quota"
)

// A faulty is the engine that hosts share in these tests, in place of a Redis: a Memory that loses keys, falls back to
// an older copy, is away, and has a clock that is set.
type faulty struct {
	mu       sync.Mutex // guards what follows
	twin     *twin
	offset   time.Duration // of its clock
	away     bool
	restored int // entries that were sent to be put back
}

func newFaulty(t *testing.T) *faulty {
	f := &faulty{twin: newTwin(t, lua.Usual(), nil)}
	f.twin.server = "first"
	return f
}

// run runs a script for a connection that has declared another server, or this one.
func (f *faulty) run(credential string, s Script, args []any, declared string) (
	values []any, server string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return nil, declared, fmt.Errorf("%w: the engine is away", quota.ErrUnavailable)
	}
	f.twin.name, f.twin.clock = credential, time.Now().Add(f.offset).UnixMicro()
	if declared != f.twin.server && credential != AllHosts {
		declared = f.twin.server
		if _, err := f.twin.run(declares, "declared by "+fmt.Sprint(f.twin.clock)); err != nil {
			return nil, "", err
		}
	}
	if s == Restore {
		f.restored += (len(args) - 4) / 4
	}
	values, err = f.twin.run(s, args...)
	return values, declared, err
}

// put returns how many entries hosts have sent to be put back.
func (f *faulty) put() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.restored
}

func (f *faulty) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// flush is FLUSHALL.
func (f *faulty) flush() { f.set(func() { clear(f.twin.memory.keys) }) }

// del deletes keys of the credential c.
func (f *faulty) del(parts ...string) {
	f.set(func() {
		for _, part := range parts {
			delete(f.twin.memory.keys, "c:"+part)
		}
	})
}

// copy keeps a copy of the log of c, and fallBack has it replace the log, on another server.
func (f *faulty) copy() { f.set(func() { must(f.twin.copyKeys("c", "copy")) }) }

func (f *faulty) fallBack(server string) {
	f.set(func() {
		must(f.twin.copyKeys("copy", "c"))
		f.twin.server = server
	})
}

// A fault is what happens to a call on its way.
type fault struct {
	before, after time.Duration // how late the call, and its answer, arrive
	drop          bool          // the call never arrives
	lose          bool          // its answer never does
}

// A way is a host's connection to the engine.
type way struct {
	to *faulty

	mu       sync.Mutex // guards what follows
	declared map[string]string
	meet     func(s Script, args []any) fault
}

func (w *way) Shared() bool                             { return true }
func (w *way) Health(context.Context) ([]string, error) { return nil, nil }
func (w *way) Close() error                             { return nil }

// disturb has meet say what each call meets from now on; nil: nothing.
func (w *way) disturb(meet func(s Script, args []any) fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.meet = meet
}

// Run implements Engine. A call that its caller gave up is carried out all the same when it arrives.
func (w *way) Run(ctx context.Context, credential string, s Script, args []any) ([]any, error) {
	w.mu.Lock()
	meet := w.meet
	w.mu.Unlock()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", quota.ErrUnavailable, ctx.Err())
	}
	if meet == nil {
		return w.carry(credential, s, args)
	}
	f := meet(s, args)
	if f.drop {
		return nil, fmt.Errorf("%w: the connection is cut", quota.ErrUnavailable)
	}
	type answer struct {
		values []any
		err    error
	}
	came := make(chan answer, 1)
	go func() {
		time.Sleep(f.before)
		values, err := w.carry(credential, s, args)
		time.Sleep(f.after)
		if f.lose {
			err = fmt.Errorf("%w: the answer is lost", quota.ErrOutcomeUnknown)
		}
		came <- answer{values, err}
	}()
	select {
	case a := <-came:
		return a.values, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", quota.ErrOutcomeUnknown, context.Cause(ctx))
	}
}

func (w *way) carry(credential string, s Script, args []any) ([]any, error) {
	w.mu.Lock()
	declared := w.declared[credential]
	w.mu.Unlock()
	values, declared, err := w.to.run(credential, s, args, declared)
	w.mu.Lock()
	w.declared[credential] = declared
	w.mu.Unlock()
	return values, err
}

// delayed has each call of a script arrive later, and its answer.
func delayed(s Script, before, after time.Duration) func(Script, []any) fault {
	return func(which Script, _ []any) fault {
		if which != s {
			return fault{}
		}
		return fault{before: before, after: after}
	}
}

// A world has hosts on one engine, in a bubble of synctest. What callers were told to be granted is added up.
type world struct {
	t      *testing.T
	engine *faulty
	dir    string
	hosts  []*host

	mu     sync.Mutex // guards what follows, while several ask
	told   quota.Units
	events map[string]Event // the last one of each host
}

// A host is one of a world. Its limits count what it is asked in "daily".
type host struct {
	*Ledger
	world *world
	name  string
	way   *way
	c     *quota.Credential
	dead  bool

	policies map[string]Policy // for an outage
}

const budget = 1000

// play plays a history of n hosts that poll each second, on a log whose first quiet is over.
func play(t *testing.T, n int, history func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, engine: newFaulty(t), dir: t.TempDir(), events: map[string]Event{}}
		for i := range n {
			w.host(string(rune('a' + i)))
		}
		t.Cleanup(func() {
			for _, h := range w.hosts {
				h.kill()
			}
		})
		time.Sleep(2500 * time.Millisecond)
		history(t, w)
	})
}

// credential returns c with a window of budget units an hour.
func credential(units quota.Units, window quota.Window) *quota.Credential {
	return &quota.Credential{Name: "c", Limits: []quota.Limit{{Name: "daily", Units: units, Window: window}},
		Operations: map[string]quota.Cost{"op": {Every: 1}}}
}

// host starts a host, or one that was killed: it has the journal of its name.
func (w *world) host(name string) *host { return w.named(name, name) }

// named begins a host whose journals another one of its name does not use.
func (w *world) named(dir, name string) *host {
	h := &host{world: w, name: name, c: credential(budget, quota.Sliding(time.Hour))}
	h.way = &way{to: w.engine, declared: map[string]string{}}
	h.Ledger = Open(Config{Engine: h.way, Dir: filepath.Join(w.dir, dir), Name: name, OnEvent: func(e Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events[name] = e
	}})
	h.configure(h.c)
	w.hosts = append(w.hosts, h)
	return h
}

// event returns the last one of a host.
func (h *host) event() Event {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	return h.world.events[h.name]
}

// configure sets the credential of a host.
func (h *host) configure(c *quota.Credential) {
	h.world.t.Helper()
	h.c = c
	if err := h.SetCredentials([]*quota.Credential{c}, h.policies); err != nil {
		h.world.t.Fatal(err)
	}
}

// mayGrantAlone has a host grant as many units while the engine is away, which it has looked at before.
func (h *host) mayGrantAlone(units quota.Units) {
	h.world.t.Helper()
	h.policies = map[string]Policy{h.c.Name: {Open: map[string]bool{"op": true}, Units: units}}
	h.configure(h.c)
	time.Sleep(1100 * time.Millisecond)
}

// kill ends a host, which says nothing more to others.
func (h *host) kill() {
	if h.dead {
		return
	}
	h.dead = true
	h.stop()
	h.workers.Wait()
	for _, one := range h.all() {
		one.journal.Close()
	}
}

func askOf(id string, units quota.Units) quota.Ask {
	r := quota.Request{Credential: "c", Operation: "op", Count: units, RequestID: id, Caller: quota.Caller{UID: 1}}
	return quota.Ask{Request: r, Charges: []quota.Charge{{Limit: "daily", Units: units}}}
}

// within is the deadline of a caller.
const within = 250 * time.Millisecond

// ask asks for units, and adds up what is granted.
func (h *host) ask(units quota.Units) (quota.Decision, error) { return h.askAs("", units, within) }

func (h *host) askAs(id string, units quota.Units, d time.Duration) (quota.Decision, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	decision, err := h.Acquire(ctx, h.c, askOf(id, units))
	if err == nil && decision.Granted() && !decision.Replayed {
		h.world.mu.Lock()
		h.world.told += units
		h.world.mu.Unlock()
	}
	return decision, err
}

// spend asks for a unit n times, every so often.
func (h *host) spend(n int, every time.Duration) {
	for range n {
		h.ask(1)
		time.Sleep(every)
	}
}

// settle settles a grant within a deadline.
func (h *host) settle(grant string, units quota.Units, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	_, id, err := quota.ParseGrantID(grant)
	if err == nil {
		var d quota.Decision
		d, err = h.Settle(ctx, h.c, quota.Settlement{Grant: id, Units: units, Caller: quota.Caller{UID: 1}})
		if err == nil && !d.Granted() { // its host has not put the grant back yet
			err = &quota.RefusedError{Decision: d}
		}
	}
	return err
}

// used returns what the log holds.
func (h *host) used() quota.Units {
	h.world.t.Helper()
	u, err := h.Usage(context.Background(), h.c)
	if err != nil || !u.AsOf.IsZero() {
		h.world.t.Fatalf("host %s does not read the log: %v %v", h.name, u, err)
	}
	return u.Limits[0].Used
}

// full has all hosts that live ask until all is spent, and holds what was told in all against the budget and a bound.
func (w *world) full(bound quota.Units) {
	w.t.Helper()
	time.Sleep(5 * time.Second) // two polls, and quiet
	for _, h := range w.hosts {
		if !h.dead {
			h.spend(400, time.Millisecond)
		}
	}
	for _, h := range w.hosts {
		for !h.dead {
			d, err := h.ask(1)
			if err != nil {
				w.t.Errorf("host %s does not decide at the end: %v", h.name, err)
			}
			if !d.Granted() || err != nil {
				break
			}
		}
	}
	over := w.told - budget
	w.t.Logf("over by %d of %d", max(0, over), budget)
	if over > bound {
		w.t.Errorf("over by %d, want at most %d", over, bound)
	}
}
