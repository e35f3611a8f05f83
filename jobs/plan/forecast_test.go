package plan

import (
	"testing"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/ledgertest"
)

// A ledgerAt is a service on a ledger at a clock of the test's.
type ledgerAt struct {
	*testing.T
	*quota.Service
	clock *ledgertest.Clock
}

func openAt(t *testing.T, at time.Time, c *quota.Credential) *ledgerAt {
	t.Helper()
	clock := ledgertest.NewClock(at)
	service, err := quota.NewService(ledgertest.NewModel(clock.Now), []*quota.Credential{c}, time.Minute)
	must(t, err)
	return &ledgerAt{t, service, clock}
}

// spend makes calls of a job, or outside any.
func (l *ledgerAt) spend(job string, calls quota.Units) quota.Decision {
	l.Helper()
	d, err := l.Acquire(l.Context(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: calls, Caller: quota.Caller{Job: job}})
	if err != nil || !d.Granted() {
		l.Fatalf("%+v, %v", d, err)
	}
	return d
}

// foresee returns the forecast of the first limit.
func (l *ledgerAt) foresee(states ...jobs.JobState) Forecast {
	l.Helper()
	p, err := readPast(l.Context(), l.Service, l.Credentials()[0])
	if err != nil {
		l.Fatal(err)
	}
	return foresee(p, states)[0]
}

// goneIn holds that a limit is used up that long after now, give or take two minutes; 0: not within a day.
func (l *ledgerAt) goneIn(f Forecast, want time.Duration) {
	l.Helper()
	if f.GoneAt.IsZero() != (want == 0) {
		l.Fatalf("gone at %v, want in %v", f.GoneAt, want)
	}
	if got := f.GoneAt.Sub(l.clock.Now()); want > 0 && (got-want).Abs() > min(2*time.Minute, want/10) {
		l.Errorf("gone in %v, want %v", got, want)
	}
}

// Spending of callers that are no job, in each hour before noon as many units as listed, at its
// middle: a limit is gone when it would be if they went on as in the last hour.
func TestForecastOfOthers(t *testing.T) {
	sliding, calendar := quota.Sliding(day), quota.Calendar(quota.Day, time.UTC)
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
		goneIn  time.Duration
	}{
		{"nothing of late", sliding, map[int]quota.Units{5: 9_000}, 0, 0},
		{"evenly, and it may go on", sliding, evenly(385), 385, 0},
		{"a burst this morning", sliding, map[int]quota.Units{3: 8_700, 0: 300}, 300, 100 * time.Minute},
		{"a burst yesterday leaves before", sliding, map[int]quota.Units{23: 8_700, 0: 300}, 300, 0},
		{"faster than yesterday", sliding, map[int]quota.Units{0: 800}, 800, 10*time.Hour + 53*time.Minute},
		{"a trickle", sliding, map[int]quota.Units{0: 1}, 1, 0},
		{"a day that ends before", calendar, map[int]quota.Units{0: 400}, 400, 0},
		{"a day that does not", calendar, map[int]quota.Units{3: 4_000, 0: 800}, 800, 5*time.Hour + 53*time.Minute},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := dailyOf(10_000, 500)
			c.Limits[0].Window = row.window
			l := openAt(t, noon.Add(-day), c)
			for ago := 23; ago >= 0; ago-- {
				l.clock.Set(noon.Add(-time.Duration(ago)*time.Hour - 30*time.Minute))
				if units := row.spent[ago]; units > 0 {
					l.spend("", 1)
					if units > 1 {
						l.spend("", units-1)
					}
				}
			}
			l.clock.Set(noon)
			f := l.foresee()
			if f.PerHour != row.perHour {
				t.Errorf("%d in the last hour, want %d", f.PerHour, row.perHour)
			}
			l.goneIn(f, row.goneIn)
			if calendar := row.window.Restarts(); calendar == f.ResetsAt.IsZero() {
				t.Errorf("it resets at %v", f.ResetsAt)
			}
		})
	}
	short := dailyOf(10_000, 500)
	short.Limits[0].Window = quota.Sliding(30 * time.Minute)
	p, err := readPast(t.Context(), openAt(t, noon, short).Service, short)
	if got := foresee(p, nil); err != nil || len(got) > 0 {
		t.Errorf("of half an hour an hour says nothing: %+v, %v", got, err)
	}
}

// What an operator booked is no rate: it counts as used, and is not spent again in
// each hour to come. What was settled is.
func TestForecastWithoutBookings(t *testing.T) {
	for _, row := range []struct {
		name    string
		calls   quota.Units
		settled quota.Units // of the calls; below zero: they are not
		booked  quota.Units
		perHour quota.Units
		goneIn  time.Duration
	}{
		{"booked alone", 0, -1, 5_000, 0, 0},
		{"booked beside calls that may go on", 100, -1, 5_000, 100, 0},
		{"booked beside calls that may not", 500, -1, 5_000, 500, 8 * time.Hour},
		{"settled to more", 100, 800, 0, 800, 10*time.Hour + 53*time.Minute},
		{"released", 800, 0, 5_000, 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := openAt(t, noon.Add(-30*time.Minute), dailyOf(10_000, 500))
			if row.calls > 0 {
				d := l.spend("", row.calls)
				if row.settled >= 0 {
					if _, err := l.Settle(t.Context(), d.GrantID, quota.Settlement{Units: row.settled}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if row.booked != 0 {
				if _, err := l.Book(t.Context(), "youtube", quota.Booking{Limit: "daily", Units: row.booked, Note: "spent elsewhere"}); err != nil {
					t.Fatal(err)
				}
			}
			l.clock.Set(noon)
			f := l.foresee()
			if f.PerHour != row.perHour {
				t.Errorf("%d in the last hour, want %d", f.PerHour, row.perHour)
			}
			// A single large call of that hour: what is left of the budget ends with the last that fits.
			if row.goneIn > 0 {
				least := time.Hour * time.Duration(max(row.settled, min(row.calls, row.perHour))) / time.Duration(row.perHour)
				if got := f.GoneAt.Sub(noon); f.GoneAt.IsZero() || got < row.goneIn-least-2*time.Minute || got > row.goneIn+2*time.Minute {
					t.Errorf("gone in %v, want %v or up to a call earlier", got, row.goneIn)
				}
			} else if !f.GoneAt.IsZero() {
				t.Errorf("gone at %v, want it to last", f.GoneAt)
			}
		})
	}
}

// A loop spends 200 units a second: that is what is foreseen, while it runs. Once it is stopped,
// nothing is.
func TestForecastOfALoop(t *testing.T) {
	loop := job(t, "loop", 1, "every 1h", lists(1))
	loop.Schedule = jobs.Unscheduled{}
	unknown := *loop
	unknown.Expects = nil
	for name, j := range map[string]*jobs.Job{"that expects little": loop, "that expects nothing": &unknown} {
		l := openAt(t, noon.Add(-6*time.Second), dailyOf(10_000, 500))
		r := &jobs.Run{Job: "loop", Slot: l.clock.Now(), StartedAt: l.clock.Now(), State: jobs.RunRunning, Ring: j.Regions,
			Passes: []jobs.Pass{{Region: j.Regions[0], Outcome: jobs.Running}}}
		for range 6 {
			l.spend("loop", 200)
			r.Passes[0].Units += 200
			l.clock.Add(time.Second)
		}
		f := l.foresee(jobs.JobState{Job: j, Run: r})
		if got := f.GoneAt.Sub(l.clock.Now()); got < 40*time.Second || got > 44*time.Second {
			t.Errorf("a loop %s: gone in %v, want 41.5s", name, got)
		}
		if f.Spender != "loop" || f.Rate != 720_000 {
			t.Errorf("a loop %s: %q spends %d an hour", name, f.Spender, f.Rate)
		}
		if f := l.foresee(jobs.JobState{Job: j}); !f.GoneAt.IsZero() || f.PerHour != 1200 {
			t.Errorf("a loop %s, stopped: gone at %v, %d in the last hour", name, f.GoneAt, f.PerHour)
		} else if f.Spender != "" {
			t.Errorf("a loop %s, stopped: %q spends", name, f.Spender)
		}
	}
}

// A caller outside jobs that has spent fast for a minute is not averaged over an hour.
func TestForecastOfTheLastMinute(t *testing.T) {
	l := openAt(t, noon.Add(-time.Minute+time.Second), dailyOf(10_000, 0))
	for range 50 {
		l.spend("", 20)
		l.clock.Add(time.Second)
	}
	l.clock.Set(noon)
	l.goneIn(l.foresee(), 9*time.Minute)
}

// A few calls by hand are no rate, those of a job neither. One unit a second is a loop as soon as it has spent a twentieth.
func TestForecastOfAFewCalls(t *testing.T) {
	manual := job(t, "manual", 1, "every 1h", nil)
	manual.Schedule = jobs.Unscheduled{}
	for _, by := range []string{"@bob", "manual"} {
		l := openAt(t, noon.Add(-2*time.Hour), dailyOf(1_000, 0))
		l.spend("@alice", 115)
		l.clock.Set(noon)
		state := jobs.JobState{Job: manual}
		state.Run = &jobs.Run{Job: "manual", Slot: noon, StartedAt: noon, State: jobs.RunRunning, Ring: manual.Regions}
		for range 7 {
			l.spend(by, 1)
			l.clock.Add(time.Second)
		}
		if f := l.foresee(state); !f.GoneAt.IsZero() || f.Rate > 7 {
			t.Errorf("7 units of %s: gone at %v, at %d an hour", by, f.GoneAt, f.Rate)
		}
		for range 43 {
			l.spend(by, 1)
			l.clock.Add(time.Second)
		}
		f := l.foresee(state)
		if got, most := f.GoneAt.Sub(l.clock.Now()), 17*time.Minute; got <= 0 || got > most {
			t.Errorf("50 units of %s: gone in %v, want within %v", by, got, most)
		}
		if f.Spender != by || f.Rate < 3_000 {
			t.Errorf("50 units of %s: %q spends %d an hour", by, f.Spender, f.Rate)
		}
	}
}

// A job that does not fit what is left now is refused, and that is no forecast. One that fits now and
// will not fit later is.
func TestForecastOfJobs(t *testing.T) {
	big, small := job(t, "big", 2, "every 1h", lists(300)), job(t, "small", 1, "every 1h", lists(40))
	for _, row := range []struct {
		name   string
		job    *jobs.Job
		spent  quota.Units
		goneIn time.Duration
		hours  []quota.Units
		larger string
	}{
		{"too large for what is left", big, 900, 0, []quota.Units{0, 0, 0, 0}, "big (300)"},
		{"not even in an empty window", job(t, "huge", 1, "every 1h", lists(1100)), 0, 0, []quota.Units{0, 0, 0, 0}, "huge (1,100)"},
		{"one that fits twice", big, 400, 2 * time.Hour, []quota.Units{0, 600, 0, 0}, ""},
		{"one that lasts two hours", small, 900, 3 * time.Hour, []quota.Units{0, 40, 40, 0}, ""},
		{"one that lasts", small, 0, 0, []quota.Units{0, 40, 40, 40}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := openAt(t, noon.Add(-time.Second), dailyOf(1_000, 0))
			if row.spent > 0 {
				l.spend("big", row.spent) // of another job of this daemon: it projects nothing
			}
			l.clock.Set(noon)
			states := []jobs.JobState{{Job: row.job}}
			if row.job.Name != "big" {
				states = append(states, jobs.JobState{Job: job(t, "big", 1, "every 1h", nil)})
			}
			f := l.foresee(states...)
			l.goneIn(f, row.goneIn)
			if f.TooLittle != row.larger {
				t.Errorf("too little for %q, want %q", f.TooLittle, row.larger)
			}
			for i, want := range row.hours {
				if f.Hours[i] != want {
					t.Fatalf("%d are spent in each hour, want %d", f.Hours, row.hours)
				}
			}
		})
	}
}

// Callers of whom each call costs more than is left use up nothing.
func TestForecastOfLargeCalls(t *testing.T) {
	l := openAt(t, noon.Add(-30*time.Minute), dailyOf(1_000, 0))
	for range 9 {
		l.spend("", 100)
	}
	l.spend("big", 4)
	l.clock.Set(noon)
	if f := l.foresee(jobs.JobState{Job: job(t, "big", 1, "every 1h", nil)}); !f.GoneAt.IsZero() || f.TooLittle != "calls (100)" {
		t.Errorf("gone at %v, too little for %q", f.GoneAt, f.TooLittle)
	}
}

// What is asked across a slot is counted once, wherever in its run the daemon is.
func TestForecastAcrossASlot(t *testing.T) {
	j := job(t, "trending", 4, "every 2h", lists(5))
	j.Stagger = 10 * time.Second
	passes := func(outcomes ...jobs.Outcome) *jobs.Run {
		r := &jobs.Run{Job: j.Name, Slot: noon, StartedAt: noon, State: jobs.RunRunning, Ring: j.Regions}
		for i, o := range outcomes {
			p := jobs.Pass{Region: j.Regions[i], Outcome: o}
			if o == jobs.OK {
				p.Units = 5
			}
			r.Passes = append(r.Passes, p)
		}
		return r
	}
	for _, row := range []struct {
		name  string
		at    time.Duration // after the slot
		spent quota.Units
		run   *jobs.Run
		want  quota.Units // used in the end, if the limit has it, an hour later
	}{
		{"a second before it", -time.Second, 0, nil, 20},
		{"at it, and the run has not begun to spend", 0, 0, passes(), 20},
		{"a pass is under way that has spent nothing", time.Second, 0, passes(jobs.Running), 20},
		{"a pass is over", 5 * time.Second, 5, passes(jobs.OK), 20},
		{"all are over but one", 35 * time.Second, 15, passes(jobs.OK, jobs.OK, jobs.OK), 20},
		{"the run is over", 40 * time.Second, 20, nil, 20},
		{"it was stopped after one", 40 * time.Second, 5, nil, 5},
	} {
		l := openAt(t, noon.Add(row.at), dailyOf(1_000, 0))
		if row.spent > 0 {
			l.spend(j.Name, row.spent)
		}
		f := l.foresee(jobs.JobState{Job: j, Run: row.run})
		if got := row.spent + f.Hours[0]; got != row.want {
			t.Errorf("%s: %d within the hour, want %d", row.name, got, row.want)
		}
	}
}

// A job that a narrow limit stops spends no more of the wide one, and a paused job nothing.
func TestForecastWithinLimits(t *testing.T) {
	j := job(t, "pages", 1, "every 1h", lists(100))
	c := dailyOf(1_000, 0)
	c.Limits = append(c.Limits, quota.Limit{Name: "cap", Units: 300, Window: quota.Sliding(day), Jobs: []string{"pages"}})
	states := []jobs.JobState{{Job: j}}
	l := openAt(t, noon.Add(30*time.Minute), c)
	if f := l.foresee(states...); !f.GoneAt.IsZero() || f.Hours[0] != 100 || f.Hours[2] != 100 || f.Hours[3] != 0 {
		t.Errorf("capped: gone at %v, %d", f.GoneAt, f.Hours)
	}
	states[0].Pause = &jobs.Pause{Until: noon.Add(150 * time.Minute)}
	if f := l.foresee(states...); f.Hours[0] != 0 || f.Hours[1] != 0 || f.Hours[2] != 100 {
		t.Errorf("paused: %d", f.Hours)
	}
}

// A log that is longer than anybody reads leaves its window evenly.
func TestForecastOfALongLog(t *testing.T) {
	p := &past{usage: quota.Usage{Now: noon, Limits: []quota.LimitState{{Limit: dailyOf(10_000, 0).Limits[0], Used: 2_400}}}, frees: [][]float64{make([]float64, steps)}}
	p.spread([]quota.Units{1_200}, noon.Add(-12*time.Hour))
	var freed float64
	for _, units := range p.frees[0][:6*perHour] {
		freed += units
	}
	if freed < 599 || freed > 601 {
		t.Errorf("%v of 1,200 leave in 6 of 12 hours, want half", freed)
	}
}

// What a job did not say is measured, what is not known is named, and so are jobs of other hosts.
func TestPlanNamesWhatItDoesNotCount(t *testing.T) {
	l := openAt(t, noon.Add(-time.Hour), dailyOf(10_000, 0))
	l.spend("", 100)
	l.spend("elsewhere", 50)
	l.spend("manual", 50) // of this daemon
	l.clock.Set(noon)
	p, err := readPast(t.Context(), l.Service, l.Credentials()[0])
	must(t, err)
	measured, unknown, manual := job(t, "measured", 2, "every 1h", nil), job(t, "unknown", 1, "every 1h", nil), job(t, "manual", 1, "every 1h", lists(50))
	manual.Schedule = jobs.Unscheduled{}
	states := []jobs.JobState{{Job: measured, Took: jobs.Made{"videos.list": 7}}, {Job: unknown}, {Job: manual}}
	ask := func(what ...WhatIf) *Plan {
		t.Helper()
		got, err := planOf(states, l.Credentials(), map[string]*past{"youtube": p}, what, noon)
		must(t, err)
		return got
	}
	got := ask()
	if f := got.Limits[0]; f.Demand != 24*2*7+100 || f.Others != 100 || len(f.Shares) != 1 {
		t.Errorf("got %+v, want 336 and the 100 of people", f)
	}
	for what, lists := range map[string][2][]string{"measured": {got.Measured, {"measured"}}, "unknown": {got.Unknown, {"unknown"}}, "elsewhere": {got.Elsewhere, {"elsewhere"}}} {
		if len(lists[0]) != 1 || lists[0][0] != lists[1][0] {
			t.Errorf("%s: got %q", what, lists[0])
		}
	}
	if f := ask(WhatIf{Job: "manual", At: noon.Add(3 * time.Hour)}).Limits[0]; f.Demand != 24*2*7+100+50 {
		t.Errorf("with one run more: %s", &f)
	}
	if f := ask(WhatIf{Job: "measured", Every: 30 * time.Minute}).Limits[0]; f.Demand != 48*2*7+100 {
		t.Errorf("at half the interval: %s", &f)
	}
	if manual.Schedule != (jobs.Unscheduled{}) || measured.Schedule != scheduleOf(t, "every 1h") {
		t.Error("the jobs themselves were changed")
	}
	if _, err := planOf(states, l.Credentials(), map[string]*past{"youtube": p}, []WhatIf{{Job: "manual", Every: time.Millisecond}}, noon); err == nil {
		t.Error("an interval of a millisecond is good")
	}
}
