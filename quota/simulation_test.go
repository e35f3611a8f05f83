package quota_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/boltledger"
	"quotad/quota/ledgertest"
	"quotad/quota/seedtest"
	"quotad/quota/slidinglog"
)

// threeWindows is a credential with a window of every kind.
func threeWindows(t *testing.T) *quota.Credential {
	t.Helper()
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	return &quota.Credential{
		Name: "youtube",
		Limits: []quota.Limit{
			{Name: "daily", Units: 1000, Reserve: 50, Window: quota.Sliding(24 * time.Hour)},
			{Name: "search", Units: 400, Window: quota.Sliding(time.Hour), Only: []string{"search.list"}},
			{Name: "pacific", Units: 900, Window: quota.Calendar(quota.Day, zone)},
		},
		Operations: map[string]quota.Cost{"search.list": {Every: 100}, "videos.list": {Every: 7}},
	}
}

func (d *testService) simulate() *slidinglog.Simulation {
	d.Helper()
	r, ok, err := slidinglog.Simulate(d.Context(), d.Service, "youtube")
	if err != nil || !ok {
		d.Fatalf("got %v, %v, want a simulation", ok, err)
	}
	return r
}

func (d *testService) charges(calls map[string]quota.Units) []quota.Charge {
	d.Helper()
	c, _ := d.Credential("youtube")
	charges, err := c.Sum(quota.Calls{Count: calls})
	if err != nil {
		d.Fatal(err)
	}
	return charges
}

// scramble makes a history of grants, refusals and corrections, over a day and more.
func (d *testService) scramble(random *rand.Rand, steps int) {
	d.Helper()
	var grants []string
	for range steps {
		d.clock.Add(time.Duration(random.Int64N(int64(time.Hour))))
		operation := []string{"search.list", "videos.list"}[random.IntN(2)]
		decision, err := d.Acquire(d.Context(), quota.Request{Credential: "youtube", Operation: operation, Count: 1 + quota.Units(random.IntN(3)), UseReserve: true})
		if err != nil {
			d.Fatal(err)
		}
		if decision.Granted() {
			grants = append(grants, decision.GrantID)
		}
		switch random.IntN(8) {
		case 0:
			d.adjust("daily", 1+random.Int64N(80))
		case 1:
			d.adjust([]string{"daily", "pacific"}[random.IntN(2)], -1-random.Int64N(150))
		case 2:
			if len(grants) > 0 { // one that is in no window any more is not settled
				_, err = d.Settle(d.Context(), grants[random.IntN(len(grants))], quota.Settlement{Units: quota.Units(random.IntN(300))})
			}
		}
		if err != nil {
			d.Fatal(err)
		}
	}
}

// Whatever stands in the log: a simulation says at each later instant what the
// ledger itself says when that instant has come.
func TestSimulationIsWhatHappens(t *testing.T) {
	seed := seedtest.Seed(t, 1)
	for i := range uint64(20) {
		random := rand.New(rand.NewPCG(seed+i, 0))
		d := newTestService(t, threeWindows(t))
		d.scramble(random, 40)
		r := d.simulate()
		for range 60 {
			d.clock.Add(time.Duration(random.Int64N(int64(time.Hour))))
			at := d.clock.Now()
			calls := map[string]quota.Units{"videos.list": 1 + quota.Units(random.IntN(20))}
			if random.IntN(2) == 0 {
				calls["search.list"] = 1
			}
			want, err := d.Peek(t.Context(), "youtube", quota.Calls{Count: calls}, nil, false)
			if err != nil {
				t.Fatal(err)
			}
			wantUsed := d.used()
			if got := r.Used(at); !slices.Equal(got, wantUsed) {
				t.Fatalf("at %v: got %d used, want %d", at, got, wantUsed)
			}
			got := r.Spend(at, d.charges(calls), false)
			if got.Reason != want.Reason || got.Limit != want.Limit || !got.RetryAt.Equal(want.RetryAt) {
				t.Fatalf("at %v for %v: got %+v, want %+v", at, calls, got, want)
			}
			if got.Granted() { // and a moment later it is spent
				d.clock.Add(time.Millisecond)
				for operation, count := range calls {
					d.spend("trending", "US", operation, count)
				}
			}
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

// What was spent when something was allowed has not come back when the same
// instant comes a window later, but a moment after it.
func TestSimulationDebitsAMomentLater(t *testing.T) {
	c := youtube()
	r := slidinglog.NewSimulation(c)
	all, err := c.Sum(quota.Calls{Count: map[string]quota.Units{"videos.list": 950}})
	if err != nil {
		t.Fatal(err)
	}
	if d := r.Spend(nine, all, false); !d.Granted() || d.Limits[0].Used != 950 {
		t.Errorf("got %+v, want all of the budget granted", d)
	}
	day := nine.Add(24 * time.Hour)
	if d := r.Spend(day, all, false); d.Granted() || !d.RetryAt.Equal(day.Add(time.Millisecond)) {
		t.Errorf("got %+v, want it denied for a moment", d)
	}
	if d := r.Spend(day.Add(time.Millisecond), all, false); !d.Granted() {
		t.Errorf("got %+v, want it granted", d)
	}
}

// A simulation moves nothing.
func TestSimulationDebitsNothingReal(t *testing.T) {
	d := newTestService(t, twoLimits())
	d.spend("trending", "US", "videos.list", 7)
	before := d.used()
	d.simulate().Spend(nine, d.charges(map[string]quota.Units{"videos.list": 100}), false)
	if got := d.used(); !slices.Equal(got, before) {
		t.Errorf("got %d used, want %d", got, before)
	}
	if _, ok, err := slidinglog.Simulate(t.Context(), d.Service, "other"); ok || err != nil {
		t.Errorf("got %v, %v, want no such credential", ok, err)
	}
}

// A ledger whose log is longer than anybody reads.
type endless struct {
	*ledgertest.Model
	kept int
}

func (l endless) Log(ctx context.Context, c *quota.Credential, q quota.LogQuery) (quota.LogPage, error) {
	page, err := l.Model.Log(ctx, c, q)
	return quota.LogPage{Entries: page.Entries[:min(l.kept, len(page.Entries))]}, err
}

// What was not read comes back with the oldest entry that was.
func TestSimulationOfALongLog(t *testing.T) {
	clock := ledgertest.NewClock(nine)
	ledger := &endless{Model: ledgertest.NewModel(clock.Now), kept: 2}
	k, err := quota.NewService(ledger, []*quota.Credential{youtube()}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	d := &testService{T: t, Service: k, clock: clock}
	for range 5 {
		d.spend("trending", "US", "search.list", 1)
		clock.Add(time.Hour)
	}
	for _, row := range []struct {
		name string
		kept int
		want []quota.Units // hour by hour, from a day after the first
	}{
		{"all of it is read", 5, []quota.Units{400, 300, 200, 100, 0}},
		{"two entries", 2, []quota.Units{500, 500, 500, 100, 0}},
		{"none", 0, []quota.Units{500, 500, 500, 500, 500, 0}},
	} {
		ledger.kept = row.kept
		r := d.simulate()
		for i, want := range row.want {
			if got := r.Used(nine.Add(time.Duration(24+i) * time.Hour))[0]; got != want {
				t.Errorf("%s: got %d used after %d hours, want %d", row.name, got, 24+i, want)
			}
		}
	}
}

// A window that was lengthened counts as spent until the log fills it.
func TestSimulationWhileCatchingUp(t *testing.T) {
	clock := ledgertest.NewClock(nine)
	ledger := openLedger(t, clock.Now)
	short, long := youtube(), youtube()
	short.Limits[0].Window = quota.Sliding(time.Hour)
	k, err := quota.NewService(ledger, []*quota.Credential{short}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	d := &testService{T: t, Service: k, clock: clock}
	for range 3 {
		d.spend("trending", "US", "search.list", 1)
		clock.Add(50 * time.Minute)
	}
	if err := k.SetCredentials([]*quota.Credential{long}); err != nil {
		t.Fatal(err)
	}
	calls := map[string]quota.Units{"videos.list": 1}
	want, err := k.Peek(t.Context(), "youtube", quota.Calls{Count: calls}, nil, false)
	if err != nil || want.Granted() {
		t.Fatalf("got %+v, %v, want it to catch up", want, err)
	}
	if got := d.simulate().Spend(clock.Now(), d.charges(calls), false); got.Reason != want.Reason || !got.RetryAt.Equal(want.RetryAt) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := d.simulate().Spend(want.RetryAt, d.charges(calls), false); !got.Granted() {
		t.Errorf("got %+v, want it granted once the log has caught up", got)
	}
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
