package ledgertest

import (
	"reflect"
	"testing"
	"time"

	"quotad/quota"
)

// Run holds a ledger to the contract of quota.Ledger.
func Run(t *testing.T, h Harness) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Harness)
	}{
		{"sliding window", slidingWindow},
		{"retry-after is that of this cost", weightedRetry},
		{"several limits, all or nothing", severalLimits},
		{"reserve", reserve},
		{"a peek moves nothing", peek},
		{"credentials are isolated", isolation},
		{"request ids", requestIDs},
		{"the clock steps back", clockStepsBack},
		{"grants survive reopening", reopening},
		{"calendar day over daylight saving", calendarDays},
		{"settle and release", settle},
		{"settle outside the window", settleTooLate},
		{"settle of a caller who is no operator", settleBounded},
		{"settle of what a narrow window has let go", settleBoundedLater},
		{"settle of a smaller charge", settleSmallerCharge},
		{"book", book},
		{"reset", reset},
		{"the log in pages", logPages},
		{"shorter window, and back", shorterWindow},
		{"longer window", longerWindow},
		{"a limit is closed and opens", closedLimit},
		{"a reset opens", resetOpens},
		{"shares of two jobs", shares},
		{"a limit that is not enforced", observed},
		{"many clients at once", manyClients},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, h) })
	}
}

// daily is the classic YouTube credential with a narrow limit on searches, small
// enough to fill.
func daily() *quota.Credential {
	return &quota.Credential{
		Name: "youtube",
		Limits: []quota.Limit{
			{Name: "daily", Units: 1000, Window: quota.Sliding(24 * time.Hour)},
			{Name: "search", Units: 300, Window: quota.Sliding(time.Hour), Only: []string{"search.list"}},
		},
		Operations: map[string]quota.Cost{
			"search.list":   {Every: 100},
			"videos.insert": {Every: 400},
			"videos.list":   {Every: 1},
		},
	}
}

// one is a credential with a single limit.
func one(units quota.Units, window quota.Window) *quota.Credential {
	return &quota.Credential{
		Name:       "one",
		Limits:     []quota.Limit{{Name: "daily", Units: units, Window: window}},
		Operations: map[string]quota.Cost{"list": {Every: 1}, "ten": {Every: 10}, "most": {Every: 70}},
	}
}

const tick = time.Millisecond

func slidingWindow(t *testing.T, harness Harness) {
	h := begin(t, harness, one(2, quota.Sliding(24*time.Hour)))
	h.granted("list")
	h.clock.Add(time.Hour)
	h.granted("list")
	h.clock.Add(22*time.Hour + 59*time.Minute)
	h.denied("list", "daily", time.Minute)
	h.clock.Add(time.Minute - tick)
	h.denied("list", "daily", tick)
	h.clock.Add(tick)
	h.granted("list")
	h.denied("list", "daily", time.Hour)
}

func weightedRetry(t *testing.T, harness Harness) {
	h := begin(t, harness, one(100, quota.Sliding(time.Hour)))
	for range 10 {
		h.granted("ten")
		h.clock.Add(time.Minute)
	}
	h.denied("list", "daily", 50*time.Minute)
	h.denied("ten", "daily", 50*time.Minute)
	d := h.denied("most", "daily", 56*time.Minute)
	h.clock.Set(d.RetryAt.Add(-tick))
	h.denied("most", "daily", tick)
	h.clock.Add(tick)
	h.granted("most")
	h.used(100)
}

func severalLimits(t *testing.T, harness Harness) {
	h := begin(t, harness, daily())
	for range 3 {
		h.granted("search.list")
	}
	h.used(300, 300)
	h.denied("search.list", "search", time.Hour)
	h.used(300, 300)
	h.granted("videos.list")
	h.used(301, 300)
	h.granted("videos.insert")
	h.clock.Add(time.Hour + tick)
	h.used(701, 0)
	h.granted("search.list")
	h.granted("search.list")
	// Both refuse for a while; the one that refuses the longest is named.
	h.denied("search.list", "daily", 23*time.Hour-tick)
	h.used(901, 200)
	d := h.granted("videos.list")
	if len(d.Limits) != 1 || d.Limits[0].Name != "daily" || d.Limits[0].Used != 902 || d.Units != 1 || d.Remaining() != 98 {
		t.Errorf("got %+v, want the state of daily alone, 902 used, 98 left", d)
	}
}

func reserve(t *testing.T, harness Harness) {
	c := one(100, quota.Sliding(time.Hour))
	c.Limits[0].Reserve = 30
	h := begin(t, harness, c)
	d := h.granted("most")
	if d.Remaining() != 0 {
		t.Errorf("got %d remaining, want 0: the reserve is not counted", d.Remaining())
	}
	h.clock.Add(time.Minute)
	h.denied("list", "daily", 59*time.Minute)
	for range 3 {
		d = h.acquire(quota.Request{Operation: "ten", UseReserve: true})
		h.isGrant(d)
	}
	h.used(100)
	d = h.acquire(quota.Request{Operation: "ten", UseReserve: true})
	h.isDenial(d, "daily", 59*time.Minute)
	if d.Remaining() != 0 {
		t.Errorf("got %d remaining, want 0", d.Remaining())
	}
	// At 60 minutes 70 units leave and 30 stay: ordinary callers have 40.
	h.clock.Add(59 * time.Minute)
	d = h.granted("list")
	if d.Remaining() != 39 {
		t.Errorf("got %d remaining, want 39", d.Remaining())
	}
}

func peek(t *testing.T, harness Harness) {
	c := one(100, quota.Sliding(time.Hour))
	c.Limits[0].Reserve = 20
	h := begin(t, harness, c)
	charges := h.ask(quota.Request{Operation: "most"}).Charges
	for range 3 {
		if d := h.peek(charges, false); !d.Granted() || d.GrantID != "" {
			t.Fatalf("got %+v, want a grant without an id", d)
		}
	}
	h.used(0)
	h.granted("most")
	h.isDenial(h.peek(charges, false), "daily", time.Hour)
	h.used(70)
	ten := h.ask(quota.Request{Operation: "ten", Count: 2}).Charges
	h.isDenial(h.peek(ten, false), "daily", time.Hour)
	if d := h.peek(ten, true); !d.Granted() || d.GrantID != "" {
		t.Errorf("got %+v, want the reserve to have room for it", d)
	}
	h.isDenial(h.peek(charges, true), "daily", time.Hour)
	h.used(70)
	if log := h.log(quota.LogQuery{}); len(log) != 1 {
		t.Errorf("got %d entries, want that of the grant alone", len(log))
	}
}

func isolation(t *testing.T, harness Harness) {
	h := begin(t, harness, one(1, quota.Sliding(time.Hour)))
	h.granted("list")
	h.denied("list", "daily", time.Hour)
	other := *h.c
	other.Name = "other"
	h.use(&other)
	h.used(0)
	h.granted("list")
	h.used(1)
}

func clockStepsBack(t *testing.T, harness Harness) {
	h := begin(t, harness, one(2, quota.Sliding(time.Hour)))
	start := h.clock.Now()
	h.granted("list")
	h.clock.Add(30 * time.Minute)
	h.granted("list")
	h.clock.Set(start.Add(-48 * time.Hour))
	d := h.acquire(quota.Request{Operation: "list"})
	if want := start.Add(time.Hour); d.Reason != quota.LimitExceeded || !d.RetryAt.Equal(want) {
		t.Errorf("got %+v after a step back, want a denial until %v", d, want)
	}
	if want := 49 * time.Hour; d.RetryAfter != want { // a caller waits by the clock that stepped back
		t.Errorf("got %v to wait after a step back, want %v", d.RetryAfter, want)
	}
	h.used(2)
	h.clock.Set(start.Add(time.Hour))
	h.granted("list")
	h.used(2)
}

func reopening(t *testing.T, harness Harness) {
	h := begin(t, harness, daily())
	h.granted("search.list")
	d := h.granted("videos.list")
	h.clock.Add(time.Minute)
	h.granted("search.list")
	h.settle(d, 0)
	h.book("daily", 5)
	before := h.usage()
	h.again()
	if after := h.usage(); !reflect.DeepEqual(after, before) {
		t.Errorf("usage was %+v, is %+v after reopening", before, after)
	}
	h.used(205, 200)
	h.granted("search.list")
	h.denied("search.list", "search", 59*time.Minute)
	h.clock.Add(59 * time.Minute)
	h.again()
	h.used(305, 200)
	if log := h.log(quota.LogQuery{}); len(log) != 6 {
		t.Errorf("got %d entries after reopening, want 4 grants and 2 corrections", len(log))
	}
}
