package redisledger_test

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger"
	"quotad/quota/redisledger/redistest"
)

// A host is a daemon's ledger as it is put together in production.
type host struct {
	testing.TB
	ledger *redisledger.Ledger
	keeper *quota.Service
	events chan redisledger.Event
	dir    string
}

// deadline is long, so that a busy machine does not pass for an outage.
const deadline = 2 * time.Second

// quiet is how long a log is quiet after a loss. A test waits for it, and ten times as long
// where a daemon stays away.
const quiet = 300 * time.Millisecond

// hanging is the time after which a test hangs, and is not only slow.
const hanging = 3 * time.Minute

func youtube() *quota.Credential {
	return &quota.Credential{
		Name:   "youtube",
		Limits: []quota.Limit{{Name: "daily", Units: 100, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{
			"search.list": {Every: 10},
			"videos.list": {Every: 1},
		},
	}
}

// start opens a host on a server; its journal stands in dir.
func start(t testing.TB, server *redistest.Server, name, dir string) *host {
	t.Helper()
	h := &host{TB: t, events: make(chan redisledger.Event, 1000), dir: dir}
	var err error
	h.ledger, err = redisledger.Open(redisledger.Config{Addrs: []string{server.Addr}, Daemon: name}, redisledger.Local{
		Deadline: deadline, Quiet: quiet, Journal: filepath.Join(dir, "journal"), Keep: 48 * time.Hour,
		Observe: func(e redisledger.Event) { h.events <- e },
	})
	if err != nil {
		t.Fatal(err)
	}
	credentials := []*quota.Credential{youtube()}
	policies := map[string]redisledger.Policy{"youtube": {Open: map[string]bool{"videos.list": true}, Units: 5}}
	h.ledger.SetCredentials(credentials, policies)
	if h.keeper, err = quota.NewService(h.ledger, credentials, deadline); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.stop)
	return h
}

func (h *host) stop() {
	if h.ledger != nil {
		h.ledger.Close()
		h.ledger = nil
	}
}

func (h *host) acquire(operation, id string) quota.Decision {
	h.Helper()
	d, err := h.keeper.Acquire(context.Background(), quota.Request{Credential: "youtube", Operation: operation, Count: 1, RequestID: id})
	if err != nil {
		h.Fatal(err)
	}
	return d
}

// refused acquires an operation, and expects the ledger to be unavailable.
func (h *host) refused(operation string) {
	h.Helper()
	d, err := h.keeper.Acquire(context.Background(), quota.Request{Credential: "youtube", Operation: operation, Count: 1})
	if !errors.Is(err, quota.ErrUnavailable) && !errors.Is(err, quota.ErrOutcomeUnknown) {
		h.Errorf("got %+v, %v for %s, want an unavailable ledger", d, err, operation)
	}
}

func (h *host) granted(operation string) quota.Decision {
	h.Helper()
	d := h.acquire(operation, "")
	if !d.Granted() {
		h.Fatalf("got %+v, want a grant", d)
	}
	return d
}

func (h *host) used(want quota.Units) {
	h.Helper()
	u, _, err := h.keeper.Usage(context.Background(), "youtube")
	if err != nil {
		h.Fatal(err)
	}
	if got := u.Limits[0].Used; got != want {
		h.Fatalf("%d units are used, want %d", got, want)
	}
}

// hear has hosts learn what is used, and with it which daemons wrote to the log.
func hear(want quota.Units, hosts ...*host) {
	for _, h := range hosts {
		h.Helper()
		h.used(want)
	}
}

// await waits for an event.
func (h *host) await(kind redisledger.Kind) redisledger.Event {
	h.Helper()
	timeout := time.After(hanging)
	for {
		select {
		case e := <-h.events:
			if e.Kind == kind {
				return e
			}
		case <-timeout:
			h.Fatalf("no event %q", kind)
		}
	}
}

// realRedis skips where there is only a stand-in: it can be neither stopped nor killed.
func realRedis(t *testing.T, args ...string) *redistest.Server {
	t.Helper()
	t.Parallel() // a loss takes a quiet period
	server := redistest.Start(t, args...)
	if !server.Real {
		t.Skip("needs a redis-server that can be stopped and killed")
	}
	return server
}

func TestFlushedLogIsNotAFreshBudget(t *testing.T) {
	server := realRedis(t)
	h := start(t, server, "a", t.TempDir())
	for range 9 {
		h.granted("search.list")
	}
	released := h.granted("videos.list")
	if _, err := h.keeper.Settle(t.Context(), released.GrantID, 0, quota.Caller{}); err != nil {
		t.Fatal(err)
	}
	server.Order(t, "FLUSHALL")
	// Nothing is granted in between, not even by an open operation: it is not
	// known what is left.
	h.refused("videos.list")
	if e := h.await(redisledger.Restored); e.Records != 12 { // the grants, a settlement, and the grant that it names
		t.Errorf("%d entries were staged, want 12", e.Records)
	}
	h.await(redisledger.Up)
	h.used(90)
	h.granted("search.list")
	if d := h.acquire("search.list", ""); d.Reason != quota.LimitExceeded {
		t.Errorf("got %+v, want a denial: the day was spent before the flush", d)
	}
}

func TestEveryDaemonPutsItsOwnBack(t *testing.T) {
	server := realRedis(t)
	a, b := start(t, server, "a", t.TempDir()), start(t, server, "b", t.TempDir())
	for range 4 {
		a.granted("search.list")
		b.granted("search.list")
	}
	hear(80, a, b)
	server.Order(t, "FLUSHALL")
	// b is idle: it notices by itself, before a is granted anything.
	a.await(redisledger.Up)
	a.used(80)
	a.granted("search.list")
	a.granted("search.list")
	for _, h := range []*host{a, b} {
		if d := h.acquire("search.list", ""); d.Granted() {
			t.Errorf("got %+v, want no more than the day has", d)
		}
	}
}

func TestFlushedWhileTheDaemonWasDown(t *testing.T) {
	server, dir := realRedis(t), t.TempDir()
	h := start(t, server, "a", dir)
	for range 10 {
		h.granted("search.list")
	}
	h.stop()
	server.Order(t, "FLUSHALL")
	h = start(t, server, "a", dir)
	h.await(redisledger.Up)
	h.used(100)
}

func TestOlderCopyIsNoticed(t *testing.T) {
	server := realRedis(t)
	h := start(t, server, "a", t.TempDir())
	h.granted("search.list")
	server.Order(t, "SAVE")
	h.granted("search.list")
	h.granted("search.list")
	server.Kill() // what came after the snapshot is lost
	server.Run(t)
	h.await(redisledger.Restored)
	h.await(redisledger.Up)
	h.used(30)
}

func TestFrozenLedger(t *testing.T) {
	server := realRedis(t)
	h := start(t, server, "a", t.TempDir())
	h.granted("search.list")
	if err := server.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// The first to ask waits for the deadline, no longer; then all are answered at once.
	h.refused("search.list")
	for calls, open := range map[string]bool{"videos.list": true, "search.list": false} {
		if d, err := h.keeper.Peek(t.Context(), "youtube", map[string]quota.Units{calls: 1}, false); (err == nil) != open || open && !d.Granted() {
			t.Errorf("got %+v, %v for a peek at %s, want it to be open: %v", d, err, calls, open)
		}
	}
	var ids []string
	for range 5 {
		d := h.granted("videos.list")
		if !d.Outage {
			t.Errorf("got %+v, want a grant of the outage", d)
		}
		ids = append(ids, d.GrantID)
	}
	h.refused("videos.list") // beyond open_units
	_, last, _ := quota.ParseGrantID(ids[4])
	granted := last.Time()
	if _, err := h.keeper.Settle(t.Context(), ids[0], 0, quota.Caller{}); err != nil {
		t.Errorf("a grant of the outage cannot be released during it: %v", err)
	}
	server.Process.Signal(syscall.SIGCONT)
	if e := h.await(redisledger.Up); e.Units != 5 {
		t.Errorf("%d units were booked back, want 5", e.Units)
	}
	// One search was granted, another's outcome was unknown and is released with
	// the next acquire; of the outage's five one was released.
	h.granted("search.list")
	h.used(10 + 4 + 10)
	page, _, err := h.keeper.Log(t.Context(), "youtube", quota.LogQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entries {
		if e.Operation == "videos.list" && e.At.Equal(granted) {
			return
		}
	}
	t.Errorf("%s was not booked with its own time: %+v", ids[4], page.Entries)
}

func TestOutageSurvivesTheDaemon(t *testing.T) {
	server, dir := realRedis(t), t.TempDir()
	h := start(t, server, "a", dir)
	h.granted("search.list")
	server.Kill()
	for {
		if d := h.acquire("videos.list", "page-1"); d.Outage {
			break
		}
	}
	h.granted("videos.list")
	h.stop()

	h = start(t, server, "a", dir)
	again := h.acquire("videos.list", "page-1")
	if !again.Replayed || !again.Outage {
		t.Errorf("got %+v after a restart, want the same grant again", again)
	}
	for range 3 {
		h.granted("videos.list")
	}
	h.refused("videos.list") // the cap is the outage's, not the daemon's
	server.Run(t)            // empty: it never wrote anything down
	h.await(redisledger.Up)
	h.used(15)
	if d := h.acquire("videos.list", "page-1"); !d.Replayed || d.GrantID != again.GrantID {
		t.Errorf("got %+v after booking back, want the grant %s", d, again.GrantID)
	}
}

func TestHealthTells(t *testing.T) {
	server := realRedis(t)
	h := start(t, server, "a", t.TempDir())
	h.granted("search.list")
	health := h.keeper.Health(t.Context())
	if !health.Reachable || len(health.Warnings) == 0 {
		t.Errorf("got %+v, want a reachable ledger that persists nothing", health)
	}
	server.Kill()
	h.await(redisledger.Down)
	if health = h.keeper.Health(t.Context()); health.Reachable || health.State == "ok" {
		t.Errorf("got %+v of a dead ledger", health)
	}
}
