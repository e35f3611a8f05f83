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
)

// What a breakdown sums of a window and what the ledger counts in it are the same,
// after any history: two ways to the same number.
func TestBreakdownAgreesWithTheLedger(t *testing.T) {
	clock := ledgertest.NewClock(nine)
	file, err := boltledger.Open(boltledger.Config{Path: filepath.Join(t.TempDir(), "ledger.db"), Clock: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, ledger := range map[string]quota.Ledger{"model": ledgertest.NewModel(clock.Now), "embedded": file} {
		t.Run(name, func(t *testing.T) {
			seed := seedtest.Seed(t, 1)
			clock.Set(nine)
			c := twoLimits()
			k, err := quota.NewService(ledger, []*quota.Credential{c}, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			d := &desk{T: t, Service: k, clock: clock}
			h := &randomDesk{desk: d, random: rand.New(rand.NewPCG(seed, 1))}
			for range 40 {
				for range 10 {
					h.step()
				}
				h.agree(c)
			}
		})
	}
}

// A randomDesk is in the middle of a random history.
type randomDesk struct {
	*desk
	random *rand.Rand
	grants []string
}

func (h *randomDesk) step() {
	switch h.random.IntN(8) {
	case 0:
		h.clock.Add(time.Duration(h.random.IntN(120)) * time.Minute)
	case 1:
		h.clock.Add(time.Duration(h.random.IntN(3)) * time.Millisecond)
	case 2:
		h.adjust([]string{"daily", "search"}[h.random.IntN(2)], 1+h.random.Int64N(20))
	case 3:
		if len(h.grants) > 0 { // it may have left every window: then nothing is settled
			grant := h.grants[h.random.IntN(len(h.grants))]
			if _, err := h.Settle(h.Context(), grant, quota.Units(h.random.Int64N(250)), quota.Caller{}); err != nil {
				h.Fatal(err)
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

func (h *randomDesk) agree(c *quota.Credential) {
	h.Helper()
	usage, _, err := h.Usage(h.Context(), c.Name)
	if err != nil {
		h.Fatal(err)
	}
	for i, limit := range usage.Limits {
		after, _ := limit.Window.Bounds(usage.Now)
		b, _, err := h.Breakdown(h.Context(), c.Name, quota.BreakdownQuery{Since: after.Add(time.Millisecond)})
		if err != nil {
			h.Fatal(err)
		}
		if b.Total.In[i] != limit.Used {
			h.Fatalf("at %v limit %s holds %d units, the breakdown tells %d", usage.Now, limit.Name, limit.Used, b.Total.In[i])
		}
	}
}
