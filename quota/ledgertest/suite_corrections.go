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
	h.clock.Add(24 * time.Hour)
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

// settleReturned settles a grant of which an adjustment has returned units to more than a call may cost now: at
// most to what the grant counts without the settlement.
func settleReturned(t *testing.T, harness Harness) {
	h := begin(t, harness, one(100, quota.Sliding(time.Hour)))
	grant := h.granted("most")
	h.adjust("daily", -30)
	h.c = one(20, quota.Sliding(time.Hour))
	for _, row := range []struct {
		units quota.Units
		want  quota.Reason
		used  quota.Units
	}{{50, "", 20}, {70, "", 40}, {71, quota.SettledTooHigh, 40}} {
		got := h.settleAs(grant, quota.Settlement{Units: row.units, Caller: quota.Caller{UID: 1000}, Bounded: true})
		if got.Reason != row.want {
			t.Errorf("to %d units: %+v, want reason %q", row.units, got, row.want)
		}
		h.used(row.used)
	}

	// What was returned is no room for a greater cost.
	h = begin(t, harness, one(50, quota.Sliding(time.Hour)))
	grant = h.granted("ten")
	h.adjust("daily", -10)
	for units, want := range map[quota.Units]quota.Reason{51: quota.SettledTooHigh, 50: ""} {
		if got := h.settleAs(grant, quota.Settlement{Units: units, Caller: quota.Caller{UID: 1000}, Bounded: true}); got.Reason != want {
			t.Errorf("to %d units of which 10 were returned: %+v, want reason %q", units, got, want)
		}
	}
	h.used(40)
}

func settleTooLate(t *testing.T, harness Harness) {
	h := begin(t, harness, one(10, quota.Sliding(time.Hour)))
	d := h.granted("list")
	h.granted("list")
	unknown := d
	unknown.GrantID = "one:1-7"
	if got := h.settle(unknown, 0); got.Reason != quota.UnknownGrant {
		t.Errorf("got %+v for a grant that never was, want unknown_grant", got)
	}
	h.adjust("daily", 3)
	page := h.log(quota.LogQuery{Max: 10})
	correction := quota.Decision{GrantID: quota.GrantID("one", page.Entries[len(page.Entries)-1].ID)}
	if got := h.settle(correction, 0); got.Reason != quota.UnknownGrant {
		t.Errorf("got %+v for a correction's id, want unknown_grant", got)
	}
	h.clock.Add(time.Hour)
	if got := h.settle(d, 0); got.Reason != quota.UnknownGrant {
		t.Errorf("got %+v after the window, want unknown_grant", got)
	}
	h.used(0)
	other := *h.c
	other.Name = "other"
	h.c = &other
	if got := h.settle(d, 0); got.Reason != quota.UnknownGrant {
		t.Errorf("got %+v for another credential's grant, want unknown_grant", got)
	}
}

func adjust(t *testing.T, harness Harness) {
	h := begin(t, harness, daily())
	if d := h.adjust("daily", 40); d.Units != 40 {
		t.Errorf("booked %d units, want 40", d.Units)
	}
	h.used(40, 0)
	h.clock.Add(time.Minute)
	h.granted("search.list")
	if d := h.adjust("daily", -60); d.Units != 60 {
		t.Errorf("gave back %d units, want 60", d.Units)
	}
	h.used(80, 100)
	if d := h.adjust("search", -1000); d.Units != 100 {
		t.Errorf("gave back %d units, want the 100 that were used", d.Units)
	}
	h.used(80, 0)
	// The oldest are returned first: the 40 booked, and 20 of the search.
	h.clock.Add(24*time.Hour - time.Minute)
	h.used(80, 0)
	h.clock.Add(time.Minute)
	h.used(0, 0)
	if d := h.adjust("daily", -5); d.Units != 0 {
		t.Errorf("gave back %d units of an empty window, want 0", d.Units)
	}
	h.used(0, 0)
	d := h.granted("videos.insert")
	h.adjust("daily", -400)
	h.settle(d, 0)
	h.used(0, 0)
	h.granted("videos.list")
	h.used(1, 0)

	page := h.log(quota.LogQuery{Max: 20})
	i := slices.IndexFunc(page.Entries, func(e quota.Entry) bool { a, _ := e.Body.(quota.Adjusted); return a.Asked == -5 })
	if i < 0 || page.Entries[i].By != "@0" || page.Entries[i].Note != "checked upstream" || !slices.Equal(page.Entries[i].Charges, []quota.Charge{{Limit: "daily"}}) {
		t.Errorf("the log does not tell who adjusted, by how much, and why: %+v", page.Entries)
	}
}

// undoneBooking books units by mistake, and returns them: who spent what is as it was before.
func undoneBooking(t *testing.T, harness Harness) {
	h := begin(t, harness, daily())
	h.granted("videos.insert")
	h.clock.Add(time.Minute)
	h.adjust("daily", 300)
	h.adjust("daily", -300)
	h.clock.Add(24*time.Hour - time.Minute - time.Millisecond)
	d := h.granted("videos.list")
	if h.clock.Add(time.Millisecond); d.Limits[0].Used < 100 {
		t.Errorf("%d units are used, while the call that spent them is in the window", d.Limits[0].Used)
	}
	h.used(1, 0) // it has left the window, and nothing of the booking is left
	h.adjust("daily", 5)
	h.adjust("daily", -6) // more than what was booked
	h.used(0, 0)
}

func reset(t *testing.T, harness Harness) {
	h := begin(t, harness, daily())
	d := h.granted("videos.insert")
	h.isGrant(h.acquire(quota.Request{Operation: "search.list", RequestID: "a"}))
	if err := h.ledger.Reset(context.Background(), h.c, quota.Caller{UID: 3}, "a new project"); err != nil {
		t.Fatal(err)
	}
	h.used(0, 0)
	page := h.log(quota.LogQuery{Max: 10})
	if len(page.Entries) != 1 || page.Entries[0].By != "@3" || page.Entries[0].Kind() != quota.KindReset || page.Entries[0].Note != "a new project" {
		t.Errorf("got the log %+v, want a trace of the reset alone", page.Entries)
	}
	if got := h.settle(d, 0); got.Reason != quota.UnknownGrant {
		t.Errorf("got %+v for a grant before the reset, want unknown_grant", got)
	}
	again := h.acquire(quota.Request{Operation: "search.list", RequestID: "a"})
	h.isGrant(again)
	if again.Replayed {
		t.Error("a request id survived the reset")
	}
	h.used(100, 100)
	h.again()
	h.used(100, 100)
}

func logPages(t *testing.T, harness Harness) {
	h := begin(t, harness, daily())
	var ids []quota.ID
	for i := range 25 {
		region := []string{"US", "GB"}[i%2]
		d := h.acquire(quota.Request{Operation: "videos.list", Count: quota.Units(i + 1), Caller: quota.Caller{Job: "trending", Run: "r", Region: region}})
		h.isGrant(d)
		_, id, _ := quota.ParseGrantID(d.GrantID)
		ids = append(ids, id)
		if i%3 == 0 {
			h.clock.Add(time.Minute)
		}
		if i == 4 {
			h.settle(d, 2)
			page := h.log(quota.LogQuery{Max: 1, Newest: true})
			ids = append(ids, page.Entries[0].ID)
		}
	}
	pages := func(q quota.LogQuery) (got []quota.ID, entries []quota.Entry) {
		for {
			page := h.log(q)
			if len(page.Entries) > q.Max {
				t.Fatalf("a page of %d entries, at most %d were asked for", len(page.Entries), q.Max)
			}
			for _, e := range page.Entries {
				got = append(got, e.ID)
				entries = append(entries, e)
			}
			if page.Next.IsZero() {
				return got, entries
			}
			q.After = page.Next
		}
	}
	oldest, entries := pages(quota.LogQuery{Max: 4})
	if !slices.Equal(oldest, ids) {
		t.Errorf("oldest first: got %v, want %v", oldest, ids)
	}
	newest, _ := pages(quota.LogQuery{Max: 7, Newest: true})
	slices.Reverse(newest)
	if !slices.Equal(newest, ids) {
		t.Errorf("newest first: got %v, want the reverse of %v", newest, ids)
	}
	since, _ := pages(quota.LogQuery{Max: 5, Since: ids[10].Time()})
	at := slices.IndexFunc(ids, func(id quota.ID) bool { return id.Ms == ids[10].Ms })
	if !slices.Equal(since, ids[at:]) {
		t.Errorf("since %v: got %v, want %v", ids[10].Time(), since, ids[at:])
	}
	e := entries[4]
	counts := e.Counts()
	g, _ := e.Grant()
	if g.Operation != "videos.list" || g.Count != 5 || e.By != "trending" || e.Region != "US" || e.Charges[0].Units != 5 || !slices.Equal(counts, []quota.Charge{{Limit: "daily", Units: 2}}) {
		t.Errorf("got %+v, want 5 videos.list of trending in US, settled to 2", e)
	}
}
