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

// A Fit says what the schedule asks of a limit in its worst window, if every pass spends what it
// expects to.
type Fit struct {
	Credential string      `json:"credential"`
	Limit      string      `json:"limit"`
	Window     string      `json:"window"` // as quota.Window describes it
	Units      quota.Units `json:"units"`
	Reserve    quota.Units `json:"reserve"`
	Budget     quota.Units `json:"budget"` // what jobs may spend in one window: units less reserve, unless all use that

	Demand  quota.Units `json:"demand"`           // the most that is asked for in one window, others included, if every pass spends at its start
	AtWorst quota.Units `json:"at_worst"`         // the same if passes fall together: see the package's comment
	Others  quota.Units `json:"others,omitempty"` // of these, by callers outside jobs: the last day's mean
	Fits    bool        `json:"fits"`             // AtWorst is at most Budget, or Paced
	Paced   bool        `json:"paced,omitempty"`  // the limit returns so soon that all jobs wait for it
	DryRun  bool        `json:"dry_run,omitempty"`

	Shares []JobDemand `json:"shares"`           // of the jobs that count in the limit: with Others they are Demand
	Change *Change     `json:"change,omitempty"` // nil if it fits, or if no other interval of one job is enough
}

// A JobDemand is what one job asks for in the worst window.
type JobDemand struct {
	Job    string      `json:"job"`
	Slots  int         `json:"slots"` // in that window
	Demand quota.Units `json:"demand"`
}

// FitsOnTime returns whether the schedule fits as long as no pass is late.
func (f *Fit) FitsOnTime() bool { return f.Demand <= f.Budget || f.Paced }

// Missing returns by how much the schedule does not fit, at worst.
func (f *Fit) Missing() quota.Units {
	if f.Fits || f.DryRun {
		return 0
	}
	return f.AtWorst - f.Budget
}

// String returns the verdict: "does not fit: 9,600 units asked in any 24h, 100 more than the 9,500 for jobs".
func (f *Fit) String() string {
	asked, budget := f.Demand.Text()+" asked "+f.Window, quota.Thousands(f.Budget)
	of := fmt.Sprintf("%s of %s asked %s", quota.Thousands(f.Demand), f.Budget.Text(), f.Window)
	switch {
	case f.Demand == 0:
		return "asks for none of its " + f.Budget.Text()
	case f.Paced && f.AtWorst > f.Budget:
		return "fits: " + of + ", and runs wait for it"
	case f.Fits && f.AtWorst > f.Demand:
		return fmt.Sprintf("fits: %s, %s left; %s if passes fall together", of, quota.Thousands(f.Budget-f.Demand), quota.Thousands(f.Budget-f.AtWorst))
	case f.Fits:
		return fmt.Sprintf("fits: %s, %s left", of, quota.Thousands(f.Budget-f.Demand))
	case f.FitsOnTime():
		return fmt.Sprintf("may not fit, if passes fall together: %s, and %s then, %s more than the %s for jobs",
			asked, quota.Thousands(f.AtWorst), quota.Thousands(f.AtWorst-f.Budget), budget)
	}
	return fmt.Sprintf("does not fit: %s, %s more than the %s for jobs", asked, quota.Thousands(f.Demand-f.Budget), budget)
}

// Shortage says in a sentence that the schedule does not fit.
func (f *Fit) Shortage() string {
	return fmt.Sprintf("%s %s: the schedule %s", f.Credential, f.Limit, f)
}

// Cure returns what would make it fit: "trending every 1h12m instead of 1h would fit".
func (f *Fit) Cure() string {
	if f.Change == nil {
		return "no other interval of one job is enough"
	}
	return f.Change.String() + " would fit"
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
	if f.Others > 0 {
		parts = append(parts, "outside jobs "+quota.Thousands(f.Others))
	}
	return strings.Join(parts, ", ")
}

// CheckFit returns for every limit of the credentials, in their order, whether the jobs fit it from
// an instant on, if others spend as much in each window as they say: nil for nothing. Jobs without
// expects are left out.
func CheckFit(list []*jobs.Job, credentials []*quota.Credential, from time.Time, others func(credential string, limit int) quota.Units) []Fit {
	fits := []Fit{}
	for _, c := range credentials {
		var timelines []*timeline
		for _, job := range list {
			if job.Credential == c.Name && !job.Schedule.Next(from).IsZero() {
				timelines = append(timelines, newTimeline(job, from))
			}
		}
		for i, limit := range c.Limits {
			d := newDemand(timelines, c, limit, from)
			if others != nil {
				d.others = others(c.Name, i)
			}
			fits = append(fits, d.fit())
		}
	}
	return fits
}

func (d *demand) fit() Fit {
	d.measure()
	f := Fit{
		Credential: d.credential.Name, Limit: d.limit.Name, Window: d.limit.Window.Describe(),
		Units: d.limit.Units, Reserve: d.limit.Reserve, Budget: d.budget(), DryRun: d.limit.DryRun,
		Demand: d.others + d.onTime, AtWorst: d.others + d.late, Others: d.others,
		Shares: []JobDemand{}, Paced: d.isPaced(),
	}
	f.Fits = f.AtWorst <= f.Budget || f.Paced
	for _, l := range d.loads {
		if d.worstIn == nil {
			break
		}
		slots, passes := l.within(d.worstIn, d.worst)
		f.Shares = append(f.Shares, JobDemand{Job: l.job.Name, Slots: slots, Demand: l.units * quota.Units(passes)})
	}
	slices.SortStableFunc(f.Shares, func(a, b JobDemand) int { return cmp.Compare(b.Demand, a.Demand) })
	if !f.Fits {
		f.Change = d.change(&f)
	}
	return f
}
