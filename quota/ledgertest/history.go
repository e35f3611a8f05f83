package ledgertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"quotad/quota"
)

// A Clock is the time of a ledger under test. It moves only when a test moves it.
type Clock struct {
	mu    sync.Mutex // guards now and onSet
	now   time.Time
	onSet func(time.Time)
}

// NewClock returns a clock that shows start.
func NewClock(start time.Time) *Clock { return &Clock{now: start} }

// Now returns what the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Set moves the clock, forwards or back.
func (c *Clock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
	if c.onSet != nil {
		c.onSet(t)
	}
}

// Add moves the clock by d.
func (c *Clock) Add(d time.Duration) { c.Set(c.Now().Add(d)) }

// OnSet has f called with the time the clock shows, now and whenever it is set.
func (c *Clock) OnSet(f func(time.Time)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onSet = f
	f(c.now)
}

// A Harness opens ledgers for the suite.
type Harness struct {
	// Open returns an empty ledger on the clock, and a function that opens the
	// same one again after it was closed.
	Open func(t testing.TB, clock *Clock) (ledger quota.Ledger, reopen func() quota.Ledger)
	// Join opens another daemon's ledger on the log of the one that was opened last,
	// where several hosts share one; nil where they do not. Two hosts then differ in
	// what they have configured.
	Join func(t testing.TB) quota.Ledger
}

// A history is a ledger in the middle of its life: at a time, a request, a decision.
type history struct {
	testing.TB
	clock  *Clock
	ledger quota.Ledger
	reopen func() quota.Ledger
	c      *quota.Credential
}

// begin starts a history of credential c, at a time that is as good as any.
func begin(t testing.TB, h Harness, c *quota.Credential) *history {
	t.Helper()
	clock := NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	ledger, reopen := h.Open(t, clock)
	hist := &history{TB: t, clock: clock, ledger: ledger, reopen: reopen, c: c}
	t.Cleanup(func() { hist.ledger.Close() })
	return hist
}

// again closes the ledger and opens it again.
func (h *history) again() {
	h.Helper()
	if err := h.ledger.Close(); err != nil {
		h.Fatal(err)
	}
	h.ledger = h.reopen()
}

// ask turns a request into an ask; the request may leave out what is usual.
func (h *history) ask(r quota.Request) quota.Ask {
	h.Helper()
	r.Credential = h.c.Name
	r.Count = max(r.Count, 1)
	charges, err := h.c.Charges(r.Operation, r.Count, r.Caller.CountedAs())
	if err != nil || len(charges) == 0 {
		h.Fatalf("operation %q charges nothing: %v", r.Operation, err)
	}
	return quota.Ask{Request: r, Charges: charges}
}

func (h *history) acquireAll(asks ...quota.Ask) []quota.Decision {
	h.Helper()
	decisions, err := h.ledger.Acquire(context.Background(), h.c, asks)
	if err != nil {
		h.Fatalf("acquire: %v", err)
	}
	if len(decisions) != len(asks) {
		h.Fatalf("%d decisions for %d asks", len(decisions), len(asks))
	}
	return decisions
}

func (h *history) acquire(r quota.Request) quota.Decision {
	h.Helper()
	return h.acquireAll(h.ask(r))[0]
}

func (h *history) peek(charges []quota.Charge, useReserve bool) quota.Decision {
	h.Helper()
	d, err := h.ledger.Peek(context.Background(), h.c, nil, charges, useReserve)
	if err != nil {
		h.Fatalf("peek: %v", err)
	}
	return d
}

// granted acquires an operation and expects the grant.
func (h *history) granted(operation string) quota.Decision {
	h.Helper()
	d := h.acquire(quota.Request{Operation: operation})
	h.isGrant(d)
	return d
}

func (h *history) isGrant(d quota.Decision) {
	h.Helper()
	if !d.Granted() || d.GrantID == "" {
		h.Fatalf("got %+v, want a grant", d)
	}
}

// denied acquires an operation and expects a limit's refusal for that long; then
// it holds the ledger to its word, on a copy of the request: still refused one
// tick before, but the clock is not moved.
func (h *history) denied(operation, limit string, retryAfter time.Duration) quota.Decision {
	h.Helper()
	d := h.acquire(quota.Request{Operation: operation})
	h.isDenial(d, limit, retryAfter)
	return d
}

func (h *history) isDenial(d quota.Decision, limit string, retryAfter time.Duration) {
	h.Helper()
	if d.Reason != quota.LimitExceeded || d.Limit != limit || d.RetryAfter != retryAfter {
		h.Fatalf("got %q by limit %q for %v, want limit_exceeded by %q for %v", d.Reason, d.Limit, d.RetryAfter, limit, retryAfter)
	}
	if !d.RetryAt.Equal(h.clock.Now().Truncate(time.Millisecond).Add(retryAfter)) {
		h.Fatalf("retry at %v after %v does not agree with a clock of %v", d.RetryAt, d.RetryAfter, h.clock.Now())
	}
}

func (h *history) usage() quota.Usage {
	h.Helper()
	u, err := h.ledger.Usage(context.Background(), h.c)
	if err != nil {
		h.Fatalf("usage: %v", err)
	}
	return u
}

// used expects what each limit holds.
func (h *history) used(want ...quota.Units) {
	h.Helper()
	u := h.usage()
	for i, limit := range u.Limits {
		if limit.Used != want[i] {
			h.Fatalf("limit %q holds %d units, want %d", limit.Name, limit.Used, want[i])
		}
	}
}

func (h *history) log(q quota.LogQuery) quota.LogPage {
	h.Helper()
	page, err := h.ledger.Log(context.Background(), h.c, q)
	if err != nil {
		h.Fatalf("log: %v", err)
	}
	return page
}

func (h *history) settle(d quota.Decision, units quota.Units) quota.Decision {
	h.Helper()
	return h.settleAs(d, quota.Settlement{Units: units})
}

func (h *history) settleAs(d quota.Decision, s quota.Settlement) quota.Decision {
	h.Helper()
	var err error
	if _, s.Grant, err = quota.ParseGrantID(d.GrantID); err != nil {
		h.Fatal(err)
	}
	settled, err := h.ledger.Settle(context.Background(), h.c, s)
	if err != nil {
		h.Fatalf("settle: %v", err)
	}
	return settled
}

func (h *history) adjust(limit string, units int64) quota.Decision {
	h.Helper()
	d, err := h.ledger.Adjust(context.Background(), h.c, quota.Adjustment{Limit: limit, Units: units, Caller: quota.Caller{UID: 0}, Note: "checked upstream"})
	if err != nil {
		h.Fatalf("adjust: %v", err)
	}
	return d
}
