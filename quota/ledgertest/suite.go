package ledgertest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"quotad/quota"
)

// Run holds a ledger to what the contract of quota.Ledger says in plain cases. All else is in Random.
func Run(t *testing.T, h Harness) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Harness)
	}{
		{"sliding window", slidingWindow},
		{"several limits, all or nothing", severalLimits},
		{"request ids", requestIDs},
		{"the clock steps back", clockStepsBack},
		{"settle and release", settle},
		{"settle of a caller who is no operator", settleBounded},
		{"settle against each limit", settleEachLimit},
		{"book", book},
		{"reset", reset},
		{"a limit is closed and opens", closedLimit},
		{"many clients at once", manyClients},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, h) })
	}
}

// daily is the classic YouTube credential with a narrow limit on searches, small enough to fill.
func daily() *quota.Credential {
	return &quota.Credential{
		Name: "youtube",
		Limits: []quota.Limit{
			{Name: "daily", Units: 1000, Window: quota.Sliding(24 * time.Hour)},
			{Name: "search", Units: 300, Window: quota.Sliding(time.Hour), Only: []string{"search.list"}},
		},
		Operations: map[string]quota.Cost{"search.list": {Every: 100}, "videos.insert": {Every: 400}, "videos.list": {Every: 1}},
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
	h := begin(t, harness, one(100, quota.Sliding(time.Hour)))
	for range 10 {
		h.granted("ten")
		h.clock.Add(time.Minute)
	}
	h.denied("list", "daily", 50*time.Minute)
	d := h.denied("most", "daily", 56*time.Minute)
	h.clock.Set(d.RetryAt.Add(-tick))
	h.denied("most", "daily", tick)
	h.clock.Add(tick)
	h.granted("most")
	h.used(100)
}

func severalLimits(t *testing.T, harness Harness) {
	h := begin(t, harness, daily())
	h.times(3, "search.list")
	h.denied("search.list", "search", time.Hour)
	h.used(300, 300)
	h.granted("videos.list")
	h.granted("videos.insert")
	h.clock.Add(time.Hour + tick)
	h.used(701, 0)
	h.times(2, "search.list")
	// Both refuse for a while; the one that refuses the longest is named.
	h.denied("search.list", "daily", 23*time.Hour-tick)
	h.used(901, 200)
	d := h.granted("videos.list")
	if len(d.Limits) != 1 || d.Limits[0].Name != "daily" || d.Limits[0].Used != 902 || d.Units != 1 || d.Remaining() != 98 {
		t.Errorf("got %+v, want the state of daily alone, 902 used, 98 left", d)
	}
}

func requestIDs(t *testing.T, harness Harness) {
	h := begin(t, harness, one(20, quota.Sliding(time.Hour)))
	request := quota.Request{Operation: "ten", RequestID: "call-1", Caller: quota.Caller{UID: 7}}
	first := h.acquire(request)
	h.isGrant(first)
	again := h.acquire(request)
	if again.GrantID != first.GrantID || !again.Replayed || first.Replayed {
		t.Errorf("got %+v after %+v, want the same grant, replayed", again, first)
	}
	for _, other := range []quota.Request{
		{Operation: "list", RequestID: "call-1", Caller: quota.Caller{UID: 7}},
		{Operation: "ten", Count: 2, RequestID: "call-1", Caller: quota.Caller{UID: 7}},
		{Operation: "ten", RequestID: "call-1", Caller: quota.Caller{UID: 8}},
	} {
		if d := h.acquire(other); d.Reason != quota.RequestIDConflict {
			t.Errorf("got %+v for other arguments, want request_id_conflict", d)
		}
	}
	h.used(10)
	list := one(20, quota.Sliding(time.Hour)) // what it costs now is another matter
	list.Operations["ten"] = quota.Cost{Every: 5}
	h.use(list)
	if d := h.acquire(request); !d.Replayed || d.Units != 10 {
		t.Errorf("got %+v, want the grant as it was charged", d)
	}
	h.times(2, "ten")
	// A denial is not remembered: the same id may be granted later.
	h.isDenial(h.acquire(quota.Request{Operation: "list", RequestID: "call-2"}), "daily", time.Hour)
	h.again()
	if again := h.acquire(request); again.GrantID != first.GrantID {
		t.Errorf("got %+v after reopening, want the grant %s", again, first.GrantID)
	}
	h.clock.Add(time.Hour + tick)
	h.isGrant(h.acquire(quota.Request{Operation: "list", RequestID: "call-2"}))
}

func clockStepsBack(t *testing.T, harness Harness) {
	h := begin(t, harness, one(2, quota.Sliding(time.Hour)))
	start := h.clock.Now()
	h.granted("list")
	h.clock.Add(30 * time.Minute)
	h.granted("list")
	h.clock.Set(start.Add(-48 * time.Hour))
	d := h.acquire(quota.Request{Operation: "list"})
	if want := start.Add(time.Hour); d.Reason != quota.LimitExceeded || !d.RetryAt.Equal(want) || d.RetryAfter != 49*time.Hour {
		t.Errorf("got %+v after a step back, want a denial until %v, for 49 h by the clock that stepped back", d, want)
	}
	h.used(2)
	h.clock.Set(start.Add(time.Hour))
	h.granted("list")
	h.used(2)
}

func settle(t *testing.T, harness Harness) {
	h := begin(t, harness, daily())
	first := h.granted("search.list")
	h.clock.Add(time.Minute)
	second := h.granted("search.list")
	for range 2 { // settling to the same amount again changes nothing
		if d := h.settle(first, 30); d.Reason != "" || d.Units != 30 || d.Limits[0].Used != 130 {
			t.Fatalf("got %+v, want 30 units and 130 used", d)
		}
	}
	h.settle(first, 0)
	h.settle(second, 950) // it has happened, past both limits
	h.used(950, 950)
	h.denied("search.list", "daily", 24*time.Hour)
	h.settle(second, 100)
	// What was returned expires with its debit: at the end nothing is left.
	h.clock.Add(time.Hour)
	h.used(100, 0)
	h.clock.Add(23*time.Hour - tick)
	h.used(100, 0)
	h.clock.Add(tick)
	h.used(0, 0)
	for _, id := range []string{second.GrantID, "youtube:AAAABBBBCCCCDDDD", quota.GrantID("youtube", h.newest().ID)} {
		if got := h.settle(quota.Decision{GrantID: id}, 0); got.Reason != quota.UnknownGrant {
			t.Errorf("%s: got %+v, want unknown_grant", id, got)
		}
	}
}

// settleBounded settles grants of 100 units, which a daily limit of 1000 and a share of 300 count.
func settleBounded(t *testing.T, harness Harness) {
	c := one(1000, quota.Sliding(24*time.Hour))
	c.Limits[0].Reserve = 100
	c.Limits = append(c.Limits, quota.Limit{Name: "share", Units: 300, Reserve: 50, Window: quota.Sliding(24 * time.Hour), Jobs: []string{"remote/shop"}})
	c.Operations = map[string]quota.Cost{"search.list": {Every: 100}}
	h := begin(t, harness, c)
	member, shop := quota.Caller{UID: 1000}, quota.Caller{UID: -1, Remote: "shop"}
	acquire := func(by quota.Caller) quota.Decision {
		return h.acquire(quota.Request{Operation: "search.list", Count: 1, Caller: by})
	}
	const most = 900
	own, other, remote := acquire(member), acquire(member), acquire(shop)
	for _, row := range []struct {
		what  string
		grant quota.Decision
		s     quota.Settlement
		want  quota.Reason
		used  quota.Units // of daily
	}{
		{"as much as there are units", own, quota.Settlement{Units: quota.MaxUnits - 1000, Caller: member}, quota.SettledTooHigh, 300},
		{"more than any call may cost", own, quota.Settlement{Units: most + 1, Caller: member}, quota.SettledTooHigh, 300},
		{"as much as a call may cost", own, quota.Settlement{Units: most, Caller: member}, "", 200 + most},
		{"past the limit, since it has happened", other, quota.Settlement{Units: 150, Caller: member}, "", 250 + most},
		{"less", own, quota.Settlement{Units: 100, Caller: member}, "", 350},
		{"more than the share of a remote caller has left", remote, quota.Settlement{Units: 251, Caller: shop}, quota.SettledTooHigh, 350},
		{"all of the share but its reserve", remote, quota.Settlement{Units: 250, Caller: shop}, "", 500},
	} {
		row.s.Bounded = true
		if got := h.settleAs(row.grant, row.s); got.Reason != row.want {
			t.Errorf("%s: %+v, want reason %q", row.what, got, row.want)
		}
		if got := h.usage().Limits[0].Used; got != row.used {
			t.Errorf("%s: %d units of daily are used, want %d", row.what, got, row.used)
		}
	}
	h.settleAs(own, quota.Settlement{Units: 540, Caller: member}) // 940 in all: past all of daily but the reserve
	if got := h.settleAs(remote, quota.Settlement{Units: 250 - 149, Caller: shop, Bounded: true}); got.Reason != "" {
		t.Errorf("less of a remote caller: %+v", got)
	}
	h.settleAs(own, quota.Settlement{Units: 690, Caller: member})
	if got := h.settleAs(remote, quota.Settlement{Units: 102, Caller: shop, Bounded: true}); got.Reason != quota.SettledTooHigh {
		t.Errorf("one more unit, of which daily has none left but its reserve: %+v", got)
	}
}

// settleEachLimit has a remote caller settle a grant to more, of which the smaller of its limits has none left.
func settleEachLimit(t *testing.T, harness Harness) {
	c := one(1000, quota.Sliding(24*time.Hour))
	c.Limits = append(c.Limits, quota.Limit{Name: "calls", Units: 1, Window: quota.Sliding(24 * time.Hour)})
	c.Operations = map[string]quota.Cost{"search.list": {Per: map[string]quota.Units{"daily": 100, "calls": 1}}}
	h := begin(t, harness, c)
	shop := quota.Caller{UID: -1, Remote: "shop"}
	request := quota.Request{Operation: "search.list", Count: 1, Caller: shop}
	first := h.acquire(request)
	h.settleAs(first, quota.Settlement{Units: 0, Caller: shop, Bounded: true})
	if second := h.acquire(request); !second.Granted() {
		t.Fatalf("got %+v", second)
	}
	if got := h.settleAs(first, quota.Settlement{Units: 100, Caller: shop, Bounded: true}); got.Reason != quota.SettledTooHigh {
		t.Errorf("got %+v, want that calls has none left", got)
	}
}

func book(t *testing.T, harness Harness) {
	h := begin(t, harness, daily())
	d := h.book("daily", 40)
	if d.Units != 40 || len(d.Limits) != 1 || d.Limits[0].Used != 40 {
		t.Errorf("got %+v, want 40 units of daily", d)
	}
	h.clock.Add(time.Minute)
	h.book("search", 500) // past the limit, since it has happened
	h.used(40, 500)
	h.denied("search.list", "search", time.Hour)
	e := h.newest()
	if e.Kind() != quota.KindBooking || e.By != "@0" || e.Note != "checked upstream" || !slices.Equal(e.Charges, []quota.Charge{{Limit: "search", Units: 500}}) {
		t.Errorf("the log has %+v, want who booked how much, and why", e)
	}
	if got := h.settleAs(d, quota.Settlement{Units: 0, Bounded: true}); got.Reason != quota.UnknownGrant {
		t.Errorf("got %+v, want a booking to be an operator's", got)
	}
	if got := h.settle(d, 100); got.Reason != "" || got.Units != 100 || !got.Raised {
		t.Errorf("got %+v, want 100 units", got)
	}
	h.used(100, 500)
}

func reset(t *testing.T, harness Harness) {
	h := begin(t, harness, daily())
	d := h.granted("videos.insert")
	h.isGrant(h.acquire(quota.Request{Operation: "search.list", RequestID: "a"}))
	h.closing(quota.Change{Limit: "daily", Until: h.clock.Now().Add(2 * time.Hour), Note: "gone"}, true)
	h.reset("a new project")
	h.used(0, 0)
	if e := h.newest(); e.By != "@3" || e.Kind() != quota.KindReset || e.Note != "a new project" {
		t.Errorf("got %+v, want who reset, and why", e)
	}
	if got := h.settle(d, 0); got.Reason != quota.UnknownGrant {
		t.Errorf("got %+v for a grant before the reset, want unknown_grant", got)
	}
	if again := h.acquire(quota.Request{Operation: "search.list", RequestID: "a"}); !again.Replayed {
		t.Errorf("got %+v, want the grant of the call that was made before", again)
	}
	h.clock.Add(time.Minute)
	h.granted("search.list") // which no closing of before the reset refuses
	if next := h.usage().Limits[0]; !next.NextAt.Equal(h.clock.Now().Add(24*time.Hour)) || next.NextUnits != 100 {
		t.Errorf("got %v, %d, want the next to leave to be after the reset", next.NextAt, next.NextUnits)
	}
	h.again()
	h.used(100, 100)
}

// closing closes or opens a limit, and expects whether that changes anything.
func (h *history) closing(k quota.Change, want bool) {
	h.Helper()
	k.Kind, k.Caller = quota.KindClosing, quota.Caller{Job: "trending", Region: "US"}
	if k.Until.IsZero() {
		k.Kind = quota.KindOpening
	}
	changed, err := h.ledger.ChangeLimit(context.Background(), h.c, k)
	if err != nil || changed != want {
		h.Fatalf("got %v, %v from %+v, want %v", changed, err, k, want)
	}
}

// closedBy acquires an operation and expects that a closed limit denies it for so long.
func (h *history) closedBy(operation, limit string, retryAfter time.Duration) quota.Decision {
	h.Helper()
	d := h.acquire(quota.Request{Operation: operation, UseReserve: true})
	if d.Reason != quota.LimitClosed || d.Limit != limit || d.RetryAfter != retryAfter {
		h.Fatalf("got %q by limit %q for %v, want limit_closed by %q for %v", d.Reason, d.Limit, d.RetryAfter, limit, retryAfter)
	}
	if h.agrees(d); d.Remaining() != 0 {
		h.Fatalf("got %d remaining, want 0", d.Remaining())
	}
	return d
}

func closedLimit(t *testing.T, harness Harness) {
	h := begin(t, harness, daily())
	start := h.clock.Now()
	first := h.granted("search.list")
	h.closing(quota.Change{Limit: "search", Until: start.Add(20 * time.Minute), Note: "limit 'Search Queries per day'; ,=% of:1"}, true)
	d := h.closedBy("search.list", "search", 20*time.Minute)
	want := quota.Closed{Since: h.newest().At, Until: start.Add(20 * time.Minute), Says: "limit 'Search Queries per day'; ,=% of:1", By: "trending"}
	if u := h.usage(); d.State().Closed != want || u.Limits[1].Closed != want || !u.Limits[0].Closed.IsZero() {
		t.Errorf("got %+v and %+v, want search to be closed as %+v", d.State(), u, want)
	}
	h.granted("videos.list") // which search does not count
	h.settle(first, 50)      // what happened can be corrected all the same
	h.used(51, 50)

	// Earlier than it is closed until anyway, or not at all: nothing changes.
	h.clock.Add(time.Minute)
	entries := len(h.log(quota.LogQuery{}))
	h.closing(quota.Change{Limit: "search", Until: start.Add(10 * time.Minute)}, false)
	h.closing(quota.Change{Limit: "search", Until: start.Add(20 * time.Minute)}, false)
	h.closing(quota.Change{Limit: "search", Until: start}, false)
	h.closing(quota.Change{Limit: "daily"}, false)
	if got := len(h.log(quota.LogQuery{})); got != entries {
		t.Errorf("got %d entries, want the %d there were", got, entries)
	}
	// Longer: of two that are closed, the one that is closed the longest is named.
	h.closing(quota.Change{Limit: "search", Until: start.Add(30 * time.Minute), Note: "again"}, true)
	h.closing(quota.Change{Limit: "daily", Until: start.Add(5 * time.Minute), Note: "a minute"}, true)
	h.closedBy("videos.list", "daily", 4*time.Minute)
	h.closedBy("search.list", "search", 29*time.Minute)
	h.clock.Set(start.Add(5*time.Minute - tick))
	h.closedBy("videos.list", "daily", tick)
	h.clock.Add(tick)
	h.granted("videos.list")
	h.again()
	h.closedBy("search.list", "search", 25*time.Minute)
	h.closing(quota.Change{Limit: "search", Note: "seen to be open"}, true)
	e := h.newest()
	if e.Body != (quota.Changed{Limit: "search"}) || e.Kind() != quota.KindOpening || e.Region != "US" || e.Note != "seen to be open" || e.By != "trending" {
		t.Errorf("got %+v, want that search was opened, by whom and why", e)
	}
	// The window ends later than the closing: both count.
	h.times(2, "search.list")
	h.denied("search.list", "search", 55*time.Minute)
	h.closing(quota.Change{Limit: "search", Until: h.clock.Now().Add(time.Minute)}, true)
	h.closedBy("search.list", "search", 55*time.Minute)
	h.closing(quota.Change{Limit: "daily", Until: h.clock.Now().Add(2 * time.Hour)}, true)
	h.closedBy("search.list", "daily", 2*time.Hour)
}

func manyClients(t *testing.T, harness Harness) {
	h := begin(t, harness, one(500, quota.Sliding(time.Hour)))
	var callers sync.WaitGroup
	var mu sync.Mutex // guards granted
	granted := quota.Units(0)
	for range 16 {
		callers.Go(func() {
			for n := range 20 {
				operation := []string{"ten", "list"}[n%2]
				d, err := h.ledger.Acquire(context.Background(), h.c, h.ask(quota.Request{Operation: operation}))
				if err != nil {
					t.Error(err)
				}
				if err == nil && d.Granted() {
					mu.Lock()
					granted += d.Units
					mu.Unlock()
				}
			}
		})
	}
	callers.Wait()
	if granted > 500 || granted < 491 {
		t.Errorf("%d units were granted of 500", granted)
	}
	h.used(granted)
}
