package jobs

import (
	"sort"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// A Verdict says whether a schedule fits a limit, if nobody else spends from it
// and every pass spends what it expects to.
type Verdict struct {
	Credential string      `json:"credential"`
	Limit      string      `json:"limit"`
	Window     string      `json:"window"` // as quota.Window writes it
	Units      quota.Units `json:"units"`
	Reserve    quota.Units `json:"reserve"`
	Budget     quota.Units `json:"budget"` // what jobs may spend in one window: units less reserve

	// Demand is the most that the schedule asks for in one window. AtWorst is the
	// same where runs are not on time: a sliding window with room for n runs then
	// meets n+1. Of a calendar window it is the same.
	Demand  quota.Units `json:"demand"`
	AtWorst quota.Units `json:"at_worst"`
	// Ceiling is the demand up to which such a schedule fits whatever its jitter:
	// budget*n/(n+1) for n equal runs per sliding window.
	Ceiling quota.Units `json:"ceiling"`
	Proof   bool        `json:"proof"` // it fits whatever its jitter: AtWorst is at most Budget
	// Estimated tells that there are too many slots to look at a whole window: the
	// figures were computed from a part of it.
	Estimated bool `json:"estimated,omitempty"`

	Shares []Share `json:"shares"` // of the jobs that count in the limit, as configured
	// Changes are those that would each make the schedule proof, the one that gives
	// up least first. Empty if it is, or if no single change is enough.
	Changes []Change `json:"changes"`
}

// Fits tells whether the schedule fits if every run is on time to the moment.
func (v *Verdict) Fits() bool { return v.Demand <= v.Budget }

// A Share is what one job asks of a limit.
type Share struct {
	Job    string      `json:"job"`
	Slots  int         `json:"slots"`  // at most in one window
	Demand quota.Units `json:"demand"` // the most in one window
	// MostRegions is how many regions the job may have so that the schedule is
	// proof, if all else stays; from 0, and no more than 1,000 are tried.
	MostRegions int `json:"most_regions"`
}

// Judge returns a verdict on every limit of the credentials, in their order. It
// looks at five weeks and a window of the jobs' slots after from. Jobs that
// expect nothing are left out.
func Judge(list []*Job, credentials []*quota.Credential, from time.Time) []Verdict {
	verdicts := []Verdict{}
	for _, c := range credentials {
		for _, limit := range c.Limits {
			verdicts = append(verdicts, newDemand(list, c, limit, from).verdict())
		}
	}
	return verdicts
}

func (d *demand) verdict() Verdict {
	v := Verdict{
		Credential: d.credential.Name, Limit: d.limit.Name, Window: d.limit.Window.String(),
		Units: d.limit.Units, Reserve: d.limit.Reserve, Budget: d.limit.Budget(false),
		Demand: d.peak(false, nil, nil), AtWorst: d.peak(true, nil, nil), Estimated: !d.isWhole(),
		Shares: []Share{}, Changes: []Change{},
	}
	v.Proof, v.Ceiling = v.AtWorst <= v.Budget, v.Budget
	if v.AtWorst > 0 {
		v.Ceiling = mulDiv(v.Budget, v.Demand, v.AtWorst)
	}
	for _, a := range d.askers {
		v.Shares = append(v.Shares, d.share(a))
	}
	if !v.Proof {
		v.Changes = d.changes(&v)
	}
	return v
}

func (d *demand) share(a *asker) Share {
	counter := d.instead(a, withRegions(a.job, 1))
	counter.units = 1
	return Share{Job: a.job.Name, Slots: int(d.alone(counter)), Demand: d.alone(a), MostRegions: d.mostRegions(a)}
}

// mostRegions returns how many regions an asker may have.
func (d *demand) mostRegions(a *asker) int {
	const tried = 1000
	return most(max(tried, len(a.job.Regions)), func(n int) bool {
		fits := a.job.Stagger == EvenStagger || regions.Fits(a.period, a.job.Stagger, n)
		return fits && d.admits(a, d.instead(a, withRegions(a.job, n)))
	})
}

// admits tells whether the schedule is proof with b in the place of a.
func (d *demand) admits(a, b *asker) bool { return d.peak(true, a, b) <= d.limit.Budget(false) }

// withRegions returns a job with n regions, whatever they are called.
func withRegions(j *Job, n int) *Job {
	changed := *j
	changed.Regions = make(regions.Ring, n)
	return &changed
}

// most returns the greatest n from 1 to high for which ok holds, 0 if there is
// none: it holds up to that one and for none behind it.
func most(high int, ok func(n int) bool) int {
	beyond := 1
	for beyond <= high && ok(beyond) {
		beyond *= 2
	}
	known := beyond / 2
	return known + sort.Search(min(beyond, high+1)-known-1, func(i int) bool { return !ok(known + 1 + i) })
}
