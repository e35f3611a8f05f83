package ledgertest

import (
	"context"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
)

// A ClientHarness opens ledgers of client limits for the suite.
type ClientHarness struct {
	// Open returns an empty ledger on the clock, and a function that closes it and opens
	// the same one again. The last one is closed when the test has ended.
	Open func(t testing.TB, clock *Clock) (ledger ClientLedger, reopen func() ClientLedger)
	// Join opens another daemon's ledger of the same records; nil where no daemons share
	// any.
	Join func(t testing.TB) ClientLedger
}

// A ClientLedger is a clientlimit.Ledger, or the model of one.
type ClientLedger interface {
	Decide(ctx context.Context, c *clientlimit.Clients, asks []clientlimit.Ask) []quota.Decision
	Usage(ctx context.Context, c *clientlimit.Clients, of clientlimit.Ask) (quota.Usage, error)
	Reset(ctx context.Context, c *clientlimit.Clients, of clientlimit.Ask) error
}

var (
	_ ClientLedger = clientlimit.Decider{}
	_ ClientLedger = (*ClientModel)(nil)
)

// RunClients holds a ledger to the contract of clientlimit.Ledger, with both algorithms.
// No window is shorter than a minute: a ledger may drop a record by another clock than the
// one that is set.
func RunClients(t *testing.T, harness ClientHarness) {
	both := []clientlimit.Algorithm{clientlimit.Log, clientlimit.Counter}
	for _, test := range []struct {
		name       string
		algorithms []clientlimit.Algorithm
		run        func(*clientHistory)
	}{
		{"a log slides", both[:1], clientLog},
		{"a log of weighted calls", both[:1], clientWeights},
		{"a counter slides", both[1:], clientCounter},
		{"a counter of weighted calls", both[1:], clientCounterWeights},
		{"everything leaves", both, clientExpiry},
		{"several windows, all or nothing", both, clientWindows},
		{"what can never fit", both, clientNever},
		{"a denial moves nothing", both, clientDenial},
		{"a batch is decided in order", both, clientBatch},
		{"a limit that is not enforced", both, clientObserved},
		{"subjects and clients are isolated", both, clientIsolation},
		{"subjects of any bytes", both, clientKeys},
		{"reset", both, clientReset},
		{"records survive reopening", both, clientReopening},
		{"the clock steps back", both, clientClock},
		{"changed units", both, clientUnits},
		{"a limit is renamed, one is added, one goes, a window changes", both, clientLimits},
		{"numbers saturate", both, clientSaturation},
		{"many at once", both, clientMany},
		{"the value that hosts share", both[:1], clientShared},
		{"a period ends", both, clientPeriods},
		{"a swap is in time", both[:1], clientSwaps},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, algorithm := range test.algorithms {
				t.Run(string(algorithm), func(t *testing.T) { test.run(beginClients(t, harness, algorithm)) })
			}
		})
	}
}

// A clientHistory is a ledger of client limits in the middle of its life.
type clientHistory struct {
	testing.TB
	harness ClientHarness
	clock   *Clock
	ledger  ClientLedger
	reopen  func() ClientLedger
	c       *clientlimit.Clients
}

// beginClients starts a history at nine o'clock, when buckets of whole minutes begin, of
// clients that have six units a minute.
func beginClients(t testing.TB, harness ClientHarness, algorithm clientlimit.Algorithm) *clientHistory {
	t.Helper()
	h := &clientHistory{TB: t, harness: harness, clock: NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))}
	h.ledger, h.reopen = harness.Open(t, h.clock)
	h.c = &clientlimit.Clients{Name: "public", Algorithm: algorithm}
	h.limit("minute", 6, time.Minute)
	return h
}

// limit has the clients have a limit, or another one by its name; no units: none.
func (h *clientHistory) limit(name string, units quota.Units, window time.Duration) {
	h.Helper()
	next := *h.c
	next.Limits = nil
	for _, l := range h.c.Limits {
		if l.Name != name {
			next.Limits = append(next.Limits, l)
		}
	}
	if units > 0 {
		next.Limits = append(next.Limits, quota.Limit{Name: name, Units: units, Window: quota.Sliding(window)})
	}
	if wrong := next.Validate(); wrong != nil {
		h.Fatal(wrong[0])
	}
	h.c = &next
}

func (h *clientHistory) decide(asks ...clientlimit.Ask) []quota.Decision {
	h.Helper()
	decisions := h.ledger.Decide(context.Background(), h.c, asks)
	if len(decisions) != len(asks) {
		h.Fatalf("%d decisions for %d asks", len(decisions), len(asks))
	}
	for _, d := range decisions {
		if d.Err == nil && !d.Now.Equal(h.clock.Now()) {
			h.Fatalf("decided at %v, want %v", d.Now, h.clock.Now())
		}
	}
	return decisions
}

func (h *clientHistory) ask(subject clientlimit.Key, units quota.Units) quota.Decision {
	h.Helper()
	return h.decide(clientlimit.Ask{Subject: subject, Units: units})[0]
}

// granted expects a grant, and what each limit has left after it.
func (h *clientHistory) granted(subject clientlimit.Key, units quota.Units, remaining ...quota.Units) quota.Decision {
	h.Helper()
	d := h.ask(subject, units)
	h.isGrant(d, units, remaining...)
	return d
}

func (h *clientHistory) isGrant(d quota.Decision, units quota.Units, remaining ...quota.Units) {
	h.Helper()
	if !d.Granted() || d.Units != units || d.GrantID != "" || len(d.Limits) != len(h.c.Limits) {
		h.Fatalf("got %+v, want a grant of %d", d, units)
	}
	for i, want := range remaining {
		if got := d.Limits[i].Remaining(); got != want || d.Limits[i].Cost != 0 {
			h.Fatalf("limit %q has %d units left at a cost of %d, want %d", d.Limits[i].Name, got, d.Limits[i].Cost, want)
		}
	}
}

// denied expects a denial for that long, and holds the ledger to its word: one tick before
// that time it denies, and at it it would not any more. The clock stands as before then.
func (h *clientHistory) denied(subject clientlimit.Key, units quota.Units, limit string, after time.Duration) {
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

func (h *clientHistory) usage(subject clientlimit.Key) quota.Usage {
	h.Helper()
	u, err := h.ledger.Usage(context.Background(), h.c, clientlimit.Ask{Subject: subject})
	if err != nil || len(u.Limits) != len(h.c.Limits) || !u.Now.Equal(h.clock.Now()) {
		h.Fatalf("usage: %+v, %v", u, err)
	}
	return u
}

// used expects what each limit counts.
func (h *clientHistory) used(subject clientlimit.Key, want ...quota.Units) {
	h.Helper()
	for i, l := range h.usage(subject).Limits {
		if l.Used != want[i] {
			h.Fatalf("limit %q counts %d units, want %d", l.Name, l.Used, want[i])
		}
	}
}

// next expects when units come back to the first limit next, and how many.
func (h *clientHistory) next(subject clientlimit.Key, after time.Duration, units quota.Units) {
	h.Helper()
	l := h.usage(subject).Limits[0]
	if got := l.NextAt.Sub(h.clock.Now()); got != after || l.NextUnits != units {
		h.Fatalf("%d units come back after %v, want %d after %v", l.NextUnits, got, units, after)
	}
}

func (h *clientHistory) reset(subject clientlimit.Key) {
	h.Helper()
	if err := h.ledger.Reset(context.Background(), h.c, clientlimit.Ask{Subject: subject}); err != nil {
		h.Fatal(err)
	}
}
