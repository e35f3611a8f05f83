package plan

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"quotad/jobs"
	"quotad/quota"
)

// Runs that reach beyond the end of a day: two passes of late fall on its evening
// and six on the day after, where all eight of noon are, too.
func TestFitOfRunsBeyondMidnight(t *testing.T) {
	late, noon := trending(t), trending(t)
	late.Name, late.Stagger = "late", 30*time.Minute
	late.Schedule = weekly{[]time.Weekday{time.Monday, time.Tuesday}, 23 * time.Hour}
	noon.Name, noon.Stagger = "noon", 30*time.Minute
	noon.Schedule = weekly{[]time.Weekday{time.Wednesday, time.Thursday}, 12*time.Hour + 30*time.Minute}
	late.Expects, noon.Expects = map[string]quota.Units{"videos.list": 1}, map[string]quota.Units{"videos.list": 1}
	for _, row := range []struct {
		budget quota.Units
		fits   bool
	}{{8, false}, {13, false}, {14, true}} {
		c := dailyOf(row.budget, 0)
		c.Limits[0].Window = quota.Calendar(quota.Day, time.UTC)
		p := simulate(week, []*quota.Credential{c}, late, noon)
		l := p.Limits[0]
		if l.Demand != 14 || l.AtWorst != 14 || l.Fits != row.fits {
			t.Errorf("%d a day: got %+v, want a demand of 14", row.budget, l.Fit)
		}
		if l.DryAt.IsZero() != row.fits {
			t.Errorf("%d a day: dry at %v though it fits: %v", row.budget, l.DryAt, l.Fits)
		}
		if row.fits != (len(l.Changes) == 0) {
			t.Errorf("%d a day: got the changes %v", row.budget, l.Changes)
		}
	}
}

// once is a schedule with a single slot.
type once time.Time

func (o once) Next(t time.Time) time.Time {
	if slot := time.Time(o); slot.After(t) {
		return slot
	}
	return time.Time{}
}

func (o once) String() string { return "once" }

// A run that is too much by itself does not fit, however rarely it comes.
func TestFitOfARareRun(t *testing.T) {
	job := trending(t)
	job.Schedule, job.Expects = once(noon.Add(100*24*time.Hour)), map[string]quota.Units{"videos.list": 1}
	f := CheckFit([]*jobs.Job{job}, []*quota.Credential{dailyOf(7, 0)}, noon)[0]
	if f.Demand != 8 || f.AtWorst != 8 || f.Fits || f.Shares[0].MostRegions != 7 {
		t.Errorf("got %+v, want eight passes where there is room for seven", f)
	}
}

// A fit is what somebody finds who puts each pass where it does most harm, within
// its lateness. A schedule that fits never runs dry, one that does not fit on time does.
func TestFitsHold(t *testing.T) {
	fitting, dry := 0, 0
	eachSeed(t, 12, func(s *scenario) {
		spans := s.spans(75 * time.Hour)
		all, some := true, false // all fit, some do not even if no pass is late
		for i, limit := range s.credential.Limits {
			d := newDemand(s.jobs, s.credential, limit, noon)
			got, onTime, worst := s.worst(spans, i), d.perWindow(peak(quota.MaxUnits, nil, d.onTime)), d.perWindow(peak(quota.MaxUnits, nil, d.late))
			if onTime > worst || got > worst || got < worst && s.isDaily() {
				t.Fatalf("seed %d: %d on time and %d at worst for %+v, but %d may come together", s.seed, onTime, worst, limit, got)
			}
			all = all && worst <= limit.Budget(false)
			if limit.Window.Length > 0 { // a simulation spends a moment after each pass began
				limit.Window.Length -= min(limit.Window.Length, time.Second) / 2
				d = newDemand(s.jobs, s.credential, limit, noon)
				onTime = peak(quota.MaxUnits, nil, d.onTime)
			}
			some = some || onTime > limit.Budget(false)
		}
		length := 3 * 24 * time.Hour
		if some {
			length = horizon + 26*time.Hour // all that was looked at
		}
		played := newSim(s.input(), noon.Add(length))
		played.play()
		if lost := played.plan.Skipped; all && lost > 0 || some && lost == 0 {
			t.Fatalf("seed %d: all fit: %v, some never do: %v, but %d turns are lost", s.seed, all, some, lost)
		}
		if all {
			fitting++
		}
		if some {
			dry++
		}
	})
	if fitting == 0 || dry == 0 {
		t.Errorf("%d scenarios fit, %d do not: they are all alike", fitting, dry)
	}
}

// The demand is what a played schedule comes to hold where no limit stops it: the sums
// and the simulation are of the same passes. A simulation spends a moment after each pass
// began, so that of two passes a window apart either may be the later one.
func TestDemandIsWhatIsPlayed(t *testing.T) {
	same, limits := 0, 0
	eachSeed(t, 8, func(s *scenario) {
		boundless := *s.credential
		boundless.Limits = slices.Clone(s.credential.Limits)
		for i := range boundless.Limits {
			boundless.Limits[i].Units, boundless.Limits[i].Reserve = quota.MaxUnits/4, 0
		}
		s.credential = &boundless
		played := newSim(s.input(), noon.Add(horizon+26*time.Hour))
		played.play()
		for i, limit := range boundless.Limits {
			demand := func(more time.Duration) quota.Units {
				l := limit
				if l.Window.Length > 0 {
					l.Window.Length += more
				}
				d := newDemand(s.jobs, &boundless, l, noon)
				return d.perWindow(peak(quota.MaxUnits, nil, d.onTime))
			}
			just, least, most := demand(0), demand(-time.Second/2), demand(time.Second/2)
			got := played.plan.Limits[i].Peak
			if got < least || got > most {
				t.Fatalf("seed %d: the simulation holds up to %d in %+v, the demand is %d to %d", s.seed, got, limit, least, most)
			}
			if limits++; got == just {
				same++
			}
		}
	})
	if same < limits/2 {
		t.Errorf("only %d of %d demands are just what is played", same, limits)
	}
}

// A span is one pass: it spends at some time between the two.
type span struct {
	from, to int64         // in milliseconds since the Unix epoch
	units    []quota.Units // in each limit
}

// spans returns every pass from noon on.
func (s *scenario) spans(length time.Duration) []span {
	var list []span
	for _, j := range s.jobs {
		for slot := j.Schedule.Next(noon); slot.Before(noon.Add(length)); slot = j.Schedule.Next(slot) {
			next := j.Schedule.Next(slot)
			stagger := j.Stagger
			if stagger == jobs.EvenStagger {
				stagger = next.Sub(slot) / time.Duration(len(j.Regions))
			}
			end := slot.UnixMilli() // when all before this one have taken their timeouts
			if longest := j.Timeout + j.KillGrace; stagger < longest {
				end += int64(len(j.Regions)) * longest.Milliseconds()
			}
			for i := range j.Regions {
				from := slot.Add(time.Duration(i) * stagger)
				to := max(end, from.Add(j.Timeout+j.KillGrace).UnixMilli())
				list = append(list, span{from.UnixMilli(), min(to, next.UnixMilli()-1), s.units(j)})
			}
		}
	}
	slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return list
}

// units returns what a pass costs in each limit.
func (s *scenario) units(j *jobs.Job) []quota.Units {
	s.Helper()
	charges, err := s.credential.Sum(j.Calls())
	if err != nil {
		s.Fatal(err)
	}
	list := make([]quota.Units, len(s.credential.Limits))
	for _, c := range charges {
		list[s.credential.Index(c.Limit)] = c.Units
	}
	return list
}

// worst returns the most that may be in a limit's window at once.
func (s *scenario) worst(spans []span, limit int) quota.Units {
	w := s.credential.Limits[limit].Window
	var longest int64
	periods := make([]string, len(spans)) // of their ends
	for i, p := range spans {
		longest = max(longest, p.to-p.from)
		periods[i] = periodAt(w, p.to)
	}
	var most quota.Units
	for now, last := range spans {
		at, period := last.from, periodAt(w, last.from)
		var sum quota.Units
		for i := now; i >= 0 && spans[i].from+longest+w.Span().Milliseconds() > at; i-- {
			counts := spans[i].to > at-w.Length.Milliseconds()
			if w.IsCalendar() {
				counts = periods[i] >= period
			}
			if counts {
				sum += spans[i].units[limit]
			}
		}
		most = max(most, sum)
	}
	return most
}

// Whatever passes do within their timeouts: what a run ends as late as it can, whether
// the next ones wait for it or are skipped, no window ever holds more than the worst.
func TestLatePassesStayWithin(t *testing.T) {
	late := 0
	eachSeed(t, 12, func(s *scenario) {
		for _, j := range s.jobs {
			j.Parallel = s.IntN(3)
		}
		played := s.lateRuns(75 * time.Hour)
		for i, limit := range s.credential.Limits {
			d := newDemand(s.jobs, s.credential, limit, noon)
			got, onTime, atWorst := s.worst(played, i), d.perWindow(peak(quota.MaxUnits, nil, d.onTime)), d.perWindow(peak(quota.MaxUnits, nil, d.late))
			if got > atWorst {
				t.Fatalf("seed %d: %d in one window of %+v, %d at worst", s.seed, got, limit, atWorst)
			}
			if got > onTime {
				late++
			}
		}
	})
	if late == 0 {
		t.Error("nothing was ever late: they are all alike")
	}
}

// lateRuns plays every job from noon on, with passes that take any time up to their
// timeouts and spend at any moment of it.
func (s *scenario) lateRuns(length time.Duration) []span {
	var list []span
	for _, j := range s.jobs {
		var over time.Time // of the run before
		lateness := s.Float64()
		for slot := j.Schedule.Next(noon); slot.Before(noon.Add(length)); slot = j.Schedule.Next(slot) {
			if slot.Before(over) {
				continue // skipped: runs do not overlap
			}
			stagger := j.StaggerWithin(j.Schedule.Next(slot).Sub(slot), len(j.Regions))
			free := make([]time.Time, max(1, j.Parallel)) // when each place is free again
			for i := range j.Regions {
				slices.SortFunc(free, time.Time.Compare)
				start := slot.Add(time.Duration(i) * stagger)
				if start.Before(free[0]) {
					start = free[0]
				}
				took := time.Duration(0)
				if s.Float64() < lateness {
					took = j.Timeout + j.KillGrace - time.Duration(s.IntN(2)*s.IntN(int(j.Timeout)))
				}
				free[0] = start.Add(took)
				spent := start.Add(time.Duration(s.IntN(2)) * took).UnixMilli()
				list = append(list, span{spent, spent, s.units(j)})
			}
			over = slices.MaxFunc(free, time.Time.Compare)
		}
	}
	slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return list
}

// The reserve is for jobs only where all that count in the limit use it; and a run that
// may spend so much is that many passes, however long its ring.
func TestFitOfReserveAndCap(t *testing.T) {
	for _, row := range []struct {
		name            string
		reserves        [2]bool
		capped          quota.Units
		budget, demand  quota.Units
		passes, stopped int
	}{
		{"nobody uses the reserve", [2]bool{false, false}, 0, 300, 384, 0, 0},
		{"one of the two", [2]bool{true, false}, 0, 300, 384, 0, 0},
		{"both", [2]bool{true, true}, 0, 384, 384, 2 * (23*8 + 1), 0},
		{"runs of half of the ring", [2]bool{true, true}, 4, 384, 192, 2 * (23*4 + 1), 2 * 23},
	} {
		t.Run(row.name, func(t *testing.T) {
			one, two := trending(t), trending(t)
			two.Name = "other"
			for i, job := range []*jobs.Job{one, two} {
				job.Timeout, job.KillGrace = time.Minute, time.Second
				job.Expects, job.UseReserve, job.UnitsPerRun = map[string]quota.Units{"videos.list": 1}, row.reserves[i], row.capped
			}
			// 23 runs, and the first pass of the last one.
			p := simulate(24*time.Hour+time.Second, []*quota.Credential{dailyOf(384, 84)}, one, two)
			l := p.Limits[0]
			if l.Budget != row.budget || l.Demand != row.demand || l.FitsOnTime() != (row.demand <= row.budget) {
				t.Errorf("got %+v, want a demand of %d, and %d for it", l.Fit, row.demand, row.budget)
			}
			if dry := l.Skipped > 0; dry == l.FitsOnTime() {
				t.Errorf("got %d turns lost, which fits on time: %v", l.Skipped, l.FitsOnTime())
			}
			if l.FitsOnTime() && (p.Passes != row.passes || p.Jobs[0].Stopped+p.Jobs[1].Stopped != row.stopped) {
				t.Errorf("got %d passes, want %d, and %d runs that end early: %+v", p.Passes, row.passes, row.stopped, p.Jobs)
			}
		})
	}
}
