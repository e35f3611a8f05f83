package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"quotad/jobs"
	"quotad/jobs/scheduler"
	"quotad/quota"
	"quotad/regions"
)

// ring has n regions.
func ring(n int) (list regions.Ring) {
	for i := range n {
		list = append(list, regions.Region(fmt.Sprint("r", i)))
	}
	return list
}

func credential(limits ...quota.Limit) *quota.Credential {
	return &quota.Credential{Name: "api", Limits: limits, Operations: map[string]quota.Cost{"list": {Every: 1}}}
}

func cron(t *testing.T, line, zone string) jobs.Schedule {
	t.Helper()
	in, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	s, err := scheduler.ParseCron(line, in)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSum(t *testing.T) {
	sliding := func(name string, units quota.Units, w time.Duration) quota.Limit {
		return quota.Limit{Name: name, Units: units, Window: quota.Sliding(w)}
	}
	berlin, _ := time.LoadLocation("Europe/Berlin")
	daily := sliding("daily", 100, day)
	berlinDay := quota.Limit{Name: "daily", Units: 100, Window: quota.Calendar(quota.Day, berlin)}
	job := func(name string, s jobs.Schedule, n int) *jobs.Job {
		return &jobs.Job{Name: name, Credential: "api", Regions: ring(n), Schedule: s, Expects: map[string]quota.Units{"list": 1}}
	}
	hourly := jobs.Every{Period: time.Hour}
	with := func(j *jobs.Job, change func(*jobs.Job)) *jobs.Job { change(j); return j }
	share := quota.Limit{Name: "share", Units: 10, Window: quota.Sliding(time.Hour), Jobs: []string{"fill"}}
	reserved := daily
	reserved.Reserve = 10
	for _, row := range []struct {
		name   string
		limits []quota.Limit
		list   []*jobs.Job
		want   string // of each limit
	}{
		{"a job", []quota.Limit{daily}, []*jobs.Job{job("a", hourly, 4)}, "fits: 96 of 100 units asked in any 24h, 4 left: a 96 (24 runs)"},
		{"two jobs, the greater first", []quota.Limit{daily}, []*jobs.Job{job("a", jobs.Every{Period: day}, 5), job("b", hourly, 4)},
			"does not fit: 101 units asked in any 24h, 1 more than the 100 for jobs: b 96 (24 runs), a 5 (1 run)"},
		{"the reserve", []quota.Limit{reserved}, []*jobs.Job{job("a", hourly, 4)},
			"does not fit: 96 units asked in any 24h, 6 more than the 90 for jobs: a 96 (24 runs)"},
		{"the reserve, for a job that may use it", []quota.Limit{reserved},
			[]*jobs.Job{with(job("a", hourly, 4), func(j *jobs.Job) { j.UseReserve = true })},
			"fits: 96 of 100 units asked in any 24h, 4 left: a 96 (24 runs)"},
		{"weekly jobs of two days", []quota.Limit{daily}, []*jobs.Job{job("mon", cron(t, "0 9 * * 1", "UTC"), 60), job("thu", cron(t, "0 9 * * 4", "UTC"), 60)},
			"fits: 60 of 100 units asked in any 24h, 40 left: mon 60 (1 run)"},
		{"a yearly line beside an hourly one", []quota.Limit{daily},
			[]*jobs.Job{job("a", cron(t, "0 * * * *", "UTC"), 4), job("b", cron(t, "0 0 24 12 *", "UTC"), 5)},
			"does not fit: 101 units asked in any 24h, 1 more than the 100 for jobs: a 96 (24 runs), b 5 (1 run)"},
		{"a line of the end of the month", []quota.Limit{daily},
			[]*jobs.Job{job("a", cron(t, "0 9 28-30 * *", "UTC"), 4)},
			"fits: 4 of 100 units asked in any 24h, 96 left: a 4 (1 run)"},
		{"a monthly line in a short month",
			[]quota.Limit{{Name: "monthly", Units: 100, Window: quota.Calendar(quota.Month, time.UTC)}},
			[]*jobs.Job{job("a", cron(t, "0 9 1 * *", "UTC"), 60)},
			"fits: 60 of 100 units asked each month in UTC, 40 left: a 60 (1 run)"},
		{"a zone without summer time has no day of 25 hours",
			[]quota.Limit{{Name: "daily", Units: 100, Window: quota.Calendar(quota.Day, time.UTC)}},
			[]*jobs.Job{job("a", hourly, 4), job("b", jobs.Every{Period: day}, 1)},
			"fits: 97 of 100 units asked each day in UTC, 3 left: a 96 (24 runs), b 1 (1 run)"},
		{"a day of 25 hours is a note", []quota.Limit{berlinDay}, []*jobs.Job{job("a", hourly, 4), job("b", jobs.Every{Period: day}, 1)},
			"fits: 97 of 100 units asked each day in Europe/Berlin; a day of 25 hours asks for 102: a 96 (24 runs), b 1 (1 run)"},
		{"a pace", []quota.Limit{sliding("minute", 3, time.Minute)}, []*jobs.Job{with(job("a", hourly, 4), func(j *jobs.Job) { j.MaxWait = time.Minute })},
			"is held back: 4 of 3 units asked in any 1m: a 4 (1 run)"},
		{"a job asks for no more than its share", []quota.Limit{sliding("daily", 300, day), share}, []*jobs.Job{job("fill", hourly, 40), job("a", jobs.Every{Period: day}, 60)},
			"fits: 300 of 300 units asked in any 24h, 0 left: fill 240 (24 runs), a 60 (1 run)\nis held back: 40 of 10 units asked in any 1h: fill 40 (1 run)"},
		{"a run takes from a share once, whose window is shorter than the period",
			[]quota.Limit{sliding("daily", 240, day), {Name: "pace", Units: 10, Window: quota.Sliding(55 * time.Minute), Jobs: []string{"fill"}}},
			[]*jobs.Job{job("fill", hourly, 40)},
			"fits: 240 of 240 units asked in any 24h, 0 left: fill 240 (24 runs)\nis held back: 40 of 10 units asked in any 55m: fill 40 (1 run)"},
		{"even passes", []quota.Limit{sliding("daily", 28, day)}, []*jobs.Job{with(job("a", jobs.Every{Period: 7 * time.Hour}, 8), func(j *jobs.Job) { j.Stagger = jobs.EvenStagger })},
			"fits: 28 of 28 units asked in any 24h, 0 left: a 28 (4 runs)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var got []string
			for _, f := range Sum(row.list, []*quota.Credential{credential(row.limits...)}) {
				got = append(got, f.String()+": "+f.ByJob())
			}
			if strings.Join(got, "\n") != row.want {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), row.want)
			}
		})
	}
}

// Others are said to use a limit up only if they do so before the schedule would.
func TestUsedUp(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	sliding, calendar := quota.Sliding(day), quota.Calendar(quota.Day, time.UTC)
	for _, row := range []struct {
		name         string
		window       quota.Window
		used, demand quota.Units // of 1,000
		others       float64     // an hour
		coming       map[int]quota.Units
		want         string
	}{
		{"nobody else", sliding, 600, 600, 0, nil, ""},
		{"a loop, beside jobs that have spent what they ask", sliding, 600, 600, 120, nil, "15:20"},
		{"jobs that have more to spend", sliding, 0, 600, 120, map[int]quota.Units{60: 600}, "15:20"},
		{"others that always spend so much leave room", sliding, 900, 600, 16, nil, ""},
		{"not within a day", sliding, 300, 0, 29, nil, ""},
		{"a period that ends before", calendar, 0, 0, 80, nil, ""},
		{"and one that does not", calendar, 400, 0, 80, nil, "19:30"},
		{"a schedule that does not fit does the same", sliding, 600, 2400, 10, map[int]quota.Units{60: 400}, ""},
		{"and others before it", sliding, 600, 2400, 1200, map[int]quota.Units{60: 400}, "12:20"},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := quota.LimitState{Limit: quota.Limit{Name: "daily", Units: 1000, Window: row.window}, Used: row.used}
			coming := make([]quota.Units, 24*60)
			for at, units := range row.coming {
				coming[at] = units
			}
			fit := Fit{Demand: row.demand, Budget: 1000, Fits: row.demand <= 1000}
			got := ""
			if at := usedUp(l, fit, row.others, coming, now); !at.IsZero() {
				got = at.Format("15:04")
			}
			if got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

// Of what a job spent its slots explain some, and all once its run has ended.
func TestRateOf(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC)
	c := credential(quota.Limit{Name: "daily", Units: 1000, Window: quota.Sliding(day)})
	var list []*jobs.Job
	for _, name := range []string{"loop", "ended"} {
		list = append(list, &jobs.Job{Name: name, Credential: "api", Regions: ring(4),
			Schedule: jobs.Every{Period: time.Hour}, Expects: map[string]quota.Units{"list": 1}})
	}
	states := []jobs.JobState{{Job: list[0], Runs: true}, {Job: list[1]}}
	spent := map[spender]quota.Units{
		{"loop", "daily"}: 208, {"loop", "search"}: 9, {"ended", "daily"}: 500, {"@0", "daily"}: 20,
	}
	l := quota.LimitState{Limit: c.Limits[0], Used: 750}
	fit := Fit{Credential: "api", Limit: "daily", Demand: 192, Budget: 1000, Fits: true}
	r := rateOf(l, fit, c, states, spent, now)
	// 8 of the loop are of its slot and of one that was late; 250 are left at 220 an hour.
	if r.PerHour != 728 || r.Spender != "loop" || r.Beyond != 200 || !r.GoneAt.Equal(now.Add(69*time.Minute)) {
		t.Errorf("got %+v, want 200 beyond the schedule by the loop, and nothing left in 69 minutes", r)
	}
	closed, observed := l, l
	closed.Closed.Until, observed.DryRun = now.Add(time.Hour), true
	for _, l := range []quota.LimitState{closed, observed} {
		if r := rateOf(l, fit, c, states, spent, now); !r.GoneAt.IsZero() || r.PerHour != 728 {
			t.Errorf("got %+v of a limit that is closed, or refuses nothing", r)
		}
	}
	states[0].Pause, states[1].Pause = &jobs.Pause{}, &jobs.Pause{Until: now.Add(20 * time.Minute)}
	l.Used, fit.Fits = 975, false
	if r := rateOf(l, fit, c, states, map[spender]quota.Units{{"@0", "daily"}: 40}, now); !r.GoneAt.Equal(now.Add(32 * time.Minute)) {
		t.Errorf("got %+v, want 25 left to @0, and 4 to the job whose pause ends", r)
	}
}
