package plan

import (
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/regions"
)

// A naive simulation keeps every debit for ever and sums them all for every
// decision; it knows times of day as numbers, and rings as indices.
type naive struct {
	*scenario
	debits []naiveDebit
	last   int64
	told   naiveResult
}

type naiveDebit struct {
	at      int64
	units   []quota.Units // in each limit
	periods []string      // in each limit, what the clock of a calendar window shows
}

type naiveResult struct {
	runs    []Run
	limits  []naiveLimit
	regions map[string][2]int // passes and skipped turns of a job's region
}

type naiveLimit struct {
	Peak, Spent    quota.Units
	DryAt          time.Time
	Stops, Skipped int
	Hours          map[int64]quota.Units // by the second at which they begin
}

// naiveJob is a job with its position.
type naiveJob struct {
	*jobs.Job
	start int // the region at which the next run begins
	slot  time.Time
	pass  int // of the run under way; 0 before the first
	next  time.Time
	run   int // index of what is told of the run
}

func (s *scenario) naive() *naive {
	n := &naive{scenario: s}
	n.told.regions = map[string][2]int{}
	for range s.credential.Limits {
		n.told.limits = append(n.told.limits, naiveLimit{Hours: map[int64]quota.Units{}})
	}
	return n
}

// run simulates the jobs from noon on. What was spent before is in no figure but
// the peaks.
func (n *naive) run(until time.Time) naiveResult {
	for i := range n.told.limits {
		n.told.limits[i].Peak = n.used(i, max(n.last, noon.UnixMilli()))
	}
	list := make([]*naiveJob, len(n.jobs))
	for i, job := range n.jobs {
		list[i] = &naiveJob{Job: job, start: len(job.Regions) / 2}
		list[i].await(noon)
	}
	for {
		j := list[0]
		for _, other := range list {
			if other.next.Before(j.next) {
				j = other
			}
		}
		if !j.next.Before(until) {
			return n.told
		}
		n.step(j)
	}
}

// await goes to the first slot after t.
func (j *naiveJob) await(t time.Time) {
	j.slot, j.pass = j.Schedule.Next(t), 0
	j.next = j.slot
}

func (n *naive) step(j *naiveJob) {
	if j.pass == 0 {
		j.run = len(n.told.runs)
		n.told.runs = append(n.told.runs, Run{Job: j.Name, Slot: j.slot, Served: []regions.Region{}})
	}
	run := &n.told.runs[j.run]
	at := func(pass int) regions.Region { return j.Regions[(j.start+pass)%len(j.Regions)] }
	charges, err := n.credential.Sum(j.Calls())
	if err != nil {
		n.Fatal(err)
	}
	if denied := n.spend(j.next, charges); denied >= 0 {
		run.StoppedAt, run.Limit = at(j.pass), n.credential.Limits[denied].Name
		n.stop(j, denied, at)
		return
	}
	for _, c := range charges {
		n.told.limits[n.index(c)].Spent += c.Units
		n.told.limits[n.index(c)].Hours[j.next.Truncate(time.Hour).Unix()] += c.Units
	}
	run.Served = append(run.Served, at(j.pass))
	n.count(j, at(j.pass), 0)
	if j.pass++; j.pass == len(j.Regions) {
		j.await(j.next)
		return
	}
	j.next = n.start(j)
}

// start is when the next pass of a run comes.
func (n *naive) start(j *naiveJob) time.Time {
	stagger := j.Stagger
	if stagger == jobs.EvenStagger {
		stagger = j.Schedule.Next(j.slot).Sub(j.slot) / time.Duration(len(j.Regions))
	}
	return j.slot.Add(time.Duration(j.pass) * stagger)
}

func (n *naive) stop(j *naiveJob, denied int, at func(int) regions.Region) {
	l := &n.told.limits[denied]
	l.Stops++
	if l.DryAt.IsZero() {
		l.DryAt = j.next
	}
	for pass := j.pass; pass < len(j.Regions); pass++ {
		l.Skipped++
		n.count(j, at(pass), 1)
	}
	j.start = (j.start + j.pass) % len(j.Regions)
	j.await(j.next)
}

func (n *naive) count(j *naiveJob, region regions.Region, i int) {
	counts := n.told.regions[j.Name+string(region)]
	counts[i]++
	n.told.regions[j.Name+string(region)] = counts
}

// spend debits charges, a moment after it was asked for, or returns the limit
// that is in the way the longest.
func (n *naive) spend(t time.Time, charges []quota.Charge) (denied int) {
	denied = -1
	now := max(t.UnixMilli(), n.last)
	var until int64
	for _, c := range charges {
		if at := n.fitsAt(c, now); at > now && at > until {
			denied, until = n.index(c), at
		}
	}
	if denied < 0 {
		d := naiveDebit{at: now + 1, units: make([]quota.Units, len(n.credential.Limits))}
		for _, limit := range n.credential.Limits {
			d.periods = append(d.periods, periodAt(limit.Window, d.at))
		}
		for _, c := range charges {
			d.units[n.index(c)] = c.Units
		}
		n.debits, n.last = append(n.debits, d), d.at
	}
	for _, c := range charges {
		used := n.used(n.index(c), now)
		if denied < 0 { // what is debited a moment later counts already
			used += c.Units
		}
		n.told.limits[n.index(c)].Peak = max(n.told.limits[n.index(c)].Peak, used)
	}
	return denied
}

func (n *naive) index(c quota.Charge) int { return n.credential.Index(c.Limit) }

// fitsAt looks at every instant at which something leaves the window.
func (n *naive) fitsAt(c quota.Charge, now int64) int64 {
	limit := n.credential.Limits[n.index(c)]
	budget := limit.Units - limit.Reserve
	if n.used(n.index(c), now)+c.Units <= budget {
		return now
	}
	if limit.Window.IsCalendar() {
		const quarter = 15 * 60 * 1000 // every zone's hours begin at one
		at := now
		for periodAt(limit.Window, now) == periodAt(limit.Window, at) {
			at += quarter - at%quarter
		}
		return at
	}
	for _, d := range n.debits {
		if at := d.at + limit.Window.Length.Milliseconds(); at > now && n.used(n.index(c), at)+c.Units <= budget {
			return at
		}
	}
	return now + limit.Window.Length.Milliseconds()
}

// used sums what counts in a limit at an instant, of the debits made so far.
func (n *naive) used(limit int, now int64) quota.Units {
	w := n.credential.Limits[limit].Window
	period := periodAt(w, now)
	var sum quota.Units
	for _, d := range n.debits {
		counts := d.at > now-w.Length.Milliseconds()
		if w.IsCalendar() {
			counts = d.periods[limit] == period
		}
		if counts && d.at <= now {
			sum += d.units[limit]
		}
	}
	return sum
}

// periodAt returns what the clock of a calendar window shows.
func periodAt(w quota.Window, at int64) string {
	switch w.Period {
	case quota.Hour:
		return time.UnixMilli(at).In(w.Zone).Format("2006-01-02 15")
	case quota.Day:
		return time.UnixMilli(at).In(w.Zone).Format(time.DateOnly)
	}
	return ""
}
