package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"quotad/jobs"
	"quotad/quota"
)

const day = 24 * time.Hour

// A Fit says what the schedule asks of a limit in its window, if every pass spends what it expects to.
type Fit struct {
	Credential string      `json:"credential"`
	Limit      string      `json:"limit"`
	Window     string      `json:"window"`             // as quota.Window describes it
	Budget     quota.Units `json:"budget"`             // what jobs may spend in one window: units less reserve, unless all use that
	Demand     quota.Units `json:"demand"`             // the most that is asked for in one window
	LongDay    quota.Units `json:"long_day,omitempty"` // on a day of 25 hours, if only that is more than Budget
	Fits       bool        `json:"fits"`               // Demand is at most Budget
	Holds      bool        `json:"holds,omitempty"`    // it is there to hold its jobs back: they wait for it, or it is the share of one
	DryRun     bool        `json:"dry_run,omitempty"`
	Shares     []JobDemand `json:"shares"` // of Demand
}

// A JobDemand is what one job asks for in a window.
type JobDemand struct {
	Job    string      `json:"job"`
	Slots  int         `json:"slots"`
	Demand quota.Units `json:"demand"`
}

// Over returns by how much the schedule does not fit.
func (f *Fit) Over() quota.Units {
	if f.Fits || f.Holds || f.DryRun {
		return 0
	}
	return f.Demand - f.Budget
}

// String returns the verdict: "does not fit: 9,600 units asked in any 24h, 100 more than the 9,500 for jobs".
func (f *Fit) String() string {
	asked := fmt.Sprintf("%s of %s asked %s", quota.Thousands(f.Demand), f.Budget.Text(), f.Window)
	switch {
	case f.Demand == 0:
		return "asks for none of its " + f.Budget.Text()
	case !f.Fits && f.Holds:
		return "is held back: " + asked
	case !f.Fits:
		return fmt.Sprintf("does not fit: %s asked %s, %s more than the %s for jobs", f.Demand.Text(), f.Window,
			quota.Thousands(f.Demand-f.Budget), quota.Thousands(f.Budget))
	case f.LongDay > 0:
		return fmt.Sprintf("fits: %s; a day of 25 hours asks for %s", asked, quota.Thousands(f.LongDay))
	}
	return fmt.Sprintf("fits: %s, %s left", asked, quota.Thousands(f.Budget-f.Demand))
}

// Shortage says in a sentence that the schedule does not fit, and who asks.
func (f *Fit) Shortage() string {
	return fmt.Sprintf("%s %s: the schedule %s: %s", f.Credential, f.Limit, f, f.ByJob())
}

// ByJob names who asks for how much, the most first: "trending 9,600 (24 runs)".
func (f *Fit) ByJob() string {
	const named = 4
	var parts []string
	for _, s := range f.Shares[:min(named, len(f.Shares))] {
		parts = append(parts, fmt.Sprintf("%s %s (%s)", s.Job, quota.Thousands(s.Demand), quota.Count(s.Slots, "run", "runs")))
	}
	if n := len(f.Shares) - named; n > 0 {
		parts = append(parts, quota.Count(n, "more job", "more jobs"))
	}
	return strings.Join(parts, ", ")
}

// Sum returns for every limit of the credentials, in their order, what the jobs ask of it. Jobs without expects ask
// for nothing.
func Sum(list []*jobs.Job, credentials []*quota.Credential) []Fit {
	fits := []Fit{}
	for _, c := range credentials {
		var own []*scheduled
		for _, job := range list {
			if job.Credential == c.Name && !job.Schedule.Next(jobs.Reference).IsZero() {
				own = append(own, newScheduled(job, c))
			}
		}
		for _, limit := range c.Limits {
			fits = append(fits, fitOf(own, c, limit))
		}
	}
	return fits
}

// A scheduled is a job with what a pass costs, and the slots of a cron line.
type scheduled struct {
	*jobs.Job
	charges []quota.Charge
	slots   []int64 // in nanoseconds since the Unix epoch
}

// newScheduled reads the slots of 8 days and the longest window or, of a cron line that is due less often than weekly,
// of a year.
func newScheduled(job *jobs.Job, c *quota.Credential) *scheduled {
	s := &scheduled{Job: job}
	s.charges, _ = c.Sum(job.Calls()) // of an operation that the credential does not have, the configuration says so
	if _, isEvery := job.Schedule.(jobs.Every); isEvery {
		return s
	}
	first, until := job.Schedule.Next(jobs.Reference), jobs.Reference
	for _, limit := range c.Limits {
		until = quota.Later(until, jobs.Reference.Add(8*day+length(limit.Window)))
	}
	if job.Schedule.Next(first).Sub(first).Abs() > 7*day {
		until = jobs.Reference.Add(366 * day)
	}
	for ; !first.IsZero() && first.Before(until); first = job.Schedule.Next(first) {
		s.slots = append(s.slots, first.UnixNano())
	}
	return s
}

// length is that of a window's usual period.
func length(w quota.Window) time.Duration {
	if w.Period == quota.Month {
		return 31 * day
	}
	return w.Nominal()
}

// fitOf sums up what jobs ask of a limit. A job by every asks in each window for its most; those of cron lines are added
// up in the windows that begin with one of their slots.
func fitOf(own []*scheduled, c *quota.Credential, limit quota.Limit) Fit {
	f := Fit{Credential: c.Name, Limit: limit.Name, Window: limit.Window.Describe(), DryRun: limit.DryRun}
	reserve, waits, count := true, true, 0
	for _, s := range own {
		if units, _ := quota.ChargeIn(s.charges, limit.Name); units > 0 {
			reserve, waits, count = reserve && s.UseReserve, waits && limit.Window.Span() <= s.MaxWait, count+1
		}
	}
	f.Budget = limit.Budget(reserve && count > 0)
	f.Holds = count > 0 && waits || count == 1 && limit.IsShare()
	f.Demand, f.Shares = worst(own, c, limit, length(limit.Window))
	if f.Fits = f.Demand <= f.Budget; f.Fits && hasLongDay(limit.Window) {
		if long, _ := worst(own, c, limit, 25*time.Hour); long > f.Budget {
			f.LongDay = long
		}
	}
	return f
}

// worst returns the most that jobs ask of a limit in a window of a length, and who asks.
func worst(own []*scheduled, c *quota.Credential, limit quota.Limit, w time.Duration) (most quota.Units, shares []JobDemand) {
	shares = []JobDemand{}
	begins := []int64{jobs.Reference.UnixNano()}
	for _, s := range own {
		begins = append(begins, s.slots...)
	}
	slices.Sort(begins)
	last := int64(0)
	most = -1
	for _, from := range slices.Compact(begins) {
		if after, _ := limit.Window.Bounds(time.Unix(0, from)); limit.Window.Restarts() {
			from = after.UnixNano() + 1
		}
		sum := quota.Units(0)
		for _, s := range own {
			sum = min(sum+s.asks(c, limit, from, w).Demand, quota.MaxUnits)
		}
		if sum > most {
			most, last = sum, from
		}
	}
	for _, s := range own {
		if d := s.asks(c, limit, last, w); d.Demand > 0 {
			shares = append(shares, d)
		}
	}
	slices.SortStableFunc(shares, func(a, b JobDemand) int { return cmp.Compare(b.Demand, a.Demand) })
	return most, shares
}

// asks returns what the job asks of a limit in the window from an instant in nanoseconds, as far as the limits that hold it back let it.
func (s *scheduled) asks(c *quota.Credential, limit quota.Limit, from int64, w time.Duration) JobDemand {
	units, _ := quota.ChargeIn(s.charges, limit.Name)
	slots, passes, n := 0, 0, len(s.Regions)
	if every, ok := s.Schedule.(jobs.Every); ok {
		slots = int((w + every.Period - 1) / every.Period)
		last := n // passes of the last run in the window
		if stagger := s.StaggerWithin(every.Period, n); stagger > 0 {
			last = min(n, 1+int((w-1-time.Duration(slots-1)*every.Period)/stagger))
		}
		passes = (slots-1)*n + last
	} else {
		first, _ := slices.BinarySearch(s.slots, from)
		end, _ := slices.BinarySearch(s.slots, from+int64(w))
		slots = end - first
		passes = slots * n
	}
	for _, other := range c.Limits {
		isOwn := other.IsShare() && len(other.Jobs) == 1 || other.Window.Span() <= s.MaxWait
		if cost, _ := quota.ChargeIn(s.charges, other.Name); cost > 0 && isOwn && other.Name != limit.Name && !other.DryRun {
			times := (w + length(other.Window) - 1) / length(other.Window)
			passes = int(min(quota.Units(passes), other.Budget(s.UseReserve)/cost*quota.Units(times)))
		}
	}
	return JobDemand{s.Name, slots, min(units, quota.MaxUnits/quota.Units(max(1, passes))) * quota.Units(passes)}
}

// hasLongDay returns whether a window is a calendar day of a zone in which one has 25 hours.
func hasLongDay(w quota.Window) bool {
	for at := jobs.Reference; w.Period == quota.Day && at.Before(jobs.Reference.Add(366*day)); {
		after, end := w.Bounds(at)
		if end.Sub(after) > day+time.Minute {
			return true
		}
		at = end
	}
	return false
}
