package ledgertest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
)

// A ClientHarness opens stores of client limits for the suite.
type ClientHarness struct {
	// Open returns an empty store on the clock, and a function that returns the same one after a restart.
	Open func(t testing.TB, clock *Clock) (store clientlimit.Store, reopen func() clientlimit.Store)
	// Join opens another daemon's store of the same records; nil where no daemons share any.
	Join func(t testing.TB) clientlimit.Store
}

// A ClientStore is a store in memory that can be away.
type ClientStore struct {
	*clientlimit.Memory
	err atomic.Pointer[error]
}

// NewClientStore returns an empty store on a clock.
func NewClientStore(clock func() time.Time) *ClientStore {
	return &ClientStore{Memory: clientlimit.NewMemory(clock)}
}

// Fail has every call from now on fail; nil ends that.
func (s *ClientStore) Fail(err error) { s.err.Store(&err) }

func (s *ClientStore) failure() error {
	if err := s.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Count implements clientlimit.Store.
func (s *ClientStore) Count(ctx context.Context, c clientlimit.Call) (clientlimit.Count, error) {
	if err := s.failure(); err != nil {
		return clientlimit.Count{}, err
	}
	return s.Memory.Count(ctx, c)
}

// Forget implements clientlimit.Store.
func (s *ClientStore) Forget(ctx context.Context, c clientlimit.Call) error {
	if err := s.failure(); err != nil {
		return err
	}
	return s.Memory.Forget(ctx, c)
}

// A clientHistory is clients in the middle of their life.
type clientHistory struct {
	testing.TB
	harness ClientHarness
	clock   *Clock
	store   clientlimit.Store
	reopen  func() clientlimit.Store
	c       clientlimit.Clients
	service *clientlimit.Service
}

// beginClients starts a history at nine o'clock, when windows of whole minutes begin, of clients that have six units in
// a window.
func beginClients(t testing.TB, harness ClientHarness, algorithm clientlimit.Algorithm, window time.Duration, enforced bool) *clientHistory {
	t.Helper()
	h := &clientHistory{TB: t, harness: harness, clock: NewClock(nineOClock)}
	h.store, h.reopen = harness.Open(t, h.clock)
	h.c = clientlimit.Clients{Name: "public", Algorithm: algorithm}
	h.c.Limits = []quota.Limit{{Name: "six", Units: 6, Window: quota.Sliding(window), DryRun: !enforced}}
	h.configure()
	return h
}

var nineOClock = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func (h *clientHistory) configure() {
	h.Helper()
	h.service = serviceOf(h, h.store, h.c)
}

// secret is the one of all histories, so that their records have the same keys after a restart.
const secret = "a secret of the tests"

func serviceOf(t testing.TB, store clientlimit.Store, c clientlimit.Clients) *clientlimit.Service {
	t.Helper()
	service := clientlimit.NewService(nil)
	Must(t, service.SetClients(store, secret, []*clientlimit.Clients{&c}))
	return service
}

func (h *clientHistory) ask(subject string, units quota.Units) quota.Decision {
	h.Helper()
	d, err := h.service.Acquire(context.Background(), h.c.Name, clientlimit.Request{Subject: subject, Count: units})
	if err != nil || !d.Now.Equal(h.clock.Now()) {
		h.Fatalf("decided at %v, want %v: %v", d.Now, h.clock.Now(), err)
	}
	return d
}

// RunBoundOfLogs holds that a log that is not enforced forgets its oldest grants. It takes 100,000 calls.
func RunBoundOfLogs(t *testing.T, harness ClientHarness) {
	const most = 100_000
	h := beginClients(t, harness, clientlimit.Log, time.Hour, false)
	for range most + 10 {
		h.clock.Add(tick)
		h.ask("alice", 1)
	}
	if u, _, err := h.service.Usage(t.Context(), h.c.Name, "alice"); err != nil || u.Limits[0].Used != most {
		t.Errorf("got %+v, %v, want %d used", u, err, most)
	}
}

// RunClients holds a store to what RandomClients does not play. No window is shorter than a minute: a store may drop a
// record by another clock than the one that is set.
func RunClients(t *testing.T, harness ClientHarness) {
	for _, algorithm := range []clientlimit.Algorithm{clientlimit.Log, clientlimit.Counter} {
		t.Run("great numbers, "+string(algorithm), func(t *testing.T) {
			clientGreat(beginClients(t, harness, algorithm, time.Minute, false))
		})
		t.Run("many at once, "+string(algorithm), func(t *testing.T) {
			clientMany(beginClients(t, harness, algorithm, time.Minute, true))
		})
	}
}

// Limits that are not enforced count on, also when the units are many.
func clientGreat(h *clientHistory) {
	const most = clientlimit.MaxUnits
	sum := quota.Units(0)
	for range 3 {
		if sum += most; h.c.Algorithm == clientlimit.Counter { // whose sums are bounded
			sum = most
		}
		if d := h.ask("alice", most); !d.Granted() || d.Limits[0].Used != sum {
			h.Errorf("got %+v, want a grant, and %d used", d, sum)
		}
	}
	h.c.Limits[0].DryRun = false
	h.configure()
	if d := h.ask("alice", 1); d.Reason != quota.LimitExceeded {
		h.Errorf("got %+v, want a denial", d)
	}
	h.clock.Add(2 * time.Minute)
	if d := h.ask("alice", 6); !d.Granted() {
		h.Errorf("got %+v, want a grant", d)
	}
}

// Whatever asks at the same time, and at whichever of the daemons: each subject has its units, and no more.
func clientMany(h *clientHistory) {
	services := []*clientlimit.Service{h.service}
	for h.harness.Join != nil && len(services) < 3 {
		services = append(services, serviceOf(h, h.harness.Join(h), h.c))
	}
	const subjects, asks = 8, 20
	var granted [subjects]atomic.Int64
	var wg sync.WaitGroup
	for _, service := range services {
		for n := range asks {
			wg.Go(func() {
				for i := range subjects {
					i = (i + n) % subjects
					request := clientlimit.Request{Subject: fmt.Sprint("user", i), Count: 1}
					d, err := service.Acquire(context.Background(), h.c.Name, request)
					if err != nil {
						h.Error(err)
					} else if d.Granted() {
						granted[i].Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	for i := range granted {
		if n := granted[i].Load(); n != 6 {
			h.Errorf("subject %d was granted %d, want 6", i, n)
		}
	}
}
