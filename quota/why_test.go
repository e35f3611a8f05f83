package quota_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
)

func (d *testService) why(operation string, count quota.Units) quota.Explanation {
	d.Helper()
	e, err := d.Why(d.Context(), quota.Request{Credential: "youtube", Operation: operation, Count: count})
	if err != nil {
		d.Fatal(err)
	}
	return e
}

func (d *testService) grants(want bool, operation string, count quota.Units, useReserve bool) {
	d.Helper()
	got, err := d.Acquire(d.Context(), quota.Request{Credential: "youtube", Operation: operation, Count: count, UseReserve: useReserve})
	if err != nil || got.Granted() != want {
		d.Errorf("%d × %s: got %+v, %v, want granted: %v", count, operation, got, err, want)
	}
}

// 940 of 950 spent: by two jobs, in two regions.
func nearlySpent(t *testing.T) *testService {
	d := newTestService(t, twoLimits())
	d.spend("charts", "US", "search.list", 3)
	d.clock.Add(2 * time.Hour)
	d.spend("charts", "GB", "search.list", 3)
	d.spend("trending", "US", "videos.list", 340)
	return d
}

func TestWhyNot(t *testing.T) {
	d := nearlySpent(t)
	e := d.why("search.list", 2)
	if e.Reason != quota.LimitExceeded || e.Limit != "daily" || e.Units != 200 || !e.RetryAt.Equal(nine.Add(24*time.Hour)) {
		t.Errorf("got %+v, want it refused until the first searches leave", e.Decision)
	}
	if len(e.Obstacles) != 2 {
		t.Fatalf("got %+v, want both limits in the way", e.Obstacles)
	}
	daily, search := e.Obstacles[0], e.Obstacles[1]
	if daily.Name != "daily" || daily.Missing != 190 {
		t.Errorf("got %+v, want 190 units missing", daily)
	}
	for _, row := range []struct {
		name      string
		got, want []quota.Holder
	}{
		{"jobs", daily.Jobs, []quota.Holder{{"charts", 600}, {"trending", 340}}},
		{"regions", daily.Regions, []quota.Holder{{"US", 640}, {"GB", 300}}},
		{"operations", daily.Operations, []quota.Holder{{"search.list", 600}, {"videos.list", 340}}},
		// Its window is an hour: what the first searches spent has left it.
		{"jobs of the narrow limit", search.Jobs, []quota.Holder{{"charts", 300}}},
		{"regions of the narrow limit", search.Regions, []quota.Holder{{"GB", 300}}},
	} {
		if !reflect.DeepEqual(row.got, row.want) {
			t.Errorf("%s: got %v, want %v", row.name, row.got, row.want)
		}
	}
	if search.Missing != 100 || e.Fits != 0 || e.ReserveAllows {
		t.Errorf("got %+v, want 100 units missing in the narrow limit too", e)
	}
	if used, _ := d.Usage(t.Context(), "youtube"); used.Limits[0].Used != 940 {
		t.Errorf("used %d: asking why has moved something", used.Limits[0].Used)
	}
}

// What an explanation says would change a refusal does, and a unit less does not.
func TestWhatWouldChangeIt(t *testing.T) {
	for _, row := range []struct {
		name string
		try  func(d *testService, o quota.Obstacle, less int64)
	}{
		{"raise units", func(d *testService, o quota.Obstacle, less int64) {
			c := twoLimits()
			c.Limits[0].Units += o.Missing - quota.Units(less)
			d.reconfigure(c)
		}},
		{"lower the reserve", func(d *testService, o quota.Obstacle, less int64) {
			c := twoLimits()
			c.Limits[0].Reserve -= o.Missing - quota.Units(less)
			d.reconfigure(c)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := nearlySpent(t)
			e := d.why("videos.list", 45)
			if e.Granted() || e.Obstacles[0].Missing != 35 || e.Fits != 10 || !e.ReserveAllows {
				t.Fatalf("got %+v, want 35 units missing, and the reserve to have them", e)
			}
			row.try(d, e.Obstacles[0], 1)
			d.grants(false, "videos.list", 45, false)
			d = nearlySpent(t)
			row.try(d, e.Obstacles[0], 0)
			d.grants(true, "videos.list", 45, false)
		})
	}
	d := nearlySpent(t)
	e := d.why("videos.list", 45)
	d.grants(true, "videos.list", 45, e.ReserveAllows)
	d = nearlySpent(t)
	d.grants(false, "videos.list", e.Fits+1, false)
	d.grants(true, "videos.list", e.Fits, false)
	d = nearlySpent(t)
	d.clock.Set(e.RetryAt.Add(-time.Millisecond))
	d.grants(false, "videos.list", 45, false)
	d = nearlySpent(t) // another: the refusal is remembered, by the host's clock
	d.clock.Set(e.RetryAt)
	d.grants(true, "videos.list", 45, false)
}

func (d *testService) reconfigure(c *quota.Credential) {
	d.Helper()
	if err := d.SetCredentials([]*quota.Credential{c}); err != nil {
		d.Fatal(err)
	}
}

func TestWhyOfWhatFits(t *testing.T) {
	d := nearlySpent(t)
	e := d.why("videos.list", 3)
	if !e.Granted() || e.GrantID != "" || e.Units != 3 || e.Fits != 10 || len(e.Obstacles) != 0 || !e.ReserveAllows {
		t.Errorf("got %+v, want that it fits", e)
	}
}

func TestWhyOfWhatNeverFits(t *testing.T) {
	d := nearlySpent(t)
	e := d.why("videos.list", 970)
	if e.Reason != quota.CostExceedsLimit || !e.RetryAt.IsZero() || e.ReserveAllows || e.Fits != 10 {
		t.Errorf("got %+v, want that it never fits", e)
	}
	if len(e.Obstacles) != 1 || e.Obstacles[0].Used != 940 || e.Obstacles[0].Jobs != nil {
		t.Errorf("got %+v, want the limit as it stands", e.Obstacles)
	}
	for operation, want := range map[string]quota.Reason{"video.list": quota.UnknownOperation, "": quota.BadRequest} {
		if got := d.why(operation, 1); got.Reason != want {
			t.Errorf("%q: got %+v, want %s", operation, got, want)
		}
	}
}

func TestWhyOfACalendarDay(t *testing.T) {
	c := youtube()
	c.Limits[0].Window = quota.Calendar(quota.Day, time.UTC)
	d := newTestService(t, c)
	d.spend("yesterday", "US", "videos.list", 900)
	d.clock.Add(24 * time.Hour)
	d.spend("today", "US", "videos.list", 945)
	e := d.why("videos.list", 6)
	if want := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC); !e.RetryAt.Equal(want) {
		t.Errorf("fits at %v, want %v", e.RetryAt, want)
	}
	if got, want := e.Obstacles[0].Jobs, []quota.Holder{{"today", 945}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// An alone ledger grants without knowing its log, as during an outage.
type alone struct{ *ledgertest.Model }

func (alone) Peek(_ context.Context, _ *quota.Credential, _ []string, charges []quota.Charge, _ bool) (quota.Decision, error) {
	return quota.Decision{Outage: true, Units: quota.Max(charges)}, nil
}

func TestWhyDuringAnOutage(t *testing.T) {
	k, err := quota.NewService(alone{ledgertest.NewModel(time.Now)}, []*quota.Credential{youtube()}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	e, err := k.Why(t.Context(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: 3})
	if err != nil || !e.Outage || e.Fits != 3 || e.ReserveAllows || len(e.Obstacles) != 0 {
		t.Errorf("got %+v, %v, want what was asked for and no more promised", e, err)
	}
}
