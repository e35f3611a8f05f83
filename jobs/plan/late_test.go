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

// A fit is what somebody finds who puts each pass where it does most harm, within
// its lateness. A schedule that fits never runs dry, one that does not fit on time does.
func TestFitsHold(t *testing.T) {
	fitting, dry := 0, 0
	eachSeed(t, 12, func(s *scenario) {
		fits := CheckFit(s.jobs, s.credentials(), noon)
		spans := s.spans(75 * time.Hour)
		all, someNever := true, false
		for i, f := range fits {
			if f.Fits != (f.AtWorst <= f.Budget) || f.Demand > f.AtWorst || f.Estimated {
				t.Fatalf("seed %d: %+v contradicts itself", s.seed, f)
			}
			worst := s.worst(spans, i)
			if worst > f.AtWorst || worst < f.AtWorst && s.isDaily() {
				t.Fatalf("seed %d: %+v, but %d may come together", s.seed, f, worst)
			}
			all, someNever = all && f.Fits, someNever || !f.FitsOnTime()
		}
		p := Simulate(s.input(), noon.Add(9*24*time.Hour))
		if all && p.Skipped > 0 || someNever && p.Skipped == 0 {
			t.Fatalf("seed %d: %+v, but %d turns are lost", s.seed, fits, p.Skipped)
		}
		if all {
			fitting++
		}
		if someNever {
			dry++
		}
	})
	if fitting == 0 || dry == 0 {
		t.Errorf("%d scenarios fit, %d do not: they are all alike", fitting, dry)
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
	charges, err := s.credential.Sum(j.Expects)
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
	var most quota.Units
	periods := make([]string, len(spans))
	for i, p := range spans {
		periods[i] = periodAt(w, p.to)
	}
	for _, now := range spans {
		period := periodAt(w, now.from)
		var sum quota.Units
		for i, p := range spans {
			if p.from > now.from {
				break
			}
			if counts := p.to > now.from-w.Length.Milliseconds(); w.IsCalendar() && periods[i] >= period || !w.IsCalendar() && counts {
				sum += p.units[limit]
			}
		}
		most = max(most, sum)
	}
	return most
}
