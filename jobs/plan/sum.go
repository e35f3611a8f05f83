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
	DryRun     bool        `json:"observes,omitempty"`
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
	var parts []string
	for i, s := range f.Shares {
		if i == 4 {
			parts = append(parts, quota.Count(len(f.Shares)-i, "more job", "more jobs"))
			break
		}
		parts = append(parts, fmt.Sprintf("%s %s (%s)", s.Job, quota.Thousands(s.Demand), quota.Count(s.Slots, "run", "runs")))
	}
	return strings.Join(parts, ", ")
}

// Sum returns for every limit of the credentials, in their order, what the jobs ask of it. Jobs without expects ask
// for nothing.
func Sum(list []*jobs.Job, credentials []*quota.Credential) []Fit {
	fits := []Fit{}
	for _, c := range credentials {
		var all []*demand
		for _, job := range list {
			if job.Credential == c.Name && !job.Schedule.Next(jobs.Reference).IsZero() {
				all = append(all, demandOf(job, c))
			}
		}
		for _, limit := range c.Limits {
			fits = append(fits, fitOf(all, c.Name, limit))
		}
	}
	return fits
}

// A demand is what a job asks of a credential.
type demand struct {
	*jobs.Job
	limits  []quota.Limit
	charges []quota.Charge // of a pass
	slots   []time.Time    // of a cron line
	end     time.Time      // slots has all before
}

// demandOf reads the slots of 8 days and the longest window or, of a cron line that has fewer than 500, of a year.
func demandOf(job *jobs.Job, c *quota.Credential) *demand {
	d, until := &demand{Job: job, limits: c.Limits}, jobs.Reference
	d.charges, _ = c.Sum(job.Calls()) // of an operation that the credential does not have, the configuration says so
	if _, isEvery := job.Schedule.(jobs.Every); isEvery {
		return d
	}
	for _, limit := range c.Limits {
		until = quota.Later(until, jobs.Reference.Add(8*day+length(limit.Window)))
	}
	at := job.Schedule.Next(jobs.Reference)
	for !at.IsZero() && (at.Before(until) || len(d.slots) < 500 && at.Before(jobs.Reference.Add(366*day))) {
		d.slots, at = append(d.slots, at), job.Schedule.Next(at)
	}
	d.end = at
	return d
}

// length is that of a window's usual period.
func length(w quota.Window) time.Duration {
	if w.Period == quota.Month {
		return 31 * day
	}
	return w.Nominal()
}

// fitOf sums up what jobs ask of a limit.
func fitOf(all []*demand, credential string, limit quota.Limit) Fit {
	f := Fit{Credential: credential, Limit: limit.Name, Window: limit.Window.Describe(), DryRun: limit.DryRun}
	reserve, waits, count := true, true, 0
	for _, d := range all {
		if units, _ := quota.ChargeIn(d.charges, limit.Name); units > 0 {
			reserve, waits, count = reserve && d.UseReserve, waits && limit.Window.Span() <= d.MaxWait, count+1
		}
	}
	f.Budget = limit.Budget(reserve && count > 0)
	f.Holds = count > 0 && waits || count == 1 && limit.IsShare()
	f.Demand, f.Shares = worst(all, limit, length(limit.Window))
	f.Fits = f.Demand <= f.Budget
	if limit.Window.Period == quota.Day && f.Fits {
		_, shift := jobs.Reference.In(limit.Window.Zone).ZoneBounds()
		if long, _ := worst(all, limit, 25*time.Hour); long > f.Budget && !shift.IsZero() {
			f.LongDay = long
		}
	}
	return f
}

// worst returns the most that jobs ask of a limit in a window of a length, and who asks. Jobs by every ask in each window
// for their most; those of cron lines are added up in the windows that begin with one of their slots.
func worst(all []*demand, limit quota.Limit, w time.Duration) (most quota.Units, shares []JobDemand) {
	begins := []time.Time{jobs.Reference}
	for _, d := range all {
		begins = append(begins, d.slots...)
	}
	if limit.Window.Restarts() {
		for i, at := range begins {
			after, _ := limit.Window.Bounds(at)
			begins[i] = after.Add(time.Microsecond)
		}
	}
	slices.SortFunc(begins, time.Time.Compare)
	for _, from := range slices.CompactFunc(begins, time.Time.Equal) {
		sum, asked := quota.Units(0), []JobDemand{}
		for _, d := range all {
			if one := d.asks(limit, from, w); one.Demand > 0 {
				sum, asked = min(sum+one.Demand, quota.MaxUnits), append(asked, one)
			}
		}
		if sum > most || shares == nil {
			most, shares = sum, asked
		}
	}
	slices.SortStableFunc(shares, func(a, b JobDemand) int { return cmp.Compare(b.Demand, a.Demand) })
	return most, shares
}

// asks returns what the job asks of a limit in the window from an instant, as far as the limits that hold it back let it.
func (d *demand) asks(limit quota.Limit, from time.Time, w time.Duration) JobDemand {
	units, _ := quota.ChargeIn(d.charges, limit.Name)
	slots, passes, n := 0, 0, len(d.Regions)
	if every, ok := d.Schedule.(jobs.Every); ok {
		slots = int((w + every.Period - 1) / every.Period)
		last := n // passes of the last run in the window
		if stagger := d.StaggerWithin(every.Period, n); stagger > 0 {
			last = min(n, 1+int((w-1-time.Duration(slots-1)*every.Period)/stagger))
		}
		passes = (slots-1)*n + last
	} else {
		to := from.Add(w)
		if _, end := limit.Window.Bounds(from); limit.Window.Period == quota.Month {
			to = end
		}
		if over := to.Sub(d.end); over > 0 { // the same weekdays, among the slots
			back := (over + 7*day - 1) / (7 * day) * 7 * day
			from, to = from.Add(-back), to.Add(-back)
		}
		first, _ := slices.BinarySearchFunc(d.slots, from, time.Time.Compare)
		end, _ := slices.BinarySearchFunc(d.slots, to, time.Time.Compare)
		slots, passes = end-first, (end-first)*n
	}
	for _, other := range d.limits {
		isOwn := other.IsShare() && len(other.Jobs) == 1 || other.Window.Span() <= d.MaxWait
		if cost, _ := quota.ChargeIn(d.charges, other.Name); cost > 0 && isOwn && other.Name != limit.Name && !other.DryRun {
			times := (w + length(other.Window) - 1) / length(other.Window)
			if other.Window.Span() > d.MaxWait { // a run takes from it once
				times = min(times, time.Duration(slots))
			}
			passes = int(min(quota.Units(passes), other.Budget(d.UseReserve)/cost*quota.Units(times)))
		}
	}
	return JobDemand{d.Name, slots, min(units, quota.MaxUnits/quota.Units(max(1, passes))) * quota.Units(passes)}
}
