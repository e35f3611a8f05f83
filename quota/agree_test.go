package quota_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/boltledger"
	"quotad/quota/ledgertest"
	"quotad/quota/seedtest"
	"quotad/quota/slidinglog"
)

// Whatever is acquired, settled, released, adjusted and reset: what the ledger counts,
// what a breakdown of the log sums, what the log's own lines count and what why says are the same.
func TestViewsAgree(t *testing.T) {
	clock := ledgertest.NewClock(nine)
	file := openLedger(t, clock.Now)
	for name, ledger := range map[string]quota.Ledger{"model": ledgertest.NewModel(clock.Now), "embedded": file} {
		t.Run(name, func(t *testing.T) {
			seed := seedtest.Seed(t, 1)
			clock.Set(nine)
			c := twoLimits()
			k, err := quota.NewService(ledger, []*quota.Credential{c}, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			d := &testService{T: t, Service: k, clock: clock}
			h := &randomHistory{testService: d, random: rand.New(rand.NewPCG(seed, 1))}
			for range 40 {
				for range 10 {
					h.step()
				}
				h.agree(c)
			}
		})
	}
}

// A randomHistory goes on at random.
type randomHistory struct {
	*testService
	random *rand.Rand
	grants []string
}

func (h *randomHistory) step() {
	switch h.random.IntN(8) {
	case 0:
		h.clock.Add(time.Duration(h.random.IntN(120)) * time.Minute)
	case 1:
		h.clock.Add(time.Duration(h.random.IntN(3)) * time.Millisecond)
	case 2:
		h.adjust([]string{"daily", "search"}[h.random.IntN(2)], []int64{1 + h.random.Int64N(80), -1 - h.random.Int64N(120)}[h.random.IntN(2)])
	case 3:
		if len(h.grants) > 0 { // it may have left every window: then nothing is settled
			grant := h.grants[h.random.IntN(len(h.grants))]
			if _, err := h.Settle(h.Context(), grant, quota.Settlement{Units: quota.Units(h.random.Int64N(250))}); err != nil {
				h.Fatal(err)
			}
		}
	case 4:
		if h.random.IntN(10) == 0 {
			if d, err := h.Reset(h.Context(), "youtube", quota.Caller{}, "begun anew"); err != nil || d.Reason != "" {
				h.Fatal(d, err)
			}
		}
	default:
		r := quota.Request{Credential: "youtube", Operation: []string{"videos.list", "search.list"}[h.random.IntN(2)], Count: quota.Units(1 + h.random.IntN(2)),
			Caller: quota.Caller{Job: fmt.Sprintf("job%d", h.random.IntN(3)), Region: "US"}, RequestID: fmt.Sprint(h.random.Uint64())}
		if granted, err := h.Acquire(h.Context(), r); err != nil {
			h.Fatal(err)
		} else if granted.Granted() {
			h.grants = append(h.grants, granted.GrantID)
		}
	}
}

func (h *randomHistory) agree(c *quota.Credential) {
	h.Helper()
	usage, err := h.Usage(h.Context(), c.Name)
	if err != nil {
		h.Fatal(err)
	}
	holds, err := h.Breakdown(h.Context(), c.Name, quota.BreakdownQuery{By: quota.ByOperation, Now: usage.Now})
	if err != nil {
		h.Fatal(err)
	}
	for i, limit := range usage.Limits {
		after, _ := limit.Window.Bounds(usage.Now)
		since := after.Add(time.Millisecond)
		b, err := h.Breakdown(h.Context(), c.Name, quota.BreakdownQuery{Since: since})
		if err != nil {
			h.Fatal(err)
		}
		for what, got := range map[string]quota.Units{
			"the breakdown tells":     b.Total.In[i],
			"its window's shares are": holds.Total.In[i],
			"the log's lines count":   h.logged(c, limit.Name, since),
			"those who hold it spent": h.held(limit.Name, limit.Used),
		} {
			if got != limit.Used {
				h.Fatalf("at %v limit %s holds %d units, %s %d", usage.Now, limit.Name, limit.Used, what, got)
			}
		}
	}
}

// logged sums what the lines of the log count in a limit, and holds that a line tells
// what was done.
func (h *randomHistory) logged(c *quota.Credential, limit string, since time.Time) (sum quota.Units) {
	h.Helper()
	err := h.Walk(h.Context(), c.Name, since, func(e quota.Entry) bool {
		counts, _ := quota.ChargeIn(e.Counts(), limit)
		sum += counts
		a, adjusted := e.Body.(quota.Adjusted)
		if adjusted && (a.Asked == 0 || e.Charges[0].Limit == "" || int64(e.Charges[0].Units)*a.Asked < 0 || e.Note == "") {
			h.Fatalf("the log tells of an adjustment as %+v", e)
		}
		if s, ok := e.Body.(quota.Settled); ok && (s.Grant.IsZero() || len(s.Before) == 0 || len(s.Before) != len(s.After)) {
			h.Fatalf("the log tells of a settlement as %+v", e)
		}
		return true
	})
	if err != nil {
		h.Fatal(err)
	}
	return sum
}

// held returns what why says that a limit's holders have spent of it, where it stands
// in the way; else what it is said to hold.
func (h *randomHistory) held(limit string, used quota.Units) (sum quota.Units) {
	h.Helper()
	e, err := h.Why(h.Context(), quota.Request{Credential: "youtube", Operation: "search.list", Count: 4})
	if err != nil {
		h.Fatal(err)
	}
	for _, o := range e.Obstacles {
		if o.Name != limit || e.Reason != quota.LimitExceeded {
			continue
		}
		for _, holder := range o.Jobs {
			sum += holder.Units
		}
		return sum
	}
	return used
}

// What is booked and given back again leaves nothing behind, in no view.
func TestAdjustedUpAndDown(t *testing.T) {
	d := newTestService(t, youtube())
	d.adjust("daily", 500)
	d.adjust("daily", -500)
	if got := d.used()[0]; got != 0 {
		t.Errorf("%d units are used, want 0", got)
	}
	for _, by := range quota.Dimensions() {
		b, err := d.Breakdown(t.Context(), "youtube", quota.BreakdownQuery{By: by})
		if err != nil || b.Total.Units != 0 || b.Total.In[0] != 0 {
			t.Errorf("by %s the breakdown tells %+v, %v; want that nothing is spent", by, b.Total, err)
		}
	}
	page, err := d.Log(t.Context(), "youtube", quota.LogQuery{})
	if err != nil || len(page.Entries) != 2 {
		t.Fatalf("got %+v, %v; want two lines", page, err)
	}
	for i, want := range []quota.Units{500, -500} {
		e := page.Entries[i]
		if a, _ := e.Body.(quota.Adjusted); len(e.Charges) != 1 || e.Charges[0] != (quota.Charge{Limit: "daily", Units: want}) || a.Asked != int64(want) {
			t.Errorf("line %d is %+v, want %d units of daily", i, e, want)
		}
	}
}

func (d *testService) used() []quota.Units {
	d.Helper()
	usage, err := d.Usage(d.Context(), "youtube")
	if err != nil {
		d.Fatal(err)
	}
	var used []quota.Units
	for _, limit := range usage.Limits {
		used = append(used, limit.Used)
	}
	return used
}

// openLedger returns an embedded ledger.
func openLedger(t testing.TB, clock func() time.Time) quota.Ledger {
	t.Helper()
	file, err := boltledger.Open(boltledger.Config{Path: filepath.Join(t.TempDir(), "ledger.db")})
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := slidinglog.Open(slidinglog.Config{File: file, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ledger.Close() })
	return ledger
}
