package plan

import (
	"cmp"
	"slices"
	"time"

	"quotad/jobs"
	"quotad/quota"
)

const (
	day = 24 * time.Hour
	// horizon is how far ahead slots are counted, in addition to the length of a window, and
	// rareHorizon the same of a job that is due less often than weekly.
	horizon, rareHorizon = 8 * day, 366 * day
	week                 = 7 * day
)

// A timeline is a job and its next slots.
type timeline struct {
	job  *jobs.Job
	rare []time.Time // the slots of a job that is due less often than weekly

	read []slot // the slots that were asked for last,
	span span   // which are in it
}

// A slot is one of a schedule, in nanoseconds since the Unix epoch, and the time until the next one,
// which is 0 if the schedule ends.
type slot struct{ at, period int64 }

// slotOf returns a slot. Next is zero if the schedule ends with it.
func slotOf(at, next time.Time) slot {
	if next.IsZero() {
		return slot{at: at.UnixNano()}
	}
	return slot{at.UnixNano(), int64(next.Sub(at))}
}

// A span is the time from an instant until another.
type span struct{ from, until time.Time }

func newTimeline(job *jobs.Job, from time.Time) *timeline {
	t, s := &timeline{job: job}, job.Schedule
	first := s.Next(from)
	if second := s.Next(first); !second.IsZero() && second.Sub(first) <= week && first.Before(from.Add(horizon)) {
		return t
	}
	for ; !first.IsZero() && first.Before(from.Add(rareHorizon)); first = s.Next(first) {
		t.rare = append(t.rare, first)
	}
	return t
}

// slots returns the slots of all runs that may spend in a span: those in it, and the last one before it.
func (t *timeline) slots(in span) []slot {
	if t.span == in {
		return t.read
	}
	t.read, t.span = nil, in
	at := jobs.Latest(t.job.Schedule, in.from)
	if at.IsZero() {
		at = t.job.Schedule.Next(in.from)
	}
	for !at.IsZero() && at.Before(in.until) {
		next := t.job.Schedule.Next(at)
		t.read = append(t.read, slotOf(at, next))
		at = next
	}
	return t.read
}

// A load is what a job asks of a limit.
type load struct {
	*timeline
	units  quota.Units // of a pass
	passes int         // of a run
}

// A run is when the passes of one slot start, and by when they are over.
type run struct {
	slot             int64 // in nanoseconds since the Unix epoch, as are the others
	stagger, longest int64
	end              int64 // when all must be over
	together         int64 // when all are over, if they wait for one another; else 0
	passes           int
}

func (l *load) run(s slot) run {
	n := len(l.job.Regions)
	r := run{
		slot: s.at, end: s.at + cmp.Or(s.period, int64(rareHorizon)) - int64(time.Millisecond), passes: l.passes,
		stagger: int64(l.job.StaggerWithin(time.Duration(s.period), n)), longest: int64(l.job.Timeout + l.job.KillGrace),
	}
	if r.stagger > 0 {
		r.passes = min(r.passes, 1+int((s.period-1)/r.stagger))
	}
	switch {
	case r.stagger >= r.longest:
	case r.longest > (r.end-r.slot)/int64(n):
		r.together = r.end
	default:
		r.together = r.slot + int64(n)*r.longest
	}
	return r
}

// before returns how many passes start before an instant.
func (r run) before(at int64) int {
	switch {
	case at <= r.slot:
		return 0
	case r.stagger == 0:
		return r.passes
	}
	return int(min(int64(r.passes), (at-r.slot-1)/r.stagger+1))
}

// over returns by when the i-th pass has spent all.
func (r run) over(i int) int64 {
	if r.together > 0 {
		return r.together
	}
	return min(r.slot+int64(i)*r.stagger+r.longest, r.end)
}

// within returns how many slots and passes of the load start in a window of a grid, and count there.
func (l *load) within(g *grid, window span) (slots, passes int) {
	from, until := window.from.UnixNano(), window.until.UnixNano()
	for _, s := range l.slots(g.span) {
		if s.at >= until {
			break
		}
		if s.at >= from {
			slots++
		}
		if s.period == 0 || s.at+s.period > from {
			r := l.run(s)
			passes += max(0, r.before(until)-r.before(from))
		}
	}
	return slots, passes
}

// A demand is what a schedule asks of one limit.
type demand struct {
	credential   *quota.Credential
	limit        quota.Limit
	from         time.Time
	loads        []*load
	others       quota.Units // in a window, by callers outside jobs
	grids        []*grid
	onTime, late quota.Units // the most in a window
	worst        span        // the window of onTime, and worstIn its grid
	worstIn      *grid
}

// newDemand returns what the jobs that count in a limit ask of it.
func newDemand(timelines []*timeline, c *quota.Credential, limit quota.Limit, from time.Time) *demand {
	d := &demand{credential: c, limit: limit, from: from}
	for _, t := range timelines {
		charges, err := c.Sum(t.job.Calls())
		if err != nil {
			continue // of an operation that the credential does not have: the configuration says so
		}
		if units, _ := quota.ChargeIn(charges, limit.Name); units > 0 {
			units = min(units, quota.MaxUnits/quota.Units(len(t.job.Regions)))
			d.loads = append(d.loads, &load{timeline: t, units: units, passes: passesOf(t.job, c.Cost(t.job.Calls()))})
		}
	}
	return d
}

// passesOf returns how many passes of a job one run launches, each of which costs as much.
func passesOf(job *jobs.Job, cost quota.Units) int {
	n := len(job.Regions)
	if job.UnitsPerRun > 0 && cost > 0 {
		n = int(min(quota.Units(n), job.UnitsPerRun/cost))
	}
	return n
}

func (d *demand) load(job string) *load {
	return d.loads[slices.IndexFunc(d.loads, func(l *load) bool { return l.job.Name == job })]
}

// budget is what one window has for the jobs that count in the limit. A job that uses the reserve
// takes from what the others may spend, so the reserve is included only if all of them use it.
func (d *demand) budget() quota.Units {
	ordinary := func(l *load) bool { return !l.job.UseReserve }
	return d.limit.Budget(len(d.loads) > 0 && !slices.ContainsFunc(d.loads, ordinary))
}

// isPaced returns whether all jobs that count in the limit wait for it: it returns so soon that
// runs are late, but none runs dry.
func (d *demand) isPaced() bool {
	return len(d.loads) > 0 && !slices.ContainsFunc(d.loads, func(l *load) bool { return d.limit.Window.Span() > l.job.MaxWait })
}

// measure finds the worst windows.
func (d *demand) measure() {
	if len(d.loads) == 0 {
		return
	}
	for _, s := range d.spans() {
		g := newGrid(d.limit, s)
		for _, l := range d.loads {
			g.add(l, 1)
		}
		p := g.peaks()
		d.late = max(d.late, p.late)
		if p.onTime > d.onTime {
			d.onTime, d.worst, d.worstIn = p.onTime, g.window(p.at), g
		}
		d.grids = append(d.grids, g)
	}
}

// spans returns the time that is counted: from now on, the longest period of a calendar, and around
// each slot of a job that is due less often than weekly.
func (d *demand) spans() []span {
	length := d.limit.Window.Span()
	ahead := horizon
	if length < finest { // less time is counted
		ahead = length * time.Duration(horizon/finest)
	}
	spans := []span{{d.from, d.from.Add(ahead + length)}}
	if longest := d.longestPeriod(); longest.After(spans[0].until) {
		spans = append(spans, span{longest, longest.Add(1)})
	}
	for _, l := range d.loads {
		for _, at := range l.rare {
			run := time.Duration(l.run(slotOf(at, l.job.Schedule.Next(at))).over(l.passes-1) - at.UnixNano())
			spans = append(spans, span{at.Add(-length), at.Add(min(horizon, run) + length)})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
	merged := spans[:1]
	for _, s := range spans[1:] {
		if last := &merged[len(merged)-1]; !s.from.After(last.until) {
			last.until = quota.Later(last.until, s.until)
		} else {
			merged = append(merged, s)
		}
	}
	return merged
}

// longestPeriod returns an instant in the longest period of a calendar day or month in the next 366
// days; zero for other windows.
func (d *demand) longestPeriod() (in time.Time) {
	w := d.limit.Window
	if w.Period != quota.Day && w.Period != quota.Month {
		return in
	}
	longest := time.Duration(0)
	for at := d.from; at.Before(d.from.Add(rareHorizon)); {
		after, end := w.Bounds(at)
		if length := end.Sub(after); length > longest {
			longest, in = length, at
		}
		at = end
	}
	return in
}

const (
	perWindow = 1440            // buckets, at most
	bucket    = 5 * time.Second // no bucket is shorter, unless the window is
	finest    = time.Second     // a window that is shorter is not counted for the whole horizon
)

// A grid counts the passes of a span in buckets of time: those that start in a bucket, and those
// that are over by then. In a calendar window each period is a bucket.
type grid struct {
	span         span
	bounds       []int64 // of the buckets, in nanoseconds
	full, closed int     // buckets of which a window has all, and in which a late pass counts
	starts, ends []quota.Units
}

func newGrid(limit quota.Limit, in span) *grid {
	g := &grid{span: in, full: 1, closed: 1}
	if w := limit.Window; w.Restarts() {
		after, _ := w.Bounds(in.from)
		start, at := w.Bounds(after) // passes of the period before may be late
		g.bounds = append(g.bounds, start.Add(time.Millisecond).UnixNano())
		for ; at.Before(in.until); _, at = w.Bounds(at) {
			g.bounds = append(g.bounds, at.UnixNano())
		}
		g.bounds = append(g.bounds, at.UnixNano())
		g.span = g.between(0, len(g.bounds)-1)
	} else {
		length, until := int64(w.Length), in.until.UnixNano()
		width := min(length, max(1, (length+perWindow-1)/perWindow, int64(bucket)))
		g.full, g.closed = int(length/width), int((length+width-1)/width)+1
		at := in.from.UnixNano()
		for g.bounds = append(g.bounds, at); at <= until; g.bounds = append(g.bounds, at) {
			at += width
		}
	}
	n := len(g.bounds) - 1
	g.starts, g.ends = make([]quota.Units, n), make([]quota.Units, n)
	return g
}

// add adds the passes of a load, or removes them if sign is -1.
func (g *grid) add(l *load, sign quota.Units) {
	for _, s := range l.slots(g.span) {
		r := l.run(s)
		start, found := slices.BinarySearch(g.bounds, r.slot)
		if !found {
			start--
		}
		end := start
		for first, until := 0, 0; first < r.passes && start < len(g.starts); first = until {
			until = max(first+1, r.before(g.bounds[start+1])) // these are over with the last of them
			end = g.bucket(max(start, end), r.over(until-1))
			units := sign * l.units * quota.Units(until-first)
			if start >= 0 {
				g.starts[start] += units
				if end < len(g.ends) {
					g.ends[end] += units
				}
			}
			start = g.bucket(start, r.slot+int64(until)*r.stagger)
		}
	}
}

// bucket returns the bucket of an instant, which is the i-th one or later. The one after the last has the time after
// the grid, and the one below zero that before it.
func (g *grid) bucket(i int, at int64) int {
	for i+1 < len(g.bounds) && g.bounds[i+1] <= at {
		i++
	}
	return i
}

// A peaks is the most that a window holds: if passes spend at their start, and at worst.
type peaks struct {
	onTime, late quota.Units
	at           int // the last bucket of the window of onTime
}

func (g *grid) peaks() (p peaks) {
	var onTime, late quota.Units
	for i, units := range g.starts {
		onTime, late = onTime+units, late+units
		if i >= g.full {
			onTime -= g.starts[i-g.full]
		}
		if i >= g.closed {
			late -= g.ends[i-g.closed]
		}
		if onTime > p.onTime {
			p.onTime, p.at = onTime, i
		}
		p.late = max(p.late, late)
	}
	p.onTime, p.late = min(p.onTime, quota.MaxUnits), min(p.late, quota.MaxUnits)
	return p
}

// window returns the window that ends with a bucket.
func (g *grid) window(last int) span { return g.between(max(0, last+1-g.full), last+1) }

// between returns the time from one bound to another.
func (g *grid) between(from, until int) span {
	return span{time.Unix(0, g.bounds[from]).UTC(), time.Unix(0, g.bounds[until]).UTC()}
}
