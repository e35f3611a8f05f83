package plan

//ci:norace

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/jobs"
	"quotad/jobs/scheduler"
	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/seedtest"
	"quotad/quota/slidinglog"
	"quotad/regions"
)

// noon is when the plans of the tests begin.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func dailyOf(units, reserve quota.Units) *quota.Credential {
	return &quota.Credential{
		Name:       "youtube",
		Limits:     []quota.Limit{{Name: "daily", Units: units, Reserve: reserve, Window: quota.Sliding(day)}},
		Operations: map[string]quota.Cost{"videos.list": {Every: 1}, "search.list": {Every: 100}},
	}
}

func inZone(t *testing.T, c *quota.Credential, period quota.Period, zone string) *quota.Credential {
	t.Helper()
	location, err := time.LoadLocation(zone)
	must(t, err)
	c.Limits[0].Window = quota.Calendar(period, location)
	return c
}

// job is one of n regions, whose passes expect that many calls; "every 1h" or a cron line in UTC.
func job(t *testing.T, name string, n int, schedule string, expects map[string]quota.Units) *jobs.Job {
	t.Helper()
	j := &jobs.Job{
		Name: name, Credential: "youtube", Schedule: scheduleOf(t, schedule), Stagger: jobs.EvenStagger, Expects: expects,
		Command: []string{"/bin/fetch"}, Timeout: 5 * time.Minute, KillGrace: 10 * time.Second,
	}
	for i := range n {
		j.Regions = append(j.Regions, regions.Region(fmt.Sprintf("R%03d", i)))
	}
	return j
}

func scheduleOf(t *testing.T, text string) jobs.Schedule {
	t.Helper()
	interval, isEvery := strings.CutPrefix(text, "every ")
	if !isEvery {
		s, err := scheduler.ParseCron(text, time.UTC)
		must(t, err)
		return s
	}
	period, err := time.ParseDuration(interval)
	must(t, err)
	return jobs.Every{Period: period}
}

func searches(n quota.Units) map[string]quota.Units { return map[string]quota.Units{"search.list": n} }
func lists(n quota.Units) map[string]quota.Units    { return map[string]quota.Units{"videos.list": n} }

// Schedules as people configure them fit, may not fit or do not fit, and which other interval would do.
func TestFits(t *testing.T) {
	slow := func(j *jobs.Job) *jobs.Job { j.Stagger, j.Timeout = 0, time.Hour; return j }
	hourOf := func(c *quota.Credential) *quota.Credential { c.Limits[0].Window = quota.Sliding(time.Hour); return c }
	for _, row := range []struct {
		name   string
		of     *quota.Credential
		jobs   []*jobs.Job
		others quota.Units
		want   string
		cure   string
	}{
		{"a search each few minutes", dailyOf(10_000, 500), []*jobs.Job{job(t, "news", 1, "every 10m", searches(1))}, 0,
			"does not fit: 14,400 units asked in any 24h, 4,900 more than the 9,500 for jobs", "news every 16m instead of 10m"},
		{"a search each quarter of an hour", dailyOf(10_000, 0), []*jobs.Job{job(t, "news", 1, "every 15m", searches(1))}, 0,
			"fits: 9,600 of 10,000 units asked in any 24h, 400 left; 300 if passes fall together", ""},
		{"the same by cron", dailyOf(10_000, 0), []*jobs.Job{job(t, "news", 1, "*/15 * * * *", searches(1))}, 0,
			"fits: 9,600 of 10,000 units asked in any 24h, 400 left; 300 if passes fall together", ""},
		{"with what people spend", dailyOf(10_000, 0), []*jobs.Job{job(t, "news", 1, "every 15m", searches(1))}, 600,
			"does not fit: 10,200 units asked in any 24h, 200 more than the 10,000 for jobs", "news every 16m instead of 15m"},
		{"four regions, hourly", dailyOf(10_000, 0), []*jobs.Job{job(t, "news", 4, "every 1h", searches(1))}, 0,
			"fits: 9,600 of 10,000 units asked in any 24h, 400 left; 300 if passes fall together", ""},
		{"eight regions, hourly", dailyOf(10_000, 0), []*jobs.Job{job(t, "news", 8, "every 1h", searches(1))}, 0,
			"does not fit: 19,200 units asked in any 24h, 9,200 more than the 10,000 for jobs", "news every 2h instead of 1h"},
		{"several regions and a bucket of 100 in an hour", hourOf(dailyOf(100, 0)), []*jobs.Job{job(t, "pages", 20, "every 15m", lists(1))}, 0,
			"fits: 80 of 100 units asked in any 1h, 20 left; 0 if passes fall together", ""},
		{"the same with slow passes", hourOf(dailyOf(100, 0)), []*jobs.Job{slow(job(t, "pages", 20, "every 15m", lists(1)))}, 0,
			"fits: 80 of 100 units asked in any 1h, 20 left; 0 if passes fall together", ""},
		{"and one region more", hourOf(dailyOf(100, 0)), []*jobs.Job{slow(job(t, "pages", 21, "every 15m", lists(1)))}, 0,
			"may not fit, if passes fall together: 84 units asked in any 1h, and 105 then, 5 more than the 100 for jobs", "pages every 20m instead of 15m"},
		{"a hundred regions", dailyOf(10_000, 500), []*jobs.Job{job(t, "trending", 100, "every 1h", lists(4))}, 0,
			"does not fit: 9,600 units asked in any 24h, 100 more than the 9,500 for jobs", "trending every 1h12m instead of 1h"},
		{"to the letter", dailyOf(10_000, 400), []*jobs.Job{job(t, "trending", 100, "every 1h", lists(4))}, 0,
			"may not fit, if passes fall together: 9,600 units asked in any 24h, and 10,000 then, 400 more than the 9,600 for jobs", "trending every 1h12m instead of 1h"},
		{"a day of 24 hours in UTC", inZone(t, dailyOf(9_600, 0), quota.Day, "UTC"), []*jobs.Job{job(t, "trending", 100, "every 1h", lists(4))}, 0,
			"fits: 9,600 of 9,600 units asked each day in UTC, 0 left", ""},
		{"a day of 25 hours in California", inZone(t, dailyOf(9_600, 0), quota.Day, "America/Los_Angeles"), []*jobs.Job{job(t, "trending", 100, "every 1h", lists(4))}, 0,
			"does not fit: 10,000 units asked each day in America/Los_Angeles, 400 more than the 9,600 for jobs", "trending every 1h12m instead of 1h"},
		{"and enough for it", inZone(t, dailyOf(10_000, 0), quota.Day, "America/Los_Angeles"), []*jobs.Job{job(t, "trending", 100, "every 1h", lists(4))}, 0,
			"fits: 10,000 of 10,000 units asked each day in America/Los_Angeles, 0 left", ""},
		{"a month of 31 days", inZone(t, dailyOf(3_000, 0), quota.Month, "UTC"), []*jobs.Job{job(t, "report", 1, "0 6 * * *", searches(1))}, 0,
			"does not fit: 3,100 units asked each month in UTC, 100 more than the 3,000 for jobs", ""},
		{"once a month, beside a daily job", dailyOf(900, 0), []*jobs.Job{job(t, "daily", 5, "0 6 * * *", searches(1)), job(t, "monthly", 5, "0 7 1 * *", searches(1))}, 0,
			"does not fit: 1,000 units asked in any 24h, 100 more than the 900 for jobs", ""},
		{"on Mondays and on Thursdays", dailyOf(500, 0), []*jobs.Job{job(t, "a", 5, "0 6 * * 1", searches(1)), job(t, "b", 5, "0 6 * * 4", searches(1))}, 0,
			"fits: 500 of 500 units asked in any 24h, 0 left", ""},
		{"by hand alone", dailyOf(500, 0), []*jobs.Job{{Name: "backfill", Credential: "youtube", Regions: regions.Ring{"a"}, Schedule: jobs.Unscheduled{}, Expects: searches(9)}}, 0,
			"asks for none of its 500 units", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, j := range row.jobs {
				if j.Schedule != (jobs.Unscheduled{}) && (row.name == "on Mondays and on Thursdays" || row.name == "once a month, beside a daily job") {
					j.Stagger = 0
				}
			}
			others := func(string, int) quota.Units { return row.others }
			f := CheckFit(row.jobs, []*quota.Credential{row.of}, noon, others)[0]
			if got := f.String(); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
			sum := f.Others
			for _, s := range f.Shares {
				sum += s.Demand
			}
			if sum != f.Demand {
				t.Errorf("the shares are %+v, and together %d, not %d", f.Shares, sum, f.Demand)
			}
			if got := cmp.Or(f.Change, &Change{}); row.cure != "" && got.String() != row.cure {
				t.Errorf("got %q, want %q", got, row.cure)
			} else if row.cure == "" && f.Change != nil {
				t.Errorf("got %q, want no change", f.Change)
			}
		})
	}
}

// A played schedule is one of some jobs on a limit, on the real ledger at a clock of the test's.
type played struct {
	*testing.T
	credential *quota.Credential
	jobs       []*jobs.Job
}

// randomSchedule is up to three jobs and two limits, of which the second counts searches alone.
func randomSchedule(t *testing.T, random *rand.Rand) *played {
	c := dailyOf(1, 0)
	window := []quota.Window{quota.Sliding(time.Hour), quota.Sliding(5 * time.Hour), quota.Sliding(day), quota.Calendar(quota.Day, time.UTC),
		quota.Anchored(7*time.Hour, time.Date(2026, 1, 1, 11, 30, 15, 0, time.UTC))}[random.IntN(5)]
	c.Limits[0].Window = window
	c.Limits = append(c.Limits, quota.Limit{Name: "search", Units: 1, Window: quota.Sliding(2 * time.Hour), Only: []string{"search.list"}})
	p := &played{T: t, credential: c}
	for i := range 1 + random.IntN(3) {
		schedule := []string{"every 15m", "every 20m", "every 1h", "every 90m", "*/10 * * * *", "30 */2 * * *"}[random.IntN(4+2*min(i, 1))] // the first has an interval
		expects := map[string]quota.Units{"videos.list": 1 + quota.Units(random.IntN(5))}
		if random.IntN(3) == 0 {
			expects["search.list"] = 1
		}
		j := job(t, fmt.Sprint("job", i), 1+random.IntN(12), schedule, expects)
		j.Timeout, j.Stagger = time.Second, []time.Duration{0, jobs.EvenStagger, 30 * time.Second}[random.IntN(3)]
		p.jobs = append(p.jobs, j)
	}
	return p
}

func (p *played) fits() []Fit { return CheckFit(p.jobs, []*quota.Credential{p.credential}, noon, nil) }

// play launches every pass of two and a half days, each at most late after its start, and returns the
// limits that refused one.
func (p *played) play(late func() time.Duration) (refused []string) {
	p.Helper()
	type pass struct {
		at  time.Time
		job *jobs.Job
	}
	var passes []pass
	for _, j := range p.jobs {
		for at := j.Schedule.Next(noon.Add(-1)); at.Before(noon.Add(60 * time.Hour)); at = j.Schedule.Next(at) {
			stagger := j.StaggerWithin(j.Schedule.Next(at).Sub(at), len(j.Regions))
			for i := range j.Regions {
				passes = append(passes, pass{regions.Start(at, stagger, i).Add(late()), j})
			}
		}
	}
	slices.SortStableFunc(passes, func(a, b pass) int { return a.at.Compare(b.at) })
	clock := ledgertest.NewClock(noon)
	ledger := slidinglog.Open(slidinglog.Config{Engine: slidinglog.NewMemory(clock.Now), Dir: p.TempDir(), Unsynced: true, Manual: true})
	defer ledger.Close()
	if err := ledger.SetCredentials([]*quota.Credential{p.credential}, nil); err != nil {
		p.Fatal(err)
	}
	service, err := quota.NewService(ledger, []*quota.Credential{p.credential}, time.Minute)
	if err != nil {
		p.Fatal(err)
	}
	for _, one := range passes {
		clock.Set(one.at)
		if d, err := service.Peek(p.Context(), "youtube", one.job.Calls(), nil, false); err != nil {
			p.Fatal(err)
		} else if !d.Granted() {
			refused = append(refused, d.Limit)
			continue
		}
		for operation, n := range one.job.Expects {
			if d, err := service.Acquire(p.Context(), quota.Request{Credential: "youtube", Operation: operation, Count: n, Caller: quota.Caller{Job: one.job.Name}}); err != nil || !d.Granted() {
				p.Fatalf("%+v, %v", d, err)
			}
		}
	}
	return refused
}

// What the sum says happens on the ledger: five schedules that fit to the unit are never refused, though
// passes are late; with 1 % less each is, at the limit that was named; and at the interval that was
// offered it fits again.
func TestSumIsWhatHappens(t *testing.T) {
	random := rand.New(rand.NewPCG(seedtest.Seed(t, 1), 0))
	offered := 0
	for i := range 3 {
		p := randomSchedule(t, random)
		for n, f := range p.fits() {
			p.credential.Limits[n].Units = max(1, f.AtWorst)
		}
		for _, f := range p.fits() {
			if !f.Fits {
				t.Fatalf("schedule %d does not fit what it asks for: %s", i, &f)
			}
		}
		if refused := p.play(func() time.Duration { return time.Duration(random.IntN(1000)) * time.Millisecond }); len(refused) > 0 {
			t.Errorf("schedule %d fits, and was refused by %q", i, refused)
		}

		limit := &p.credential.Limits[0]
		limit.Units = p.fits()[0].Demand * 99 / 100
		f := p.fits()[0]
		if f.FitsOnTime() {
			t.Fatalf("schedule %d asks for %d of %d, and fits", i, f.Demand, limit.Units)
		}
		if refused := p.play(func() time.Duration { return 0 }); !slices.Contains(refused, limit.Name) {
			t.Errorf("schedule %d does not fit %s (%s), and was refused by %q", i, limit.Name, &f, refused)
		}

		if f.Change == nil {
			continue
		}
		offered++
		changed := p.jobs[slices.IndexFunc(p.jobs, func(j *jobs.Job) bool { return j.Name == f.Change.Job })]
		to, err := time.ParseDuration(strings.ReplaceAll(f.Change.To, "d", "h"))
		if strings.HasSuffix(f.Change.To, "d") {
			to *= 24
		}
		if err != nil {
			t.Fatal(err)
		}
		changed.Schedule = jobs.Every{Period: to}
		if f := p.fits()[0]; !f.Fits {
			t.Errorf("schedule %d: %s was offered, and it %s", i, changed.Schedule, &f)
		}
		if refused := p.play(func() time.Duration { return 0 }); slices.Contains(refused, limit.Name) {
			t.Errorf("schedule %d: %s was offered, and was refused", i, changed.Schedule)
		}
	}
	if offered < 2 {
		t.Errorf("%d of 3 were offered an interval: this says little", offered)
	}
}

// Sixty jobs of a hundred regions and five limits are summed up within a tenth of a second: what this
// costs is measured by BenchmarkFits.
func BenchmarkFits(b *testing.B) {
	c := dailyOf(1_000_000, 0)
	for i := range 4 {
		c.Limits = append(c.Limits, quota.Limit{Name: fmt.Sprint("limit", i), Units: 1_000_000, Window: quota.Sliding(day)})
	}
	for _, every := range []time.Duration{time.Hour, 15 * time.Minute} {
		b.Run(every.String(), func(b *testing.B) {
			var list []*jobs.Job
			for i := range 60 {
				j := &jobs.Job{Name: fmt.Sprint("job", i), Credential: "youtube", Schedule: jobs.Every{Period: every, Phase: time.Duration(i) * time.Second}, Stagger: jobs.EvenStagger, Expects: lists(4), Timeout: time.Minute, KillGrace: time.Second}
				for n := range 100 {
					j.Regions = append(j.Regions, regions.Region(fmt.Sprint(n)))
				}
				list = append(list, j)
			}
			for b.Loop() {
				CheckFit(list, []*quota.Credential{c}, noon, nil)
			}
		})
	}
}

// must fails a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
