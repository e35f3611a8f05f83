package plan

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/regions"
)

// A Fit says whether a schedule fits a limit, if all units are the jobs' and every pass spends what
// it expects to.
type Fit struct {
	Credential string      `json:"credential"`
	Limit      string      `json:"limit"`
	Window     string      `json:"window"` // as quota.Window describes it
	Units      quota.Units `json:"units"`
	Reserve    quota.Units `json:"reserve"`
	Budget     quota.Units `json:"budget"` // what jobs may spend in one window: units less reserve, unless all use that

	Demand  quota.Units `json:"demand"`            // the maximum that is asked for in one window, if every pass spends at its start
	AtWorst quota.Units `json:"at_worst"`          // the same if every pass is as late as it may be: see the package's comment
	Fits    bool        `json:"fits"`              // AtWorst is at most Budget, or all jobs wait for the limit
	DryRun  bool        `json:"dry_run,omitempty"` // the limit refuses nothing
	// Estimated means that there are too many slots to count a whole window: the figures were
	// computed from a part of it.
	Estimated bool `json:"estimated,omitempty"`

	Shares []Share `json:"shares"` // of the jobs that count in the limit, as configured
	// Changes are those that would each make the schedule fit, the one that gives up
	// least first. Empty if it fits, or if no single change is enough.
	Changes []Change `json:"changes"`
}

// FitsOnTime returns whether the schedule fits as long as no pass is late.
func (f *Fit) FitsOnTime() bool { return f.Demand <= f.Budget }

// Shortage says by how much the jobs exceed a limit that they do not fit.
func (f *Fit) Shortage() string {
	about, often := "", ""
	if f.Estimated {
		about = "about "
	}
	if f.FitsOnTime() {
		often = " now and then"
	}
	return fmt.Sprintf("the jobs ask for %s%s of %s %s in one window%s; %s are for them: they run dry%s",
		about, f.Demand.Text(), f.Credential, f.Limit, f.WhenLate(), quota.Thousands(f.Budget), often)
}

// WhenLate adds to the demand of jobs what it is when passes are late, if that is more.
func (f *Fit) WhenLate() string {
	if f.AtWorst <= f.Demand {
		return ""
	}
	return fmt.Sprintf(", and for %s when passes are late", quota.Thousands(f.AtWorst))
}

// A Share is what one job asks of a limit.
type Share struct {
	Job    string      `json:"job"`
	Slots  int         `json:"slots"`  // at most in one window
	Demand quota.Units `json:"demand"` // the most in one window, on time
	// MostRegions is how many regions the job may have so that the schedule fits, if all else
	// stays: from 0 to 1,000.
	MostRegions int `json:"most_regions"`
}

// CheckFit returns for every limit of the credentials, in their order, whether the jobs fit it. It
// counts the jobs' slots in five weeks and a window after from, or in less time if there are too
// many. Jobs without expects are left out.
func CheckFit(list []*jobs.Job, credentials []*quota.Credential, from time.Time) []Fit {
	fits := []Fit{}
	for _, c := range credentials {
		for _, limit := range c.Limits {
			fits = append(fits, newDemand(list, c, limit, from).fit())
		}
	}
	return fits
}

func (d *demand) fit() Fit {
	f := Fit{
		Credential: d.credential.Name, Limit: d.limit.Name, Window: d.limit.Window.Describe(),
		Units: d.limit.Units, Reserve: d.limit.Reserve, Budget: d.budget(),
		Demand: d.perWindow(peak(quota.MaxUnits, nil, d.onTime)), AtWorst: d.perWindow(peak(quota.MaxUnits, nil, d.late)),
		DryRun:    d.limit.DryRun,
		Estimated: !d.isWhole(), Shares: []Share{}, Changes: []Change{},
	}
	f.Fits = f.AtWorst <= f.Budget || d.isPaced()
	for _, l := range d.loads {
		f.Shares = append(f.Shares, d.share(l))
	}
	if !f.Fits {
		f.Changes = d.changes(&f)
	}
	return f
}

// isPaced returns whether all jobs that count in the limit wait for it: it returns so soon that
// runs are late, but none runs dry.
func (d *demand) isPaced() bool {
	return len(d.loads) > 0 && !slices.ContainsFunc(d.loads, func(l *load) bool { return d.limit.Window.Span() > l.job.MaxWait })
}

func (d *demand) share(l *load) Share {
	slots := d.load(withRegions(l.job, 1), *l)
	slots.units = 1
	return Share{
		Job:         l.job.Name,
		Slots:       int(d.perWindow(peak(quota.MaxUnits, nil, slots.events(d.limit, d.until, false)...))),
		Demand:      d.perWindow(peak(quota.MaxUnits, nil, l.onTime...)),
		MostRegions: d.maxRegions(l),
	}
}

const (
	// horizon is how far ahead slots are counted, in addition to the length of a window: a month
	// of weekdays.
	horizon = 35 * 24 * time.Hour
	// maxCounted bounds how many passes of all jobs are counted one by one. If there are more
	// slots than that, less time is counted.
	maxCounted = 100_000
)

// A demand is what a schedule asks of one limit.
type demand struct {
	credential   *quota.Credential
	limit        quota.Limit
	from, until  time.Time // the time that is counted
	loads        []*load
	onTime, late events // of all loads together
}

// newDemand returns what the jobs that count in a limit ask of it.
func newDemand(list []*jobs.Job, c *quota.Credential, limit quota.Limit, from time.Time) *demand {
	d := &demand{credential: c, limit: limit, from: from, until: from.Add(horizon + limit.Window.Span())}
	for _, job := range list {
		if job.Credential == c.Name && d.costs(job) > 0 && !job.Schedule.Next(from).IsZero() {
			d.loads = append(d.loads, d.load(job, load{}))
		}
	}
	for _, l := range d.loads {
		l.maxPasses = maxCounted / len(d.loads)
		l.slots = slotsOf(l.job.Schedule, from, d.until, l.maxPasses)
		if last := l.slots[len(l.slots)-1]; len(l.slots) >= l.maxPasses && last.next.Before(d.until) {
			d.until = last.next
		}
	}
	for _, l := range d.loads {
		l.onTime, l.late = l.events(d.limit, d.until, false), l.events(d.limit, d.until, true)
		d.onTime = append(d.onTime, slices.Concat(l.onTime...)...)
		d.late = append(d.late, slices.Concat(l.late...)...)
	}
	d.onTime.sort()
	d.late.sort()
	return d
}

// budget is what one window has for the jobs that count in the limit. A job that uses the reserve
// takes from what the others may spend, so the reserve is included only if all of them use it.
func (d *demand) budget() quota.Units {
	ordinary := func(l *load) bool { return !l.job.UseReserve }
	return d.limit.Budget(len(d.loads) > 0 && !slices.ContainsFunc(d.loads, ordinary))
}

// costs returns what a pass of a job counts in the limit.
func (d *demand) costs(job *jobs.Job) quota.Units {
	charges, err := d.credential.Sum(job.Calls())
	if err != nil {
		return 0 // of an operation that the credential does not have: the configuration says so
	}
	units, _ := quota.ChargeIn(charges, d.limit.Name)
	return units
}

// load returns what a job asks of the limit. Its schedule is that of a load, which is empty at
// first.
func (d *demand) load(job *jobs.Job, like load) *load {
	return &load{job: job, units: d.costs(job), cost: d.credential.Cost(job.Calls()), slots: like.slots, maxPasses: like.maxPasses}
}

// admits returns whether the schedule fits with b in the place of a.
func (d *demand) admits(a, b *load) bool {
	budget := d.budget()
	return d.perWindow(peak(budget, a.late, append(b.events(d.limit, d.until, true), d.late)...)) <= budget
}

// less returns how much less is asked for with b in the place of a, on time.
func (d *demand) less(a, b *load) quota.Units {
	with := peak(quota.MaxUnits, a.onTime, append(b.events(d.limit, d.until, false), d.onTime)...)
	return d.perWindow(peak(quota.MaxUnits, nil, d.onTime)) - d.perWindow(with)
}

// perWindow returns what a whole window holds, given a peak of the time that is counted. If that
// is shorter, the rest is extrapolated.
func (d *demand) perWindow(peak quota.Units) quota.Units {
	if d.isWhole() {
		return min(peak, quota.MaxUnits)
	}
	whole := float64(peak) * float64(d.limit.Window.Span()) / float64(d.until.Sub(d.from))
	return quota.Units(min(whole, float64(quota.MaxUnits)))
}

// isWhole returns whether at least one window is counted.
func (d *demand) isWhole() bool { return d.until.Sub(d.from) >= d.limit.Window.Span() }

// maxRegions returns how many regions a job may have so that the schedule fits.
func (d *demand) maxRegions(l *load) int {
	const tried = 1000
	return greatest(max(tried, len(l.job.Regions)), func(n int) bool {
		fits := l.job.Stagger == jobs.EvenStagger || regions.Fits(l.shortest(), l.job.Stagger, n)
		return fits && d.admits(l, d.load(withRegions(l.job, n), *l))
	})
}

// withRegions returns a job with n regions, whatever they are called.
func withRegions(j *jobs.Job, n int) *jobs.Job {
	changed := *j
	changed.Regions = make(regions.Ring, n)
	return &changed
}

// greatest returns the greatest n from 1 to high for which ok holds, 0 if there is none: it holds
// up to that one and for none after it.
func greatest(high int, ok func(n int) bool) int {
	if ok(high) {
		return high
	}
	beyond := 1
	for beyond < high && ok(beyond) { // large ones take long, and are seldom needed
		beyond *= 2
	}
	known := beyond / 2
	return known + sort.Search(min(beyond, high)-known-1, func(i int) bool { return !ok(known + 1 + i) })
}
