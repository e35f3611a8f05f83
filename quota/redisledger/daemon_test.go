package redisledger_test

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/boltledger"
	"quotad/quota/redisledger"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/slidinglog"
)

// A daemon is one as far as its ledger goes, which is as it is put together in production.
type daemon struct {
	testing.TB
	file    *boltledger.File
	ledger  *slidinglog.Ledger
	service *quota.Service
	events  chan slidinglog.Event
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

// start opens a host on a server, with its copy of the logs in dir, and waits until it serves.
func start(t testing.TB, server *redistest.Server, name, dir string) *daemon {
	t.Helper()
	h := begin(t, server.Addr, name, dir)
	h.serves()
	for len(h.events) > 0 { // an empty log was quiet at first
		<-h.events
	}
	return h
}

// begin opens a host, for which a server is the same wherever a test starts it again.
func begin(t testing.TB, addr, name, dir string) *daemon {
	t.Helper()
	return beginOn(t, redisledger.Config{Addrs: []string{addr}}, name, dir, "redis")
}

// beginOn opens a host on a store of a name, or under its own.
func beginOn(t testing.TB, config redisledger.Config, name, dir, storeName string) *daemon {
	t.Helper()
	h := &daemon{TB: t, events: make(chan slidinglog.Event, 1000), dir: dir}
	file, err := boltledger.Open(boltledger.Config{Path: filepath.Join(dir, "ledger.db"), AcceptNew: true})
	if err != nil {
		t.Fatal(err)
	}
	store, err := redisledger.OpenStore(config)
	if err != nil {
		t.Fatal(err)
	}
	h.file = file
	h.ledger, err = slidinglog.Open(slidinglog.Config{
		File: file, Store: namedStore{store, cmp.Or(storeName, store.Name())}, Label: name, Deadline: deadline, Quiet: quiet, OnEvent: func(e slidinglog.Event) { h.events <- e },
	})
	if err != nil {
		t.Fatal(err)
	}
	h.configure(youtube(), slidinglog.Policy{Open: map[string]bool{"videos.list": true}, Units: 5})
	t.Cleanup(h.stop)
	return h
}

type namedStore struct {
	*redisledger.Store
	name string
}

// Name implements slidinglog.Store.
func (s namedStore) Name() string { return s.name }

// configure has the host count a credential, and follow a policy, from now on.
func (h *daemon) configure(c *quota.Credential, p slidinglog.Policy) {
	h.Helper()
	err := h.ledger.SetCredentials([]*quota.Credential{c}, map[string]slidinglog.Policy{c.Name: p})
	if err == nil && h.service == nil {
		h.service, err = quota.NewService(h.ledger, []*quota.Credential{c}, deadline)
	} else if err == nil {
		err = h.service.SetCredentials([]*quota.Credential{c})
	}
	if err != nil {
		h.Fatal(err)
	}
}

// serves waits until the host decides about its log.
func (h *daemon) serves() {
	h.Helper()
	until := time.After(hanging)
	for tick := time.NewTicker(quiet / 20); !h.ledger.Health(h.Context()).Reachable; {
		select {
		case <-tick.C:
		case <-until:
			h.Fatalf("the ledger does not serve: %+v", h.ledger.Health(h.Context()))
		}
	}
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

// used waits until a host knows what is used. What another host wrote it knows at its next
// look, and while it looks already, usage does not wait for that.
func (h *daemon) used(want quota.Units) {
	h.Helper()
	for until, tick := time.Now().Add(hanging), time.NewTicker(quiet/20); ; <-tick.C {
		got := h.usage()
		if got == want {
			return
		}
		if time.Now().After(until) {
			h.Fatalf("%d units are used, want %d", got, want)
		}
	}
}

// usage is what the limit counts.
func (h *daemon) usage() quota.Units {
	h.Helper()
	u, err := h.service.Usage(context.Background(), "youtube")
	if err != nil {
		h.Fatal(err)
	}
	return u.Limits[0].Used
}

// eventually waits until something is so.
func (h *daemon) eventually(so func() bool) {
	h.Helper()
	for until, tick := time.Now().Add(hanging), time.NewTicker(quiet/20); !so(); <-tick.C {
		if time.Now().After(until) {
			h.Fatal("it does not come to pass")
		}
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
func (h *daemon) await(kind slidinglog.EventKind) slidinglog.Event {
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
