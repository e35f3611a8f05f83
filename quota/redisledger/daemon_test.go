package redisledger_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger"
	"quotad/quota/redisledger/redistest"
)

// A daemon is one as far as its ledger goes, which is as it is put together in production.
type daemon struct {
	testing.TB
	ledger  *redisledger.Ledger
	service *quota.Service
	events  chan redisledger.Event
	dir     string
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
func start(t testing.TB, server *redistest.Server, name, dir string) *daemon {
	t.Helper()
	h := &daemon{TB: t, events: make(chan redisledger.Event, 1000), dir: dir}
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
	if h.service, err = quota.NewService(h.ledger, credentials, deadline); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.stop)
	return h
}

// emptyRedis starts a Redis for a test that runs beside others: a loss takes a quiet period.
func emptyRedis(t *testing.T, args ...string) *redistest.Server {
	t.Helper()
	t.Parallel()
	return redistest.Start(t, args...)
}

func (h *daemon) stop() {
	if h.ledger != nil {
		h.ledger.Close()
		h.ledger = nil
	}
}

func (h *daemon) acquire(operation, id string) quota.Decision {
	h.Helper()
	d, err := h.service.Acquire(context.Background(), quota.Request{Credential: "youtube", Operation: operation, Count: 1, RequestID: id})
	if err != nil {
		h.Fatal(err)
	}
	return d
}

// refused acquires an operation, and expects the ledger to be unavailable.
func (h *daemon) refused(operation string) {
	h.Helper()
	d, err := h.service.Acquire(context.Background(), quota.Request{Credential: "youtube", Operation: operation, Count: 1})
	if !errors.Is(err, quota.ErrUnavailable) && !errors.Is(err, quota.ErrOutcomeUnknown) {
		h.Errorf("got %+v, %v for %s, want an unavailable ledger", d, err, operation)
	}
}

func (h *daemon) granted(operation string) quota.Decision {
	h.Helper()
	d := h.acquire(operation, "")
	if !d.Granted() {
		h.Fatalf("got %+v, want a grant", d)
	}
	return d
}

func (h *daemon) settle(d quota.Decision, units quota.Units) {
	h.Helper()
	if s, err := h.service.Settle(h.Context(), d.GrantID, units, quota.Caller{UID: 0}); err != nil || !s.Granted() {
		h.Fatalf("got %+v, %v; want it settled", s, err)
	}
}

// offline tells whether an operation is granted without Redis.
func (h *daemon) offline(operation string) bool {
	h.Helper()
	d, err := h.service.Acquire(h.Context(), quota.Request{Credential: "youtube", Operation: operation, Count: 1})
	return err == nil && d.Outage
}

func (h *daemon) used(want quota.Units) {
	h.Helper()
	u, _, err := h.service.Usage(context.Background(), "youtube")
	if err != nil {
		h.Fatal(err)
	}
	if got := u.Limits[0].Used; got != want {
		h.Fatalf("%d units are used, want %d", got, want)
	}
}

// hear has hosts learn what is used, and with it which daemons wrote to the log.
func hear(want quota.Units, hosts ...*daemon) {
	for _, h := range hosts {
		h.Helper()
		h.used(want)
	}
}

// await waits for an event.
func (h *daemon) await(kind redisledger.Kind) redisledger.Event {
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

func (h *daemon) awaitUp() {
	h.Helper()
	h.await(redisledger.Up)
}
