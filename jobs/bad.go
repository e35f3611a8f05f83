package jobs

import (
	"slices"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// A Failing is a region whose last passes failed, whatever later runs did without it.
type Failing struct {
	Region regions.Region `json:"region"`
	Since  time.Time      `json:"since"`
	Times  int            `json:"times"` // runs in a row
	Cause  string         `json:"cause,omitempty"`
	Run    string         `json:"run,omitempty"` // the last of them
}

const (
	maxCause   = 120 // bytes of a Cause
	MaxFailing = 100 // regions of a job that are known to fail
)

// failing returns the regions that fail after passes of a run that are over. A region without a pass among
// them is as it was. The list before is not changed.
func (r *Run) failing(before []Failing, passes ...Pass) []Failing {
	list := before
	for _, p := range passes {
		i := slices.IndexFunc(list, func(f Failing) bool { return f.Region == p.Region })
		one := Failing{Region: p.Region, Since: p.EndedAt}
		if i >= 0 {
			one = list[i]
		}
		switch {
		case p.Outcome == OK && i >= 0:
			list = slices.Delete(slices.Clone(list), i, i+1)
		case !p.Outcome.Failure() || one.Run == r.ID || i < 0 && len(list) == MaxFailing:
		default:
			one.Times, one.Run, one.Cause = one.Times+1, r.ID, quota.Clipped(p.Cause(), maxCause)
			list = slices.Clone(list)
			if i < 0 {
				i, list = len(list), append(list, one)
			}
			list[i] = one
		}
	}
	return list
}

// A Shortage says for how long a job has been short of units: its last runs on this host, without those of
// regions that an operator chose, ended because a pass did not fit or was denied.
type Shortage struct {
	Since time.Time `json:"since"`
	// Runs are those in a row that served no region.
	Runs int `json:"runs,omitempty"`
	// Region is where the last run stopped, and Times how many did there without having served it.
	Region regions.Region `json:"region"`
	Times  int            `json:"times"`
	Stop                  // of the last one
}

// shortage returns how short of units the job is after a run; nil: it is not. A run that was not short,
// and served nothing either, leaves that as it was.
func (r *Run) shortage(before *Shortage) *Shortage {
	served := slices.ContainsFunc(r.Passes, func(p Pass) bool { return p.Outcome.Served() })
	i := slices.IndexFunc(r.Passes, func(p Pass) bool {
		return (p.Outcome == Exhausted || p.Outcome == NotLaunched && (p.Reason == DoesNotFit || p.Reason == Closed)) && !r.served(p.Region)
	})
	switch {
	case i < 0 && served:
		return nil
	case i < 0:
		return before
	}
	p := r.Passes[i]
	s := Shortage{Since: p.StartedAt, Region: p.Region, Times: 1, Stop: p.Stop}
	s.Detail = quota.Clipped(p.Detail, maxCause)
	if before != nil && !served {
		s.Since, s.Runs = before.Since, before.Runs
	}
	if before != nil && before.Region == p.Region {
		s.Since, s.Times = before.Since, before.Times+1
	}
	if !served {
		s.Runs++
	}
	return &s
}
