package plan

import (
	"slices"
	"time"

	"quotad/jobs"
	"quotad/quota"
)

// A Fit says whether a schedule fits a limit, if nobody else spends from it and
// every pass spends what it expects to.
type Fit struct {
	Credential string      `json:"credential"`
	Limit      string      `json:"limit"`
	Window     string      `json:"window"` // as quota.Window describes it
	Units      quota.Units `json:"units"`
	Reserve    quota.Units `json:"reserve"`
	Budget     quota.Units `json:"budget"` // what jobs may spend in one window: units less reserve, unless all use that

	Demand  quota.Units `json:"demand"`            // the most that is asked for in one window, if every pass spends at its start
	AtWorst quota.Units `json:"at_worst"`          // the same if every pass is as late as it may be: see the package's comment
	Fits    bool        `json:"fits"`              // AtWorst is at most Budget, or all jobs wait for the limit
	DryRun  bool        `json:"dry_run,omitempty"` // the limit refuses nothing, so that nobody runs dry
	// Estimated tells that there are too many slots to look at a whole window: the
	// figures were computed from a part of it.
	Estimated bool `json:"estimated,omitempty"`

	Shares []Share `json:"shares"` // of the jobs that count in the limit, as configured
	// Changes are those that would each make the schedule fit, the one that gives up
	// least first. Empty if it fits, or if no single change is enough.
	Changes []Change `json:"changes"`
}

// FitsOnTime tells whether the schedule fits as long as no pass is late.
func (f *Fit) FitsOnTime() bool { return f.Demand <= f.Budget }

// A Share is what one job asks of a limit.
type Share struct {
	Job    string      `json:"job"`
	Slots  int         `json:"slots"`  // at most in one window
	Demand quota.Units `json:"demand"` // the most in one window, on time
	// MostRegions is how many regions the job may have so that the schedule fits, if
	// all else stays; from 0, and no more than 1,000 are tried.
	MostRegions int `json:"most_regions"`
}

// CheckFit tells of every limit of the credentials, in their order, whether the
// jobs fit it. It looks at five weeks and a window of the jobs' slots after from;
// where slots are so frequent that it would be too much, at fewer. Jobs that
// expect nothing are left out.
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
		Demand: d.most(peak(quota.MaxUnits, nil, d.onTime)), AtWorst: d.most(peak(quota.MaxUnits, nil, d.late)),
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

// isPaced tells whether all that counts in the limit waits for it: it comes back so soon that
// runs are late by it, and nobody runs dry.
func (d *demand) isPaced() bool {
	return len(d.loads) > 0 && !slices.ContainsFunc(d.loads, func(l *load) bool { return d.limit.Window.Span() > l.job.MaxWait })
}

func (d *demand) share(l *load) Share {
	slots := d.changed(l, withRegions(l.job, 1))
	slots.units = 1
	return Share{
		Job:         l.job.Name,
		Slots:       int(d.most(peak(quota.MaxUnits, nil, d.events(slots, false)...))),
		Demand:      d.most(peak(quota.MaxUnits, nil, l.onTime...)),
		MostRegions: d.mostRegions(l),
	}
}
