package ledgertest

import (
	"testing"
	"time"

	"quotad/quota"
)

// shared is a credential of two jobs: backfill is capped, and trending is left its part.
func shared() *quota.Credential {
	return &quota.Credential{
		Name: "youtube",
		Limits: []quota.Limit{
			{Name: "daily", Units: 100, Window: quota.Sliding(24 * time.Hour)},
			{Name: "cap", Units: 40, Window: quota.Sliding(24 * time.Hour), Jobs: []string{"backfill"}},
			{Name: "others", Units: 70, Window: quota.Sliding(24 * time.Hour), ExceptJobs: []string{"trending"}},
		},
		Operations: map[string]quota.Cost{"list": {Every: 1}, "ten": {Every: 10}},
	}
}

// tens asks for n calls of ten units for a job, "" outside any pass.
func tens(job string, count quota.Units) quota.Request {
	r := quota.Request{Operation: "ten", Count: count, Caller: quota.Caller{UID: 7}}
	if job != "" {
		r.Caller = quota.Caller{Job: job, Region: "US", Run: job + "-1", UID: -1}
	}
	return r
}

func shares(t *testing.T, harness Harness) {
	h := begin(t, harness, shared())
	d := h.acquire(tens("backfill", 4))
	h.isGrant(d)
	if len(d.Limits) != 3 || d.Remaining() != 0 {
		t.Errorf("got %+v, want all three limits to count backfill, and nothing left of its cap", d)
	}
	h.used(40, 40, 40)
	h.clock.Add(time.Hour)
	h.isDenial(h.acquire(tens("backfill", 1)), "cap", 23*time.Hour)

	// Callers outside any pass are others, of no job.
	d = h.acquire(tens("", 3))
	h.isGrant(d)
	if len(d.Limits) != 2 || d.Limits[0].Name != "daily" || d.Limits[1].Name != "others" {
		t.Errorf("got %+v, want daily and others to count a caller outside any pass", d.Limits)
	}
	h.used(70, 40, 70)
	h.isDenial(h.acquire(tens("", 1)), "others", 23*time.Hour)
	h.isDenial(h.acquire(tens("charts", 1)), "others", 23*time.Hour)

	d = h.acquire(tens("trending", 3))
	h.isGrant(d)
	if len(d.Limits) != 1 || d.Limits[0].Name != "daily" {
		t.Errorf("got %+v, want daily alone to count trending", d.Limits)
	}
	h.used(100, 40, 70)
	h.isDenial(h.acquire(tens("trending", 1)), "daily", 23*time.Hour)

	h.clock.Add(23 * time.Hour)
	h.isGrant(h.acquire(tens("backfill", 4)))
	h.isDenial(h.acquire(tens("backfill", 1)), "cap", 24*time.Hour)
	h.isDenial(h.acquire(tens("trending", 1)), "daily", time.Hour)
	h.used(100, 40, 70)
	h.again()
	h.used(100, 40, 70)
}

// A limit that is not enforced counts like any other, reports what it would have denied, and
// refuses nothing; others still do, and then nothing is debited in it either.
func observed(t *testing.T, harness Harness) {
	c := daily()
	c.Limits[1].DryRun = true
	h := begin(t, harness, c)
	missing := func(d quota.Decision, want ...quota.Shortage) {
		t.Helper()
		h.isGrant(d)
		got := d.WouldDeny(false)
		if len(got) != len(want) || len(want) > 0 && (got[0].Limit != want[0].Limit || got[0].Missing != want[0].Missing) {
			t.Errorf("got %+v would deny, want %+v", got, want)
		}
	}
	for range 3 {
		missing(h.granted("search.list"))
	}
	missing(h.granted("search.list"), quota.Shortage{Limit: "search", Missing: 100})
	d := h.acquire(quota.Request{Operation: "search.list", Count: 4})
	missing(d, quota.Shortage{Limit: "search", Missing: 500})
	if d.Remaining() != 200 {
		t.Errorf("got %d remaining, want the 200 of daily, which denies", d.Remaining())
	}
	h.used(800, 800)
	if got := h.peek(h.ask(quota.Request{Operation: "search.list"}).Charges, false); !got.Granted() || len(got.WouldDeny(false)) != 1 || got.WouldDeny(false)[0].Missing != 600 {
		t.Errorf("got %+v, want a grant that the search limit would deny for 600 units", got)
	}
	h.isDenial(h.acquire(quota.Request{Operation: "search.list", Count: 3}), "daily", 24*time.Hour)
	h.used(800, 800)

	// Closed, it refuses nothing either.
	until := h.clock.Now().Add(2 * time.Hour)
	if _, err := h.ledger.ChangeLimit(t.Context(), h.c, quota.Change{Kind: quota.KindClosing, Limit: "search", Until: until, Note: "gone"}); err != nil {
		t.Fatal(err)
	}
	h.clock.Add(time.Hour + tick)
	d = h.granted("search.list")
	if got := d.WouldDeny(false); len(got) != 1 || got[0].Limit != "search" || len(d.Would) != 1 {
		t.Errorf("got %+v, %q, want the limit that is closed", got, d.Would)
	}
	h.again()
	h.used(900, 100)

	// Enforced from now on, it counts what it has seen.
	c = daily()
	c.Limits[1].Units = 150
	h.use(c)
	h.clock.Set(until.Add(tick))
	h.used(900, 0)
	h.granted("search.list")
	h.denied("videos.insert", "daily", 22*time.Hour)
	var would []string
	for _, e := range h.log(quota.LogQuery{}) {
		if len(e.Would) > 0 {
			would = append(would, e.Would...)
		}
	}
	if len(would) != 3 || would[0] != "search" {
		t.Errorf("the log has %q, want three grants that search would have refused", would)
	}
}
