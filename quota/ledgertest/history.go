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
	// Open returns an empty ledger on the clock, and a function that opens the same one again after it was closed.
	Open func(t testing.TB, clock *Clock) (ledger quota.Ledger, reopen func() quota.Ledger)
	// Configure has a ledger know credentials, from then on; nil: it needs to know none.
	Configure func(ledger quota.Ledger, credentials []*quota.Credential) error
	// Join opens another daemon's ledger on the log of the one that was opened last, where several hosts share one;
	// nil where they do not. Two hosts then differ in what they have configured.
	Join func(t testing.TB) quota.Ledger
}

// A history is a ledger in the middle of its life: at a time, a request, a decision.
type history struct {
	testing.TB
	harness Harness
	clock   *Clock
	ledger  quota.Ledger
	reopen  func() quota.Ledger
	c       *quota.Credential
}

// begins is when histories begin: later than any machine's clock, by which a ledger that starts leaves out what is too
// old to count.
var begins = time.Date(2126, 11, 21, 9, 0, 0, 0, time.UTC)

// begin starts a history of credential c.
func begin(t testing.TB, h Harness, c *quota.Credential) *history {
	t.Helper()
	clock := NewClock(begins)
	ledger, reopen := h.Open(t, clock)
	hist := &history{TB: t, harness: h, clock: clock, ledger: ledger, reopen: reopen}
	t.Cleanup(func() { hist.ledger.Close() })
	if c != nil {
		hist.use(c)
	}
	return hist
}

// use continues with a credential, perhaps another form of one that is known: the file was changed.
func (h *history) use(c *quota.Credential) {
	h.Helper()
	h.c = c
	h.configure()
}

func (h *history) configure() {
	h.Helper()
	if h.harness.Configure != nil {
		Must(h, h.harness.Configure(h.ledger, []*quota.Credential{h.c}))
	}
}

// again closes the ledger and opens it again.
func (h *history) again() {
	h.Helper()
	Must(h, h.ledger.Close())
	h.ledger = h.reopen()
	h.configure()
}

// join returns the same history as another host sees it.
func (h *history) join(c *quota.Credential) *history {
	h.Helper()
	other := *h
	other.ledger, other.reopen = h.harness.Join(h.TB), nil
	h.Cleanup(func() { other.ledger.Close() })
	other.use(c)
	return &other
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

func (h *history) acquire(r quota.Request) quota.Decision {
	h.Helper()
	d, err := h.ledger.Acquire(context.Background(), h.c, h.ask(r))
	if err != nil {
		h.Fatalf("acquire: %v", err)
	}
	return d
}

// granted acquires an operation and expects the grant.
func (h *history) granted(operation string) quota.Decision {
	h.Helper()
	d := h.acquire(quota.Request{Operation: operation})
	if !d.Granted() || d.GrantID == "" {
		h.Fatalf("got %+v, want a grant", d)
	}
	return d
}

// denied acquires an operation and expects a limit's refusal for that long.
func (h *history) denied(operation, limit string, retryAfter time.Duration) quota.Decision {
	h.Helper()
	d := h.acquire(quota.Request{Operation: operation})
	if d.Reason != quota.LimitExceeded || d.Limit != limit || d.RetryAfter != retryAfter {
		h.Fatalf("got %q by limit %q for %v, want limit_exceeded by %q for %v", d.Reason, d.Limit, d.RetryAfter, limit, retryAfter)
	}
	if wait := d.RetryAt.Sub(h.clock.Now()); wait > retryAfter || wait <= retryAfter-time.Millisecond { // a caller waits by the clock
		h.Fatalf("retry at %v after %v does not agree with a clock of %v", d.RetryAt, retryAfter, h.clock.Now())
	}
	return d
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

// log reads the log, page by page.
func (h *history) log(q quota.LogQuery) (entries []quota.Entry) {
	h.Helper()
	for {
		page, err := h.ledger.Log(context.Background(), h.c, q)
		if err != nil {
			h.Fatalf("log: %v", err)
		}
		if q.Max > 0 && len(page.Entries) > q.Max {
			h.Fatalf("a page of %d entries, at most %d were asked for", len(page.Entries), q.Max)
		}
		entries = append(entries, page.Entries...)
		if page.Next.IsZero() {
			return entries
		}
		q.After = page.Next
	}
}

func (h *history) settle(d quota.Decision, s quota.Settlement) quota.Decision {
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

func (h *history) reset(note string) {
	h.Helper()
	if err := h.ledger.Reset(context.Background(), h.c, quota.Caller{UID: 3}, note); err != nil {
		h.Fatalf("reset: %v", err)
	}
}

// Must ends a test at an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
