package jobs

import (
	"math/bits"
	"slices"
	"time"

	"quotad/quota"
)

// A demand is what a schedule asks of one limit, if nobody else spends from it.
type demand struct {
	credential  *quota.Credential
	limit       quota.Limit
	from, until time.Time // the stretch that is looked at
	askers      []*asker
	asked       [2][]edge // by all, as scheduled and with slips
}

const (
	// looked is how far ahead a schedule is looked at, beside the length of a
	// window: a month of weekdays.
	looked = 35 * 24 * time.Hour
	// mostClaims bounds how many claims of all jobs are looked at: then the
	// stretch is shorter.
	mostClaims = 30_000
)

// newDemand returns what the jobs that count in a limit ask of it.
func newDemand(list []*Job, c *quota.Credential, limit quota.Limit, from time.Time) *demand {
	d := &demand{credential: c, limit: limit, from: from, until: from.Add(looked + lengthOf(limit.Window))}
	for _, job := range list {
		if job.Credential == c.Name && d.costs(job) > 0 && !job.Schedule.Next(from).IsZero() {
			d.askers = append(d.askers, &asker{job: job, units: d.costs(job)})
		}
	}
	for _, a := range d.askers {
		a.period = shortestPeriod(a.job.Schedule)
		a.ticks = ticksOf(a.job.Schedule, from, d.until, mostClaims/len(d.askers)/a.parts(limit.Window))
		if last := a.ticks[len(a.ticks)-1]; last.cut {
			d.until = last.slot
		}
	}
	for slips := range d.asked {
		for _, a := range d.askers {
			come, leave := a.edges(limit.Window, d.until, slips == 1)
			d.asked[slips] = slices.Concat(d.asked[slips], come, leave)
		}
		sortEdges(d.asked[slips])
	}
	return d
}

// costs returns what a pass of a job counts in the limit.
func (d *demand) costs(job *Job) quota.Units {
	charges, err := d.credential.Sum(job.Expects)
	if err != nil {
		return 0 // of an operation that the credential does not have: the configuration says so
	}
	for _, charge := range charges {
		if charge.Limit == d.limit.Name {
			return charge.Units
		}
	}
	return 0
}

// instead returns the asker that a job would be which differs in all but its schedule.
func (d *demand) instead(a *asker, job *Job) *asker {
	return &asker{job: job, units: d.costs(job), period: a.period, ticks: a.ticks}
}

// peak returns the most that is asked for in one window, with slips or as
// scheduled; if b is not nil, with b in the place of a.
func (d *demand) peak(slips bool, a, b *asker) quota.Units {
	all := d.asked[0]
	if slips {
		all = d.asked[1]
	}
	if b == nil {
		return d.fill(peak(all))
	}
	come, leave := a.edges(d.limit.Window, d.until, slips)
	negate(come)
	negate(leave)
	come2, leave2 := b.edges(d.limit.Window, d.until, slips)
	return d.fill(peak(all, come, leave, come2, leave2))
}

// alone returns the most that one asker asks for in one window.
func (d *demand) alone(a *asker) quota.Units {
	come, leave := a.edges(d.limit.Window, d.until, false)
	return d.fill(peak(come, leave))
}

// fill returns what a whole window would hold if it goes on like that, where the
// stretch that is looked at is shorter.
func (d *demand) fill(units quota.Units) quota.Units {
	if length, seen := lengthOf(d.limit.Window), d.seen(); seen > 0 && seen < length {
		return mulDiv(units, quota.Units(length), quota.Units(seen))
	}
	return units
}

// isWhole tells whether at least one window was looked at.
func (d *demand) isWhole() bool { return d.seen() >= lengthOf(d.limit.Window) }

// seen is how long the stretch is that is looked at, from the first slot in it.
func (d *demand) seen() time.Duration {
	first := d.until
	for _, a := range d.askers {
		if slot := a.ticks[0].slot; slot.Before(first) {
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
