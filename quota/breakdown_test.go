package quota_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
)

var nine = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// A testService is a service on a ledger whose clock the test moves.
type testService struct {
	*testing.T
	*quota.Service
	clock *ledgertest.Clock
}

func newTestService(t *testing.T, c *quota.Credential) *testService {
	t.Helper()
	clock := ledgertest.NewClock(nine)
	k, err := quota.NewService(ledgertest.NewModel(clock.Now), []*quota.Credential{c}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return &testService{T: t, Service: k, clock: clock}
}

// spend acquires as a job's pass of a region, or as uid 7 where there is no job.
func (d *testService) spend(job, region, operation string, count quota.Units) string {
	d.Helper()
	caller := quota.Caller{Job: job, Region: region, UID: 7}
	decision, err := d.Acquire(d.Context(), quota.Request{Credential: "youtube", Operation: operation, Count: count, Caller: caller})
	if err != nil || !decision.Granted() {
		d.Fatalf("got %+v, %v, want a grant", decision, err)
	}
	return decision.GrantID
}

func (d *testService) settle(grant string, units quota.Units) {
	d.Helper()
	if decision, err := d.Settle(d.Context(), grant, quota.Settlement{Units: units}); err != nil || !decision.Granted() {
		d.Fatalf("got %+v, %v, want it settled", decision, err)
	}
}

func (d *testService) book(limit string, units quota.Units) {
	d.Helper()
	decision, err := d.Book(d.Context(), "youtube", quota.Booking{Limit: limit, Units: units, Caller: quota.Caller{UID: 0}, Note: "checked upstream"})
	if err != nil || !decision.Granted() {
		d.Fatalf("got %+v, %v, want it booked", decision, err)
	}
}

// breakdown returns the shares as sharesOf writes them.
func (d *testService) breakdown(by quota.Dimension, since time.Time) []string {
	d.Helper()
	b, err := d.Breakdown(d.Context(), "youtube", quota.BreakdownQuery{By: by, Since: since})
	if err != nil {
		d.Fatal(err)
	}
	return sharesOf(b)
}

// sharesOf writes the shares as "name calls units [units per limit]", the total last.
func sharesOf(b *quota.Breakdown) (lines []string) {
	for _, s := range append(b.Shares(), b.Total) {
		lines = append(lines, fmt.Sprintf("%s %d %d %v", s.Name, s.Calls, s.Units, s.In))
	}
	return lines
}

func twoLimits() *quota.Credential {
	c := youtube()
	c.Limits = append(c.Limits, quota.Limit{Name: "search", Units: 400, Window: quota.Sliding(time.Hour), Only: []string{"search.list"}})
	return c
}

func TestBreakdown(t *testing.T) {
	d := newTestService(t, twoLimits())
	d.spend("trending", "US", "videos.list", 4)
	d.spend("trending", "GB", "videos.list", 3)
	d.clock.Add(50 * time.Minute)
	settled := d.spend("charts", "US", "search.list", 2)
	released := d.spend("charts", "GB", "search.list", 1)
	d.clock.Add(20 * time.Minute)
	d.settle(settled, 150)
	d.settle(released, 0)
	d.spend("", "", "videos.list", 5)
	d.book("daily", 20)

	total := " 14 182 [182 150]"
	for by, want := range map[quota.Dimension][]string{
		quota.ByJob:       {"charts 2 150 [150 150]", " 5 25 [25 0]", "trending 7 7 [7 0]", total},
		quota.ByCaller:    {"charts 2 150 [150 150]", "@0 0 20 [20 0]", "trending 7 7 [7 0]", "@7 5 5 [5 0]", total},
		quota.ByRegion:    {"US 6 154 [154 150]", " 5 25 [25 0]", "GB 3 3 [3 0]", total},
		quota.ByOperation: {"search.list 2 150 [150 150]", " 0 20 [20 0]", "videos.list 12 12 [12 0]", total},
		quota.ByHour:      {"2026-11-21T09:00:00Z 9 157 [157 150]", "2026-11-21T10:00:00Z 5 25 [25 0]", total},
	} {
		if got := d.breakdown(by, time.Time{}); !slices.Equal(got, want) {
			t.Errorf("by %s\n got %q\nwant %q", by, got, want)
		}
	}
	want := []string{"charts 2 150 [150 150]", " 5 25 [25 0]", " 7 175 [175 150]"}
	if got := d.breakdown(quota.ByJob, nine.Add(50*time.Minute)); !slices.Equal(got, want) {
		t.Errorf("since the first search\n got %q\nwant %q", got, want)
	}
}

// Told by what the windows hold, an entry counts in the limits that it has not left, and
// is left out when it has left all of them.
func TestBreakdownOfWhatIsHeld(t *testing.T) {
	c := youtube()
	c.Limits = []quota.Limit{{Name: "brief", Units: 500, Window: quota.Sliding(time.Minute)}, {Name: "search", Units: 400, Window: quota.Sliding(time.Hour), Only: []string{"search.list"}}}
	d := newTestService(t, c)
	d.spend("trending", "US", "search.list", 1)
	d.spend("trending", "US", "videos.list", 98)
	for _, row := range []struct {
		later time.Duration
		want  []string
	}{
		{time.Minute - time.Millisecond, []string{"search.list 1 100 [100 100]", "videos.list 98 98 [98 0]", " 99 198 [198 100]"}},
		{2 * time.Millisecond, []string{"search.list 1 100 [0 100]", " 1 100 [0 100]"}}, // the videos left the only limit that counts them
		{time.Hour - time.Minute, []string{" 0 0 [0 0]"}},
	} {
		d.clock.Add(row.later)
		b, err := d.Breakdown(t.Context(), "youtube", quota.BreakdownQuery{By: quota.ByOperation, Now: d.clock.Now()})
		if err != nil {
			t.Fatal(err)
		}
		if got := sharesOf(b); !slices.Equal(got, row.want) {
			t.Errorf("at %v\n got %q\nwant %q", d.clock.Now(), got, row.want)
		}
	}
}

// A limit that came later than the entries has none of them, in a breakdown as in its sum.
func TestBreakdownOfANewLimit(t *testing.T) {
	d := newTestService(t, youtube())
	d.spend("trending", "US", "search.list", 3)
	if err := d.SetCredentials([]*quota.Credential{twoLimits()}); err != nil {
		t.Fatal(err)
	}
	if got, want := d.breakdown(quota.ByJob, time.Time{})[0], "trending 3 300 [300 0]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBreakdownReadsEveryPage(t *testing.T) {
	d := newTestService(t, youtube())
	const calls = 900
	for range calls {
		d.spend("trending", "US", "videos.list", 1)
	}
	if got, want := d.breakdown(quota.ByJob, time.Time{})[0], fmt.Sprintf("trending %d %d [%d]", calls, calls, calls); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Breakdown(ctx, "youtube", quota.BreakdownQuery{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the cancellation", err)
	}
	for most, want := range map[int]quota.Units{1: 1, 250: 250, 251: 251, calls - 1: calls - 1, calls: calls} {
		b, err := d.Breakdown(t.Context(), "youtube", quota.BreakdownQuery{Max: most})
		if err != nil || b.Total.Calls != want || b.Partial != (most < calls) {
			t.Errorf("at most %d: got %d calls, partial: %v, %v", most, b.Total.Calls, b.Partial, err)
		}
	}
	var refused *quota.RefusedError
	if _, err := d.Breakdown(t.Context(), "vimeo", quota.BreakdownQuery{}); !errors.As(err, &refused) || refused.Reason != quota.UnknownCredential {
		t.Errorf("got %v of an unknown credential", err)
	}
}

// After a reset, what was before it is still in the log, and held by no window.
func TestBreakdownAfterAReset(t *testing.T) {
	d := newTestService(t, youtube())
	d.spend("trending", "US", "search.list", 3)
	if _, err := d.Reset(t.Context(), "youtube", quota.Caller{UID: 3}, ""); err != nil {
		t.Fatal(err)
	}
	d.spend("charts", "US", "search.list", 1)
	for now, want := range map[time.Time]quota.Units{{}: 400, nine.Add(time.Second): 100} {
		b, err := d.Breakdown(t.Context(), "youtube", quota.BreakdownQuery{By: quota.ByJob, Now: now})
		if err != nil || b.Total.Units != want {
			t.Errorf("at %v: got %d units, %v, want %d", now, b.Total.Units, err, want)
		}
	}
}
