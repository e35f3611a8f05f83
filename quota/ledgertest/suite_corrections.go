package ledgertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"quotad/quota"
)

func settle(t *testing.T, harness Harness) {
	h := begin(t, harness, daily())
	first := h.granted("search.list")
	h.clock.Add(time.Minute)
	second := h.granted("search.list")
	h.used(200, 200)

	for range 2 { // settling to the same amount again changes nothing
		if d := h.settle(first, 30); d.Reason != "" || d.Units != 30 || d.Limits[0].Used != 130 {
			t.Fatalf("got %+v, want 30 units and 130 used", d)
		}
		h.used(130, 130)
	}
	h.settle(first, 100)
	h.used(200, 200)
	h.settle(first, 0)
	h.used(100, 100)
	h.settle(second, 950) // it has happened, past both limits
	h.used(950, 950)
	h.denied("search.list", "daily", 24*time.Hour)
	h.settle(second, 100)
	// What was returned expires with its debit: at the end nothing is left.
	h.clock.Add(59 * time.Minute)
	h.used(100, 100)
	h.clock.Add(time.Minute)
	h.used(100, 0)
	h.clock.Add(23*time.Hour - tick)
	h.used(100, 0)
	h.clock.Add(tick)
	h.used(0, 0)
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
		{"that again", own, quota.Settlement{Units: most, Caller: member}, "", 200 + most},
		{"past the limit, since it has happened", other, quota.Settlement{Units: 150, Caller: member}, "", 250 + most},
		{"less", own, quota.Settlement{Units: 100, Caller: member}, "", 350},
		{"more than the share of a remote caller has left", remote, quota.Settlement{Units: 251, Caller: shop}, quota.SettledTooHigh, 350},
		{"all of the share but its reserve", remote, quota.Settlement{Units: 250, Caller: shop}, "", 500},
		{"to zero", remote, quota.Settlement{Caller: shop}, "", 250},
		{"what was granted", remote, quota.Settlement{Units: 100, Caller: shop}, "", 350},
	} {
		row.s.Bounded = true
		if got := h.settleAs(row.grant, row.s); got.Reason != row.want {
			t.Errorf("%s: %+v, want reason %q", row.what, got, row.want)
		}
		if got := h.usage().Limits[0].Used; got != row.used {
			t.Errorf("%s: %d units of daily are used, want %d", row.what, got, row.used)
		}
	}
	h.settleAs(own, quota.Settlement{Units: 690, Caller: member, Bounded: true}) // with 150 and 100 of the others, 940: past all but the reserve
	if got := h.settleAs(remote, quota.Settlement{Units: 101, Caller: shop, Bounded: true}); got.Reason != quota.SettledTooHigh {
		t.Errorf("one more unit, of which daily has none left but its reserve: %+v", got)
	}
}

// settleBoundedLater settles a call to more after a minute's window has let it go: that limit does not count it any
// more, so it does not matter what the limit has left.
func settleBoundedLater(t *testing.T, harness Harness) {
	c := one(1000, quota.Sliding(24*time.Hour))
	c.Limits = append(c.Limits, quota.Limit{Name: "minute", Units: 20, Window: quota.Sliding(time.Minute)})
	h := begin(t, harness, c)
	shop := quota.Caller{UID: -1, Remote: "shop"}
	d := h.acquire(quota.Request{Operation: "ten", Caller: shop})
	h.isGrant(d)
	to := func(units quota.Units) quota.Decision {
		return h.settleAs(d, quota.Settlement{Units: units, Caller: shop, Bounded: true})
	}
	if got := to(21); got.Reason != quota.SettledTooHigh {
		t.Errorf("more than a minute has: got %+v", got)
	}
	h.clock.Add(time.Minute)
	h.times(2, "ten")
	if got := to(15); got.Reason != "" {
		t.Errorf("got %+v, want it counted in the day", got)
	}
	h.used(35, 20)
}

// settleSmallerCharge settles a grant that charges one limit less than another: the smaller charge shrinks, and never
// grows; all that tie for the greatest are settled.
func settleSmallerCharge(t *testing.T, harness Harness) {
	c := one(1000, quota.Sliding(time.Hour))
	c.Limits = append(c.Limits, quota.Limit{Name: "bytes", Units: 1000, Window: quota.Sliding(time.Hour)},
		quota.Limit{Name: "calls", Units: 1000, Window: quota.Sliding(time.Hour)})
	c.Operations = map[string]quota.Cost{"get": {Per: map[string]quota.Units{"daily": 50, "bytes": 50, "calls": 3}}}
	h := begin(t, harness, c)
	d := h.granted("get")
	for _, row := range []struct{ to, daily, bytes, calls quota.Units }{
		{50, 50, 50, 3}, {2, 2, 2, 2}, {3, 3, 3, 3}, {70, 70, 70, 3}, {0, 0, 0, 0}, {1, 1, 1, 1},
	} {
		if got := h.settle(d, row.to); got.Units != row.to {
			t.Errorf("got %+v, want it settled to %d", got, row.to)
		}
		h.used(row.daily, row.bytes, row.calls)
	}
	h.again()
	h.used(1, 1, 1)
	_, id, _ := quota.ParseGrantID(d.GrantID)
	e, found, err := h.ledger.Entry(context.Background(), h.c, id)
	if to, settled := e.Settled(); err != nil || !found || to != 1 || !settled || quota.Max(e.Asked()) != 50 {
		t.Errorf("got %+v, %v, %v, want 50 units settled to 1", e, found, err)
	}
}

func settleTooLate(t *testing.T, harness Harness) {
	h := begin(t, harness, one(10, quota.Sliding(time.Hour)))
	d := h.granted("list")
	h.granted("list")
	unknown := d
	unknown.GrantID = "one:AAAABBBBCCCCDDDD"
	if got := h.settle(unknown, 0); got.Reason != quota.UnknownGrant {
		t.Errorf("got %+v for a grant that never was, want unknown_grant", got)
	}
	h.settle(d, 3)
	correction := quota.Decision{GrantID: quota.GrantID("one", h.newest().ID)}
	if got := h.settle(correction, 0); got.Reason != quota.UnknownGrant {
		t.Errorf("got %+v for a correction's id, want unknown_grant", got)
	}
	h.used(4)
	h.clock.Add(time.Hour)
	if got := h.settle(d, 0); got.Reason != quota.UnknownGrant {
		t.Errorf("got %+v after the window, want unknown_grant", got)
	}
	h.clock.Add(tick)
	h.used(0)
	other := *h.c
	other.Name = "other"
	h.use(&other)
	if got := h.settle(d, 0); got.Reason != quota.UnknownGrant {
		t.Errorf("got %+v for another credential's grant, want unknown_grant", got)
	}
}

func book(t *testing.T, harness Harness) {
	h := begin(t, harness, daily())
	d := h.book("daily", 40)
	if d.Units != 40 || len(d.Limits) != 1 || d.Limits[0].Used != 40 {
		t.Errorf("got %+v, want 40 units of daily", d)
	}
	h.used(40, 0)
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
	h.settle(d, 0) // a mistake
	h.used(0, 500)
	if got := h.book("daily", quota.MaxUnits); got.Reason != "" {
		t.Errorf("got %+v, want all that can be counted", got)
	}
	if got := h.book("daily", 1); got.Reason != quota.BadRequest {
		t.Errorf("got %+v, want one unit too many refused", got)
	}
	h.used(quota.MaxUnits, 500)
	h.again()
	h.used(quota.MaxUnits, 500)
	h.clock.Add(24*time.Hour + tick)
	h.used(0, 0)
}

// reset begins at zero again. The log keeps what was before: it does not count, and nothing corrects it.
func reset(t *testing.T, harness Harness) {
	h := begin(t, harness, daily())
	d := h.granted("videos.insert")
	h.isGrant(h.acquire(quota.Request{Operation: "search.list", RequestID: "a"}))
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
	h.used(0, 0)
	h.clock.Add(time.Minute)
	h.granted("search.list")
	if next := h.usage().Limits[0]; !next.NextAt.Equal(h.clock.Now().Add(24*time.Hour)) || next.NextUnits != 100 {
		t.Errorf("got %v, %d, want the next to leave to be after the reset", next.NextAt, next.NextUnits)
	}
	h.again()
	h.used(100, 100)
	h.times(2, "search.list")
	h.denied("search.list", "search", time.Hour)
}

func logPages(t *testing.T, harness Harness) {
	h := begin(t, harness, daily())
	var ids []quota.ID
	var at []time.Time
	note := func() {
		e := h.newest()
		ids, at = append(ids, e.ID), append(at, e.At)
	}
	for i := range 25 {
		region := []string{"US", "GB"}[i%2]
		d := h.acquire(quota.Request{Operation: "videos.list", Count: quota.Units(i + 1), Caller: quota.Caller{Job: "trending", Run: "r", Region: region}})
		h.isGrant(d)
		if note(); quota.GrantID("youtube", ids[len(ids)-1]) != d.GrantID {
			t.Errorf("the newest entry is %s, want that of grant %s", ids[len(ids)-1], d.GrantID)
		}
		if i%3 == 0 {
			h.clock.Add(time.Minute)
		}
		if i == 4 {
			h.settle(d, 2)
			note()
		}
	}
	pages := func(q quota.LogQuery) (got []quota.ID) {
		for _, e := range h.log(q) {
			got = append(got, e.ID)
		}
		return got
	}
	for _, most := range []int{1, 4, 13, 26, 27, 1000} {
		if got := pages(quota.LogQuery{Max: most}); !slices.Equal(got, ids) {
			t.Errorf("in pages of %d: got %v, want %v", most, got, ids)
		}
		newest := pages(quota.LogQuery{Max: most, Newest: true})
		if slices.Reverse(newest); !slices.Equal(newest, ids) {
			t.Errorf("newest first, in pages of %d: got %v, want the reverse of %v", most, newest, ids)
		}
		if got := pages(quota.LogQuery{Max: most, Since: at[10]}); !slices.Equal(got, ids[10:]) {
			t.Errorf("since %v: got %v, want %v", at[10], got, ids[10:])
		}
		if got := pages(quota.LogQuery{Max: most, Since: at[10], Newest: true}); len(got) != len(ids)-10 || got[len(got)-1] != ids[10] {
			t.Errorf("since %v, newest first: got %v, want %v", at[10], got, ids[10:])
		}
	}
	e := h.log(quota.LogQuery{})[4]
	g, _ := e.Grant()
	to, settled := e.Settled()
	if g.Operation != "videos.list" || g.Count != 5 || e.By != "trending" || e.Region != "US" || e.Asked()[0].Units != 5 || to != 2 || !settled {
		t.Errorf("got %+v, want 5 videos.list of trending in US, settled to 2", e)
	}
}
