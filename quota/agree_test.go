package quota_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/seedtest"
	"quotad/quota/slidinglog"
)

// Whatever is acquired, settled, released, booked and reset: what the ledger counts and what the log's lines
// count are the same.
func TestViewsAgree(t *testing.T) {
	clock := ledgertest.NewClock(nine)
	embedded := openLedger(t, clock.Now)
	for name, ledger := range map[string]quota.Ledger{"model": ledgertest.NewModel(clock.Now), "embedded": embedded} {
		t.Run(name, func(t *testing.T) {
			seed := seedtest.Seed(t, 1)
			clock.Set(nine)
			c := youtube()
			c.Limits = append(c.Limits, quota.Limit{Name: "search", Units: 400, Window: quota.Sliding(time.Hour), Only: []string{"search.list"}})
			k, err := quota.NewService(ledger, []*quota.Credential{c}, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			if ledger == embedded {
				if err := embedded.SetCredentials(k.Credentials(), nil); err != nil {
					t.Fatal(err)
				}
			}
			h := &randomHistory{T: t, Service: k, clock: clock, random: rand.New(rand.NewPCG(seed, 1))}
			for range 40 {
				for range 10 {
					h.step()
				}
				h.agree(c)
			}
		})
	}
}

var nine = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// A randomHistory goes on at random.
type randomHistory struct {
	*testing.T
	*quota.Service
	clock  *ledgertest.Clock
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
		b := quota.Booking{Limit: []string{"daily", "search"}[h.random.IntN(2)], Units: 1 + quota.Units(h.random.Int64N(80)), Note: "checked upstream"}
		if d, err := h.Book(h.Context(), "youtube", b); err != nil || !d.Granted() {
			h.Fatal(d, err)
		}
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
	var reset time.Time // what is older does not count
	err = h.Walk(h.Context(), c.Name, time.Time{}, func(e quota.Entry) bool {
		if e.Kind() == quota.KindReset {
			reset = e.At
		}
		return reset.IsZero()
	})
	if err != nil {
		h.Fatal(err)
	}
	for _, limit := range usage.Limits {
		after, _ := limit.Window.Bounds(usage.Now)
		since := quota.Later(reset, after.Add(time.Microsecond))
		if got := h.logged(c, limit.Name, since); got != limit.Used {
			h.Fatalf("at %v limit %s holds %d units, the log's lines count %d", usage.Now, limit.Name, limit.Used, got)
		}
	}
}

// logged sums what the lines of the log count in a limit, and holds that a line tells
// what was done.
func (h *randomHistory) logged(c *quota.Credential, limit string, since time.Time) (sum quota.Units) {
	h.Helper()
	err := h.Walk(h.Context(), c.Name, since, func(e quota.Entry) bool {
		counts, _ := quota.ChargeIn(e.Charges, limit)
		sum += counts
		if _, ok := e.Body.(quota.Booked); ok && (len(e.Charges) != 1 || e.Charges[0].Limit == "" || e.Charges[0].Units < 1 || e.Note == "") {
			h.Fatalf("the log tells of a booking as %+v", e)
		}
		if s, ok := e.Body.(quota.Settled); ok && (s.Grant == "" || len(e.Charges) > 0) {
			h.Fatalf("the log tells of a settlement as %+v", e)
		}
		return true
	})
	if err != nil {
		h.Fatal(err)
	}
	return sum
}

// openLedger returns an embedded ledger.
func openLedger(t testing.TB, clock func() time.Time) *slidinglog.Ledger {
	t.Helper()
	l := slidinglog.Open(slidinglog.Config{Engine: slidinglog.NewMemory(clock), Dir: t.TempDir(), Manual: true, Unsynced: true})
	t.Cleanup(func() { l.Close() })
	return l
}
