package plan

import (
	"math/bits"
	"sort"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/regions"
)

const (
	// looked is how far ahead a schedule is looked at, beside the length of a
	// window: a month of weekdays.
	looked = 35 * 24 * time.Hour
	// mostEvents bounds how many events of all jobs are looked at: then the stretch
	// is shorter.
	mostEvents = 100_000
)

// A demand is what a schedule asks of one limit, if nobody else spends from it.
type demand struct {
	credential  *quota.Credential
	limit       quota.Limit
	from, until time.Time // the stretch that is looked at
	loads       []*load

	onTime, late events // of all loads together
}

// newDemand returns what the jobs that count in a limit ask of it.
func newDemand(list []*jobs.Job, c *quota.Credential, limit quota.Limit, from time.Time) *demand {
	d := &demand{credential: c, limit: limit, from: from, until: from.Add(looked + lengthOf(limit.Window))}
	for _, job := range list {
		if job.Credential == c.Name && d.costs(job) > 0 && !job.Schedule.Next(from).IsZero() {
			d.loads = append(d.loads, &load{job: job, units: d.costs(job)})
		}
	}
	for _, l := range d.loads {
		l.most = mostEvents / len(d.loads)
		l.ticks = ticksOf(l.job.Schedule, from, d.until, l.most)
		if last := l.ticks[len(l.ticks)-1]; len(l.ticks) >= l.most && last.next.Before(d.until) {
			d.until = last.slot
		}
	}
	d.onTime, d.late = d.gather(false), d.gather(true)
	return d
}

// gather returns what all loads together ask for.
func (d *demand) gather(late bool) events {
	var all events
	for _, l := range d.loads {
		come, leave := l.events(d.limit.Window, d.until, late)
		all = append(append(all, come...), leave...)
	}
	all.sort()
	return all
}

// costs returns what a pass of a job counts in the limit.
func (d *demand) costs(job *jobs.Job) quota.Units {
	charges, err := d.credential.Sum(job.Expects)
	if err != nil {
		return 0 // of an operation that the credential does not have: the configuration says so
	}
	units, _ := quota.ChargeIn(charges, d.limit.Name)
	return units
}

// total returns the most that is asked for in one window, with every pass on time.
func (d *demand) total() quota.Units { return d.fill(peak(quota.MaxUnits, d.onTime)) }

// worst returns the same with every pass as late as it may be.
func (d *demand) worst() quota.Units { return d.fill(peak(quota.MaxUnits, d.late)) }

// alone returns the most that one load asks for in one window, on time.
func (d *demand) alone(l *load) quota.Units {
	come, leave := l.events(d.limit.Window, d.until, false)
	return d.fill(peak(quota.MaxUnits, come, leave))
}

// An exchange puts other loads in the place of one.
type exchange struct {
	*demand
	load         *load
	onTime, late events // of all other loads
}

func (d *demand) exchange(l *load) *exchange {
	return &exchange{demand: d, load: l, onTime: d.without(l, d.onTime, false), late: d.without(l, d.late, true)}
}

// without returns what is left of all events without those of a load.
func (d *demand) without(l *load, all events, late bool) events {
	come, leave := l.events(d.limit.Window, d.until, late)
	come.negate()
	leave.negate()
	var rest events
	for e := range together(all, come, leave) {
		if e.units != 0 {
			rest = append(rest, e)
		}
	}
	return rest
}

// job returns the load that the job would be after a change of all but its schedule.
func (e *exchange) job(job *jobs.Job) *load { return e.load.with(job, e.costs(job)) }

// total returns the most that is asked for in one window with another load, on time.
func (e *exchange) total(l *load) quota.Units {
	come, leave := l.events(e.limit.Window, e.until, false)
	return e.fill(peak(quota.MaxUnits, e.onTime, come, leave))
}

// admits tells whether the schedule fits with another load.
func (e *exchange) admits(l *load) bool {
	budget := e.limit.Budget(false)
	come, leave := l.events(e.limit.Window, e.until, true)
	return e.fill(peak(budget, e.late, come, leave)) <= budget
}

// mostRegions returns how many regions the job may have so that the schedule fits.
func (e *exchange) mostRegions() int {
	const tried = 1000
	job, shortest := e.load.job, e.load.shortest()
	return most(max(tried, len(job.Regions)), func(n int) bool {
		fits := job.Stagger == jobs.EvenStagger || regions.Fits(shortest, job.Stagger, n)
		return fits && e.admits(e.job(withRegions(job, n)))
	})
}

// withRegions returns a job with n regions, whatever they are called.
func withRegions(j *jobs.Job, n int) *jobs.Job {
	changed := *j
	changed.Regions = make(regions.Ring, n)
	return &changed
}

// fill returns what a whole window would hold if it goes on like that, where the
// stretch that is looked at is shorter.
func (d *demand) fill(units quota.Units) quota.Units {
	if length, seen := lengthOf(d.limit.Window), d.seen(); seen > 0 && seen < length {
		return mulDiv(units, quota.Units(length), quota.Units(seen))
	}
	return min(units, quota.MaxUnits)
}

// isWhole tells whether at least one window was looked at.
func (d *demand) isWhole() bool { return d.seen() >= lengthOf(d.limit.Window) }

// seen is how long the stretch is that is looked at, from the first slot in it.
func (d *demand) seen() time.Duration {
	first := d.until
	for _, l := range d.loads {
		if slot := l.ticks[0].slot; slot.Before(first) {
			first = slot
		}
	}
	if first.Equal(d.until) { // nothing is asked for
		return d.until.Sub(d.from)
	}
	return d.until.Sub(first)
}

// mulDiv returns a*b/c, rounded down, at most MaxUnits.
func mulDiv(a, b, c quota.Units) quota.Units {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high >= uint64(c) {
		return quota.MaxUnits
	}
	result, _ := bits.Div64(high, low, uint64(c))
	return quota.Units(min(result, uint64(quota.MaxUnits)))
}

// most returns the greatest n from 1 to high for which ok holds, 0 if there is
// none: it holds up to that one and for none behind it.
func most(high int, ok func(n int) bool) int {
	if ok(high) {
		return high
	}
	beyond := 1
	for beyond <= high && ok(beyond) {
		beyond *= 2
	}
	known := beyond / 2
	return known + sort.Search(min(beyond, high)-known-1, func(i int) bool { return !ok(known + 1 + i) })
}

// lengthOf returns the length of a window; of a calendar one the shortest, daylight
// saving aside.
func lengthOf(w quota.Window) time.Duration {
	switch w.Period {
	case quota.Hour:
		return time.Hour
	case quota.Day:
		return 24 * time.Hour
	case quota.Month:
		return 28 * 24 * time.Hour
	}
	return w.Length
}
