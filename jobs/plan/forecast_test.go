package plan

import (
	"errors"
	"testing"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
	"quotad/regions"
)

// Spending of callers that are no job, in each hour before noon as many units as listed, at its
// middle: a limit is gone when it would be if they went on as in the last hour.
func TestForecastOfOthers(t *testing.T) {
	sliding, day := quota.Sliding(24*time.Hour), quota.Calendar(quota.Day, time.UTC)
	evenly := func(units quota.Units) map[int]quota.Units {
		spent := map[int]quota.Units{}
		for ago := range 24 {
			spent[ago] = units
		}
		return spent
	}
	for _, row := range []struct {
		name    string
		window  quota.Window
		spent   map[int]quota.Units // by how many hours ago
		perHour quota.Units
		goneIn  time.Duration // give or take a step; 0: not within a day
	}{
		{"nothing of late", sliding, map[int]quota.Units{5: 9_000}, 0, 0},
		{"evenly, and it may go on", sliding, evenly(390), 390, 0},
		{"a burst this morning", sliding, map[int]quota.Units{3: 8_700, 0: 300}, 300, 100 * time.Minute},
		{"a burst yesterday leaves before", sliding, map[int]quota.Units{23: 8_700, 0: 300}, 300, 0},
		{"faster than yesterday", sliding, map[int]quota.Units{0: 800}, 800, 10*time.Hour + 53*time.Minute},
		{"a trickle", sliding, map[int]quota.Units{0: 1}, 1, 0},
		{"a day that ends before", day, map[int]quota.Units{0: 400}, 400, 0},
		{"a day that does not", day, map[int]quota.Units{3: 4_000, 0: 800}, 800, 5*time.Hour + 53*time.Minute},
		{"of half an hour an hour says nothing", quota.Sliding(30 * time.Minute), map[int]quota.Units{0: 800}, 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := dailyOf(10_000, 500)
			c.Limits[0].Window = row.window
			clock := ledgertest.NewClock(noon.Add(-24 * time.Hour))
			service, err := quota.NewService(ledgertest.NewModel(clock.Now), []*quota.Credential{c}, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			for ago := 23; ago >= 0; ago-- {
				clock.Set(noon.Add(-time.Duration(ago)*time.Hour - 30*time.Minute))
				if units := row.spent[ago]; units > 0 {
					d, err := service.Acquire(t.Context(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: units})
					if err != nil || !d.Granted() {
						t.Fatalf("%d hours ago: %+v, %v", ago, d, err)
					}
				}
			}
			clock.Set(noon)
			limits, _, err := slidinglog.Simulate(t.Context(), service, "youtube")
			if err != nil {
				t.Fatal(err)
			}
			l := Simulate(SimInput{From: noon, Limits: []*slidinglog.Simulation{limits}, Others: true}, noon.Add(24*time.Hour)).Limits[0]
			if l.PerHour != row.perHour {
				t.Errorf("%d in the last hour, want %d", l.PerHour, row.perHour)
			}
			if l.DryAt.IsZero() != (row.goneIn == 0) {
				t.Fatalf("gone at %v, want in %v", l.DryAt, row.goneIn)
			}
			if late := l.DryAt.Sub(noon) - row.goneIn; row.goneIn > 0 && (late < 0 || late > othersStep) {
				t.Errorf("gone in %v, want %v", l.DryAt.Sub(noon), row.goneIn)
			}
		})
	}
}

// What an operator booked or freed by hand is no rate: it counts as used, and is not spent again in
// each hour to come. What was settled is.
func TestForecastWithoutAdjustments(t *testing.T) {
	for _, row := range []struct {
		name          string
		calls         quota.Units
		settled       quota.Units // of the calls; below zero: they are not
		adjusted      int64
		used, perHour quota.Units
		goneIn        time.Duration // give or take a step; 0: not within a day
	}{
		{"booked alone", 0, -1, 5_000, 5_000, 0, 0},
		{"booked beside calls that may go on", 100, -1, 5_000, 5_100, 100, 0},
		{"booked beside calls that may not", 500, -1, 5_000, 5_500, 500, 8 * time.Hour},
		{"freed", 800, -1, -700, 100, 800, 11*time.Hour + 45*time.Minute},
		{"settled, and freed", 1_600, 800, -700, 100, 800, 11*time.Hour + 45*time.Minute},
		{"settled to more", 100, 800, 0, 800, 800, 10*time.Hour + 53*time.Minute},
		{"released", 800, 0, 5_000, 5_000, 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			clock := ledgertest.NewClock(noon.Add(-30 * time.Minute))
			service, err := quota.NewService(ledgertest.NewModel(clock.Now), []*quota.Credential{dailyOf(10_000, 500)}, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			if row.calls > 0 {
				d, err := service.Acquire(t.Context(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: row.calls})
				if err != nil || !d.Granted() {
					t.Fatalf("%+v, %v", d, err)
				}
				if row.settled >= 0 {
					if _, err := service.Settle(t.Context(), d.GrantID, quota.Settlement{Units: row.settled}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if row.adjusted != 0 {
				if _, err := service.Adjust(t.Context(), "youtube", quota.Adjustment{Limit: "daily", Units: row.adjusted, Note: "spent elsewhere"}); err != nil {
					t.Fatal(err)
				}
			}
			clock.Set(noon)
			limits, _, err := slidinglog.Simulate(t.Context(), service, "youtube")
			if err != nil {
				t.Fatal(err)
			}
			l := Simulate(SimInput{From: noon, Limits: []*slidinglog.Simulation{limits}, Others: true}, noon.Add(24*time.Hour)).Limits[0]
			if l.Used != row.used || l.PerHour != row.perHour {
				t.Errorf("%d used and %d in the last hour, want %d and %d", l.Used, l.PerHour, row.used, row.perHour)
			}
			if l.DryAt.IsZero() != (row.goneIn == 0) {
				t.Fatalf("gone at %v, want in %v", l.DryAt, row.goneIn)
			}
			if late := l.DryAt.Sub(noon) - row.goneIn; row.goneIn > 0 && (late < 0 || late > othersStep) {
				t.Errorf("gone in %v, want %v", l.DryAt.Sub(noon), row.goneIn)
			}
		})
	}
}

// A job that does not say what its passes expect is planned by what they took. One that never
// took anything is in no figure, and said to be in none.
func TestMeasuredJobs(t *testing.T) {
	measured, unknown := hourly(t, 8), hourly(t, 8)
	measured.Expects, unknown.Expects, unknown.Name = nil, nil, "unknown"
	p := Simulate(SimInput{
		From:   noon,
		Jobs:   []jobs.JobState{{Job: measured, Took: jobs.Made{"videos.list": 7}}, {Job: unknown}},
		Limits: []*slidinglog.Simulation{slidinglog.NewSimulation(dailyOf(10_000, 0))},
	}, noon.Add(90*time.Minute))
	if len(p.Jobs) != 1 || !p.Jobs[0].Measured || p.Limits[0].Spent == 0 || p.Limits[0].Spent%7 != 0 {
		t.Errorf("got %+v, which spend %d", p.Jobs, p.Limits[0].Spent)
	}
	if len(p.Unknown) != 1 || p.Unknown[0] != "unknown" {
		t.Errorf("without %v", p.Unknown)
	}
	if l := p.Limits[0]; len(l.Shares) != 1 || l.Demand == 0 {
		t.Errorf("whether it fits is said of %+v", l.Fit)
	}
}

// A run under way may have regions that the job does not have any more.
func TestRunOfFormerRegions(t *testing.T) {
	job := hourly(t, 1)
	run := &jobs.Progress{Slot: noon, Ring: regions.Ring{"R000", "XX", "YY"}, MovesCursor: true, Stagger: time.Minute}
	p := Simulate(SimInput{
		From: noon, Jobs: []jobs.JobState{{Job: job, Run: run}},
		Limits: []*slidinglog.Simulation{slidinglog.NewSimulation(dailyOf(9, 0))},
	}, noon.Add(10*time.Minute))
	if p.Passes != 2 || p.Skipped != 1 {
		t.Errorf("%d passes and %d lost, want 2 and 1", p.Passes, p.Skipped)
	}
}

// What was planned is kept until what it was made of changes, and as long as will do.
func TestKept(t *testing.T) {
	var k cached[int]
	made, lax := 0, time.Duration(0)
	get := func(of string) int {
		t.Helper()
		value, err := k.get(of, maxPlanAge, lax, func() (int, error) { made++; return made, nil })
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	if first, again := get("a"), get("a"); first != 1 || again != 1 {
		t.Errorf("got %d and %d", first, again)
	}
	if got := get("b"); got != 2 {
		t.Errorf("after a change: %d", got)
	}
	lax = time.Hour
	if got := get("c"); got != 2 {
		t.Errorf("what is an hour old will do, and it was made anew")
	}
	lax, k.at = 0, k.at.Add(-2*time.Hour)
	if got := get("b"); got != 3 {
		t.Errorf("what is old is good: %d", got)
	}
	k.at = k.at.Add(-2 * time.Hour)
	if _, err := k.get("b", maxPlanAge, 0, func() (int, error) { return 0, errors.New("the ledger is away") }); err == nil || k.value != 3 {
		t.Errorf("after an error: %v, %d", err, k.value)
	}
}

// What if a job also ran at other times: one that only a person runs, and one beside its slots.
func TestFurtherSlots(t *testing.T) {
	backfill, trends := hourly(t, 5), hourly(t, 2)
	backfill.Name, backfill.Schedule = "backfill", jobs.Unscheduled{}
	states := with([]jobs.JobState{{Job: backfill}, {Job: trends}}, map[string][]time.Time{
		"backfill": {noon.Add(2 * time.Hour), noon.Add(-time.Hour)}, "trending": {noon.Add(90 * time.Minute)},
	})
	p := Simulate(SimInput{From: noon, Jobs: states, Limits: []*slidinglog.Simulation{slidinglog.NewSimulation(dailyOf(10_000, 0))}}, noon.Add(150*time.Minute))
	if got := p.Jobs[0].Runs; got != 1 {
		t.Errorf("%d runs by hand, want 1", got)
	}
	if got := p.Jobs[1].Runs; got != 3 { // at 13:00, 13:30 and 14:00
		t.Errorf("%d runs, want 3", got)
	}
	if backfill.Schedule != (jobs.Unscheduled{}) {
		t.Error("the job itself was changed")
	}
}
