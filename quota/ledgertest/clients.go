package ledgertest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
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
	mu  sync.Mutex // guards err
	err error
}

// NewClientStore returns an empty store on a clock.
func NewClientStore(clock func() time.Time) *ClientStore {
	return &ClientStore{Memory: clientlimit.NewMemory(clock)}
}

// Fail has every call from now on fail; nil ends that.
func (s *ClientStore) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *ClientStore) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
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

// beginClients starts a history at nine o'clock, when windows of whole minutes begin, of clients that have six units a
// minute.
func beginClients(t testing.TB, harness ClientHarness, algorithm clientlimit.Algorithm) *clientHistory {
	t.Helper()
	h := &clientHistory{TB: t, harness: harness, clock: NewClock(nineOClock)}
	h.store, h.reopen = harness.Open(t, h.clock)
	h.c = clientlimit.Clients{Name: "public", Algorithm: algorithm}
	h.limit("minute", 6, time.Minute)
	return h
}

var nineOClock = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// limit has the clients have a limit, or another one by its name; no units: none.
func (h *clientHistory) limit(name string, units quota.Units, window time.Duration) {
	h.Helper()
	var limits []quota.Limit
	for _, l := range h.c.Limits {
		if l.Name != name {
			limits = append(limits, l)
		}
	}
	if units > 0 {
		limits = append(limits, quota.Limit{Name: name, Units: units, Window: quota.Sliding(window)})
	}
	slices.SortFunc(limits, func(a, b quota.Limit) int { return cmp.Compare(a.Window.Length, b.Window.Length) }) // as answers have them
	h.c.Limits = limits
	h.configure()
}

// enforce has the first limit enforced, or not.
func (h *clientHistory) enforce(enforce bool) {
	h.c.Limits[0].DryRun = !enforce
	h.configure()
}

func (h *clientHistory) configure() {
	h.Helper()
	h.service = serviceOf(h, h.store, h.c)
}

// secret is the one of all histories, so that their records have the same keys after a restart.
const secret = "a secret of the tests"

func serviceOf(t testing.TB, store clientlimit.Store, c clientlimit.Clients) *clientlimit.Service {
	t.Helper()
	service := clientlimit.NewService(nil)
	if err := service.SetClients(store, secret, []*clientlimit.Clients{&c}); err != nil {
		t.Fatal(err)
	}
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

// granted expects a grant, and what each limit has left after it.
func (h *clientHistory) granted(subject string, units quota.Units, remaining ...quota.Units) quota.Decision {
	h.Helper()
	d := h.ask(subject, units)
	if !d.Granted() || d.Units != units || d.GrantID != "" || len(d.Limits) != len(h.c.Limits) {
		h.Fatalf("got %+v, want a grant of %d", d, units)
	}
	for i, want := range remaining {
		if got := d.Limits[i].Remaining(); got != want || d.Limits[i].Cost != 0 {
			h.Fatalf("limit %q has %d units left at a cost of %d, want %d", d.Limits[i].Name, got, d.Limits[i].Cost, want)
		}
	}
	return d
}

// denied expects a denial for that long, and holds the store to its word: one tick before that time it denies, and at it
// it would not any more. The clock stands as before then.
func (h *clientHistory) denied(subject string, units quota.Units, limit string, after time.Duration) {
	h.Helper()
	before := h.clock.Now()
	d := h.ask(subject, units)
	if d.Reason != quota.LimitExceeded || d.Limit != limit || d.RetryAfter != after || !d.RetryAt.Equal(before.Add(after)) {
		h.Fatalf("got %q by limit %q for %v, want a denial by %q for %v", d.Reason, d.Limit, d.RetryAfter, limit, after)
	}
	h.clock.Set(d.RetryAt.Add(-tick))
	if early := h.ask(subject, units); early.Reason != quota.LimitExceeded || early.RetryAfter != tick {
		h.Fatalf("one tick before %v: got %q for %v, want a denial for one tick", d.RetryAt, early.Reason, early.RetryAfter)
	}
	h.clock.Set(d.RetryAt)
	for _, l := range h.usage(subject).Limits {
		if !l.DryRun && l.Used+units > l.Units {
			h.Fatalf("at %v limit %q still holds %d units", d.RetryAt, l.Name, l.Used)
		}
	}
	h.clock.Set(before)
}

func (h *clientHistory) usage(subject string) quota.Usage {
	h.Helper()
	u, _, err := h.service.Usage(context.Background(), h.c.Name, subject)
	if err != nil || len(u.Limits) != len(h.c.Limits) || !u.Now.Equal(h.clock.Now()) {
		h.Fatalf("usage: %+v, %v", u, err)
	}
	return u
}

// used expects what each limit counts.
func (h *clientHistory) used(subject string, want ...quota.Units) {
	h.Helper()
	for i, l := range h.usage(subject).Limits {
		if l.Used != want[i] {
			h.Fatalf("limit %q counts %d units, want %d", l.Name, l.Used, want[i])
		}
	}
}

// next expects when units come back to the first limit next, and how many.
func (h *clientHistory) next(subject string, after time.Duration, units quota.Units) {
	h.Helper()
	l := h.usage(subject).Limits[0]
	if got := l.NextAt.Sub(h.clock.Now()); got != after || l.NextUnits != units {
		h.Fatalf("%d units come back after %v, want %d after %v", l.NextUnits, got, units, after)
	}
}

func (h *clientHistory) reset(subject string) {
	h.Helper()
	if err := h.service.Reset(context.Background(), h.c.Name, subject); err != nil {
		h.Fatal(err)
	}
}

// RunBoundOfLogs holds that a log that is not enforced forgets its oldest grants. It takes 100,000 calls.
func RunBoundOfLogs(t *testing.T, harness ClientHarness) {
	clientBound(beginClients(t, harness, clientlimit.Log))
}

// RunClients holds a store to its contract, with both algorithms. No window is shorter than a minute: a store may drop a
// record by another clock than the one that is set.
func RunClients(t *testing.T, harness ClientHarness) {
	both := []clientlimit.Algorithm{clientlimit.Log, clientlimit.Counter}
	for _, test := range []struct {
		name       string
		algorithms []clientlimit.Algorithm
		run        func(*clientHistory)
	}{
		{"a log slides", both[:1], clientLog},
		{"a counter slides", both[1:], clientCounter},
		{"several windows, all or nothing", both, clientWindows},
		{"a limit that is not enforced", both, clientObserved},
		{"subjects and clients are isolated", both, clientIsolation},
		{"reset", both, clientReset},
		{"the clock steps back", both, clientClock},
		{"great numbers", both, clientGreat},
		{"many at once", both, clientMany},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, algorithm := range test.algorithms {
				t.Run(fmt.Sprint(algorithm), func(t *testing.T) { test.run(beginClients(t, harness, algorithm)) })
			}
		})
	}
}
