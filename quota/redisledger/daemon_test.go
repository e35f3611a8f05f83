package redisledger_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/slidinglog"
)

// A daemon is one as far as its ledger goes, which is as it is put together in production.
type daemon struct {
	testing.TB
	ledger  *slidinglog.Ledger
	service *quota.Service
	events  chan slidinglog.Event
}

// deadline is long, so that a busy machine does not pass for an outage.
const deadline = 2 * time.Second

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

// start opens a host on an address, with its journal in dir, and waits until it decides.
func start(t testing.TB, config redisledger.Config, name, dir string) *daemon {
	t.Helper()
	h := begin(t, config, name, dir)
	h.ledger.Await(t.Context())
	for len(h.events) > 0 {
		<-h.events
	}
	return h
}

// begin opens a host, and does not wait.
func begin(t testing.TB, config redisledger.Config, name, dir string) *daemon {
	t.Helper()
	h := &daemon{TB: t, events: make(chan slidinglog.Event, 10_000)}
	config.Deadline = max(config.Deadline, deadline)
	store, err := redisledger.OpenStore(config)
	if err != nil {
		t.Fatal(err)
	}
	h.ledger = slidinglog.Open(slidinglog.Config{Engine: store, Dir: filepath.Join(dir, name), Name: name,
		Deadline: config.Deadline, Unsynced: true, OnEvent: func(e slidinglog.Event) { h.events <- e }})
	t.Cleanup(h.stop)
	h.configure(youtube(), slidinglog.Policy{Open: map[string]bool{"videos.list": true}, Units: 5})
	return h
}

func at(server *redistest.Server) redisledger.Config {
	return redisledger.Config{Addrs: []string{server.Addr}}
}

// configure has the host count a credential, and follow a policy, from now on.
func (h *daemon) configure(c *quota.Credential, p slidinglog.Policy) {
	h.Helper()
	service, err := quota.NewService(h.ledger, []*quota.Credential{c}, deadline)
	if err == nil {
		err = h.ledger.SetCredentials(service.Credentials(), map[string]slidinglog.Policy{c.Name: p})
	}
	if err != nil {
		h.Fatal(err)
	}
	h.service = service
}

// emptyRedis starts a Redis for a test that runs beside others, since it waits while a log is quiet.
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

// tryOnce acquires an operation.
func (h *daemon) tryOnce(operation, id string) (quota.Decision, error) {
	r := quota.Request{Credential: "youtube", Operation: operation, Count: 1, RequestID: id}
	return h.service.Acquire(context.Background(), r)
}

func (h *daemon) granted(operation string) quota.Decision {
	h.Helper()
	d, err := h.tryOnce(operation, "")
	if err != nil || !d.Granted() {
		h.Fatalf("got %+v, %v, want a grant", d, err)
	}
	return d
}

// refused acquires an operation, and expects the ledger to be unavailable.
func (h *daemon) refused(operation string) {
	h.Helper()
	d, err := h.tryOnce(operation, "")
	if !errors.Is(err, quota.ErrUnavailable) && !errors.Is(err, quota.ErrOutcomeUnknown) {
		h.Errorf("got %+v, %v for %s, want an unavailable ledger", d, err, operation)
	}
}

// used waits until the log holds so much, and decides.
func (h *daemon) used(want quota.Units) {
	h.Helper()
	var got quota.Usage
	var err error
	h.eventually(func() bool {
		got, err = h.service.Usage(context.Background(), "youtube")
		return err == nil && got.AsOf.IsZero() && got.Limits[0].Used == want
	}, func() { h.Logf("used are %+v, %v, want %d", got, err, want) })
}

// eventually waits until something is so, or says what is.
func (h *daemon) eventually(so func() bool, says ...func()) {
	h.Helper()
	for until, tick := time.Now().Add(hanging), time.NewTicker(20*time.Millisecond); !so(); <-tick.C {
		if time.Now().After(until) {
			for _, say := range says {
				say()
			}
			h.Fatal("it does not come to pass")
		}
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

// A spree is hosts whose callers ask for units all the time, while something happens to Redis.
type spree struct {
	*testing.T
	units  quota.Units // that there are
	hosts  []*daemon
	told   atomic.Int64
	asking sync.WaitGroup
	ctx    context.Context
	stop   context.CancelFunc
}

const spreeUnits = 400

// newSpree starts hosts, each with a caller.
func newSpree(t *testing.T, configs ...redisledger.Config) *spree {
	return newSpreeOf(t, spreeUnits, configs...)
}

func newSpreeOf(t *testing.T, units quota.Units, configs ...redisledger.Config) *spree {
	s := &spree{T: t, units: units}
	s.ctx, s.stop = context.WithCancel(t.Context())
	t.Cleanup(func() {
		s.stop()
		s.asking.Wait()
	})
	dir := t.TempDir()
	for i, config := range configs {
		s.hosts = append(s.hosts, s.host(config, string(rune('a'+i)), dir))
	}
	for _, h := range s.hosts {
		h.ledger.Await(t.Context())
	}
	for _, h := range s.hosts {
		s.asks(h)
	}
	return s
}

func (s *spree) host(config redisledger.Config, name, dir string) *daemon {
	h := begin(s, config, name, dir)
	c := youtube()
	c.Limits[0].Units = s.units
	h.configure(c, slidinglog.Policy{})
	return h
}

// asks has a caller ask a host from now on.
func (s *spree) asks(h *daemon) {
	service := h.service
	s.asking.Go(func() {
		for quota.Sleep(s.ctx, 5*time.Millisecond) {
			r := quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1}
			if d, err := service.Acquire(context.Background(), r); err == nil && d.Granted() {
				s.told.Add(1)
			}
		}
	})
}

// spent waits until so many units were told.
func (s *spree) spent(n int64) {
	s.Helper()
	s.hosts[0].eventually(func() bool { return s.told.Load() >= n })
}

// full waits until all is spent on each host, and holds by how much it is over.
func (s *spree) full(what string, bound int64) (over int64) {
	s.Helper()
	for _, h := range s.hosts {
		if h.ledger != nil {
			h.eventually(func() bool {
				d, err := h.tryOnce("videos.list", "")
				if err == nil && d.Granted() {
					s.told.Add(1)
				}
				return err == nil && d.Denied()
			})
		}
	}
	s.stop()
	s.asking.Wait()
	over = max(0, s.told.Load()-int64(s.units))
	s.Logf("%s: over by %d of %d", what, over, s.units)
	if over > bound {
		s.Errorf("%s: over by %d, want at most %d", what, over, bound)
	}
	return over
}
