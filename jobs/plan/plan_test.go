package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/slidinglog"
	"quotad/regions"
)

// noon is when the plans of the tests begin.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const week = 7 * 24 * time.Hour

func dailyOf(units, reserve quota.Units) *quota.Credential {
	return &quota.Credential{
		Name:       "youtube",
		Limits:     []quota.Limit{{Name: "daily", Units: units, Reserve: reserve, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{"videos.list": {Every: 1}, "search.list": {Every: 100}},
	}
}

// hourly is a job of n regions that take four pages each, every hour.
func hourly(t *testing.T, n int) *jobs.Job {
	t.Helper()
	job := trending(t)
	job.Regions = nil
	for i := range n {
		job.Regions = append(job.Regions, regions.Region(fmt.Sprintf("R%03d", i)))
	}
	job.Expects = map[string]quota.Units{"videos.list": 4}
	return job
}

// simulate plans jobs from noon on, with nothing spent.
func simulate(length time.Duration, credentials []*quota.Credential, list ...*jobs.Job) *Plan {
	o := SimInput{From: noon}
	for _, job := range list {
		o.Jobs = append(o.Jobs, jobs.JobState{Job: job})
	}
	for _, c := range credentials {
		o.Limits = append(o.Limits, slidinglog.NewSimulation(c))
	}
	return Simulate(o, noon.Add(length))
}

// The worked example: 100 regions, 4 pages, 24 slots.
func TestPlanOfAHundredRegions(t *testing.T) {
	for _, row := range []struct {
		name            string
		regions         int
		reserve         quota.Units
		demand, atWorst quota.Units
		onTime, fits    bool
		dry             bool
		most            int
		changes         []string
	}{
		{"a reserve of 500", 100, 500, 9600, 10_000, false, false, true, 95,
			[]string{"95 regions of trending instead of 100", "a reserve of 0 instead of 500",
				"trending every 1h12m instead of 1h", "3 videos.list for a pass of trending instead of 4"}},
		{"no reserve", 100, 0, 9600, 10_000, true, true, false, 100, nil},
		{"to the letter", 100, 400, 9600, 10_000, true, false, true, 96,
			[]string{"96 regions of trending instead of 100", "a reserve of 0 instead of 400",
				"trending every 1h12m instead of 1h", "3 videos.list for a pass of trending instead of 4"}},
		{"too little only when passes are late", 97, 380, 9312, 9700, true, false, false, 96,
			[]string{"a reserve of 300 instead of 380", "96 regions of trending instead of 97",
				"trending every 1h12m instead of 1h", "3 videos.list for a pass of trending instead of 4"}},
		{"95 regions", 95, 500, 9120, 9500, true, true, false, 95, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := simulate(week, []*quota.Credential{dailyOf(10_000, row.reserve)}, hourly(t, row.regions))
			l := p.Limits[0]
			if l.Demand != row.demand || l.AtWorst != row.atWorst || l.FitsOnTime() != row.onTime || l.Fits != row.fits || l.Estimated {
				t.Errorf("got %+v, want a demand of %d and %d, fits on time %v, fits %v", l.Fit, row.demand, row.atWorst, row.onTime, row.fits)
			}
			if got := p.Skipped > 0; got != row.dry || got != !l.DryAt.IsZero() {
				t.Errorf("got %d skipped, dry at %v, want it dry: %v", p.Skipped, l.DryAt, row.dry)
			}
			if p.Limits[0].Shares[0].MostRegions != row.most || l.Shares[0].Slots != 24 {
				t.Errorf("got %+v and %+v, want room for %d regions", p.Jobs[0], l.Shares[0], row.most)
			}
			var changes []string
			for _, c := range l.Changes {
				changes = append(changes, c.String())
			}
			if !slices.Equal(changes, row.changes) {
				t.Errorf("got\n\t%q\nwant\n\t%q", changes, row.changes)
			}
		})
	}
}

// Full use to the letter: what was spent at a slot is not back yet when the same
// slot comes again, and n of n+1 runs are what is left.
func TestPlanOfFullUse(t *testing.T) {
	job := hourly(t, 10)
	job.Stagger = 0
	p := simulate(50*24*time.Hour, []*quota.Credential{dailyOf(960, 0)}, job)
	const runs = 50*24 - 1 // the last one comes as the plan ends
	if got, want := p.Passes+p.Skipped, 10*runs; got != want {
		t.Errorf("got %d turns, want %d", got, want)
	}
	if got, want := p.Skipped, 10*(runs/25); got != want {
		t.Errorf("got %d turns lost, want one run of 25: %d", got, want)
	}
	l := p.Limits[0]
	if !l.DryAt.Equal(noon.Add(25 * time.Hour)) {
		t.Errorf("got it dry at %v, want it after a day of 24 runs", l.DryAt)
	}
	if l.Demand != 960 || l.AtWorst != 1000 {
		t.Errorf("got %+v, want 25 runs of 40 at worst", l.Fit)
	}
}

// Impossible things are told before nine in the morning: one search for each of
// eight regions, hourly.
func TestPlanOfSearches(t *testing.T) {
	job := trending(t)
	job.Expects = map[string]quota.Units{"search.list": 1}
	p := simulate(24*time.Hour, []*quota.Credential{dailyOf(10_000, 0)}, job)
	l := p.Limits[0]
	if l.Demand != 19_200 || l.FitsOnTime() || p.Limits[0].Shares[0].MostRegions != 4 {
		t.Errorf("got %+v, want 19,200 of 10,000, and room for 4 regions", l)
	}
	// 100 searches, and from the hundredth on none: twelve runs and half of the next.
	if p.Passes != 100 || !l.DryAt.Equal(noon.Add(13*time.Hour+30*time.Minute)) || l.Spent != 10_000 || l.Peak != 10_000 {
		t.Errorf("got %d passes, %+v, want 100 and then none", p.Passes, l)
	}
	if run := p.Runs[12]; len(run.Served) != 4 || run.StoppedAt != "IN" || run.Limit != "daily" {
		t.Errorf("got %+v, want it stopped at IN", run)
	}
	if run := p.Runs[13]; len(run.Served) != 0 || run.StoppedAt != "IN" {
		t.Errorf("got %+v, want IN to keep its turn", run)
	}
}

// How late passes are counted: a timeout after their start where the stagger leaves
// them that long, else when all of the run have taken theirs, but before the next slot.
func TestFits(t *testing.T) {
	for _, row := range []struct {
		name            string
		window, stagger time.Duration
		demand, atWorst quota.Units // of two regions of 4, every 20 minutes, with a timeout of 5m10s
		most            int
	}{
		{"all at once: two runs, or three", 40 * time.Minute, 0, 16, 24, 4},
		{"a window that is no multiple of the period", 37 * time.Minute, 0, 16, 24, 4},
		{"a window that is longer than that by all timeouts", 29 * time.Minute, 0, 16, 16, 4},
		{"spread evenly: one pass more", 40 * time.Minute, jobs.EvenStagger, 16, 20, 4},
		{"a window shorter than the period", 15 * time.Minute, 6 * time.Minute, 8, 12, 4},
		{"a window as long as the stagger", 10 * time.Minute, 10 * time.Minute, 4, 8, 2},
		{"a window shorter than a timeout", time.Minute, 10 * time.Minute, 4, 4, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := dailyOf(50, 0)
			c.Limits[0].Window = quota.Sliding(row.window)
			job := hourly(t, 2)
			job.Schedule, job.Stagger = every(t, 20*time.Minute, 0), row.stagger
			v := CheckFit([]*jobs.Job{job}, []*quota.Credential{c}, noon)[0]
			if v.Demand != row.demand || v.AtWorst != row.atWorst || v.Shares[0].MostRegions != row.most {
				t.Errorf("got %+v, want %d, at worst %d, and room for %d regions", v, row.demand, row.atWorst, row.most)
			}
		})
	}
}

// Per hour, per job, and per region: budget of 20, eight regions of 4.
func TestPlanTellsWhoIsServed(t *testing.T) {
	job := trending(t)
	job.Expects = map[string]quota.Units{"videos.list": 4}
	job.Schedule = every(t, 8*time.Hour, 0)
	c := dailyOf(20, 0)
	c.Limits[0].Window = quota.Sliding(7 * time.Hour)
	p := simulate(25*time.Hour, []*quota.Credential{c}, job)
	if want := (Job{
		Job: "trending", Credential: "youtube", Runs: 3, Stopped: 2, Passes: 15, Skipped: 6, Spent: map[string]quota.Units{"daily": 60},
	}); !sameJob(p.Jobs[0], want) {
		t.Errorf("got %+v, want %+v", p.Jobs[0], want)
	}
	// US GB DE FR IN, BR AU CA US GB, and of the third run, whose end is not in the plan, DE FR IN BR AU.
	for i, want := range [][2]int{{2, 0}, {2, 0}, {2, 1}, {2, 1}, {2, 1}, {2, 1}, {2, 1}, {1, 1}} {
		if got := p.Jobs[0].Regions[i]; got.Passes != want[0] || got.Skipped != want[1] {
			t.Errorf("got %+v, want it served %d times, not %d times", got, want[0], want[1])
		}
	}
	l := p.Limits[0]
	if first := noon.Add(9 * time.Hour); !l.DryAt.Equal(first) || l.Stops != 2 || l.Skipped != 6 {
		t.Errorf("got %+v, want it dry first at %v", l, first)
	}
	if len(l.Hours) != 25 || l.Hours[4].Units != 4 || l.Hours[4].Jobs["trending"] != 4 || l.Hours[9].Skipped != 3 || !l.Hours[9].At.Equal(noon.Add(9*time.Hour)) {
		t.Errorf("got %+v, want what each hour sees", l.Hours)
	}
}

func sameJob(a, b Job) bool {
	return fmt.Sprintf("%+v", withoutRegions(a)) == fmt.Sprintf("%+v", withoutRegions(b))
}

func withoutRegions(j Job) Job {
	j.Regions = nil
	return j
}

// What a job does not say is not simulated, and a paused one does not run.
func TestPlanOfJobsThatDoNotRun(t *testing.T) {
	silent, paused, later := trending(t), hourly(t, 2), hourly(t, 2)
	silent.Name, paused.Name, later.Name = "silent", "paused", "later"
	o := SimInput{From: noon, Limits: []*slidinglog.Simulation{slidinglog.NewSimulation(dailyOf(1000, 0))}, Jobs: []jobs.JobState{
		{Job: silent}, {Job: paused, Pause: &jobs.Pause{}}, {Job: later, Pause: &jobs.Pause{Until: noon.Add(150 * time.Minute)}},
	}}
	p := Simulate(o, noon.Add(5*time.Hour))
	if !slices.Equal(p.Unknown, []string{"silent"}) || len(p.Jobs) != 2 {
		t.Fatalf("got %+v, want the silent job left out", p)
	}
	if j := p.Jobs[0]; !j.Paused || j.Runs != 0 {
		t.Errorf("got %+v, want it paused", j)
	}
	if j := p.Jobs[1]; !j.Paused || j.Runs != 2 || !p.Runs[0].Slot.Equal(noon.Add(3*time.Hour)) {
		t.Errorf("got %+v, want it to run from three on", j)
	}
}

// A calendar window begins anew. The last run of a day is over before the first of
// the next, and so no day sees a run more.
func TestPlanOfACalendarDay(t *testing.T) {
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	c := dailyOf(9600, 0)
	c.Limits[0].Window = quota.Calendar(quota.Day, zone)
	p := simulate(week, []*quota.Credential{c}, hourly(t, 100))
	l := p.Limits[0]
	if !l.Fits || l.Demand != 9600 || l.AtWorst != 9600 || p.Skipped != 0 || p.Limits[0].Shares[0].MostRegions != 100 {
		t.Errorf("got %+v, want it to fit to the last unit", l.Fit)
	}
	if want := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC); !l.ResetsAt.Equal(want) {
		t.Errorf("it resets at %v, want %v", l.ResetsAt, want)
	}
	p = simulate(week, []*quota.Credential{c}, hourly(t, 101))
	if l := p.Limits[0]; l.Fits || l.DryAt.IsZero() || p.Limits[0].Shares[0].MostRegions != 100 {
		t.Errorf("got %+v, want one region too many", l)
	}
}

// A run under way goes on where it is.
func TestPlanOfARunUnderWay(t *testing.T) {
	job := trending(t)
	job.Expects = map[string]quota.Units{"videos.list": 4}
	o := SimInput{From: noon, Limits: []*slidinglog.Simulation{slidinglog.NewSimulation(dailyOf(1000, 0))}, Jobs: []jobs.JobState{{
		Job: job, Cursor: "FR",
		Run: &jobs.Progress{Slot: noon.Add(-20 * time.Minute), Ring: eight().From("US"), Stagger: 10 * time.Minute, MovesCursor: true, Begun: 3},
	}}}
	p := Simulate(o, noon.Add(3*time.Hour))
	// FR is due, the others follow until 12:50; the slot of one o'clock comes after that.
	if h := p.Limits[0].Hours; h[0].Units != 5*4 || h[1].Units != 8*4 {
		t.Errorf("got %+v, want five passes and then eight", h)
	}
	if run := p.Runs[0]; !run.Slot.Equal(noon.Add(time.Hour)) || run.Served[0] != "US" {
		t.Errorf("got %+v, want the next run to begin where this one did", run)
	}
	o.Jobs[0].Run.MovesCursor = false // somebody chose its regions
	p = Simulate(SimInput{From: noon, Jobs: o.Jobs, Limits: []*slidinglog.Simulation{slidinglog.NewSimulation(dailyOf(1000, 0))}}, noon.Add(3*time.Hour))
	if run := p.Runs[0]; run.Served[0] != "FR" {
		t.Errorf("got %+v, want the cursor left alone", run)
	}
}

// There is an end to what is simulated.
func TestPlanIsCut(t *testing.T) {
	job := hourly(t, 10)
	job.Schedule, job.Stagger = every(t, time.Second, 0), 0
	c := dailyOf(1_000_000_000, 0)
	c.Limits[0].Window = quota.Sliding(72 * time.Hour)
	p := simulate(week, []*quota.Credential{c}, job)
	if !p.Cut || p.Passes != maxPasses || !p.Until.Equal(noon.Add(maxPasses/10*time.Second+time.Second)) {
		t.Errorf("got %d passes until %v, cut: %v", p.Passes, p.Until, p.Cut)
	}
	l := p.Limits[0]
	if last := l.Hours[len(l.Hours)-1].At; !last.Before(p.Until) {
		t.Errorf("the hour of %v is behind the plan's end", last)
	}
	if want := quota.Units(72 * 3600 * 40); l.Demand < want*999/1000 || l.Demand > want || !l.Estimated {
		t.Errorf("got a demand of %d, want it estimated as some %d", l.Demand, want)
	}
}

// quotad --check and quotactl reload warn in these words.
func TestShortage(t *testing.T) {
	for _, row := range []struct {
		demand, atWorst quota.Units
		want            string
	}{
		{19_200, 19_200, "the jobs ask for 19,200 units of youtube daily in one window; 9,500 are for them: they run dry"},
		{9_600, 10_000, "the jobs ask for 9,600 units of youtube daily in one window, and for 10,000 when passes are late; 9,500 are for them: they run dry"},
		{9_400, 9_600, "the jobs ask for 9,400 units of youtube daily in one window, and for 9,600 when passes are late; 9,500 are for them: they run dry now and then"},
	} {
		fit := Fit{Credential: "youtube", Limit: "daily", Budget: 9_500, Demand: row.demand, AtWorst: row.atWorst}
		if got := fit.Shortage(); got != row.want {
			t.Errorf("got %q, want %q", got, row.want)
		}
	}
}
