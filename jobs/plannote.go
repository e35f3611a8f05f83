package jobs

import (
	"slices"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// tell has a run told of by itself, as long as there are not too many.
func (f *forecast) tell(p *player) {
	p.told = -1
	if len(f.plan.Runs) < mostRuns {
		p.told = len(f.plan.Runs)
		f.plan.Runs = append(f.plan.Runs, RunPlan{Job: p.Job.Name, Slot: p.course.slot, Served: []regions.Region{}})
	}
}

// told returns the run that a job is in, nil if it is not told of.
func (f *forecast) told(p *player) *RunPlan {
	if p.told < 0 {
		return nil
	}
	return &f.plan.Runs[p.told]
}

func (f *forecast) region(p *player, name regions.Region) *RegionPlan {
	list := f.plan.Jobs[p.index].Regions
	return &list[slices.IndexFunc(list, func(r RegionPlan) bool { return r.Region == name })]
}

// note books what a pass was decided in the limits that it counts in.
func (f *forecast) note(p *player, at time.Time, d quota.Decision) {
	for _, state := range d.Limits {
		l := f.limit(p, state.Name)
		l.Peak = max(l.Peak, state.Used)
		if d.Granted() {
			l.Spent += state.Cost
			f.plan.Jobs[p.index].Spent[state.Name] += state.Cost
			h := f.hour(l, at)
			h.Units += state.Cost
			h.Jobs[p.Job.Name] += state.Cost
		}
	}
}

func (f *forecast) limit(p *player, name string) *LimitPlan {
	return &f.plan.Limits[slices.IndexFunc(f.plan.Limits, func(l LimitPlan) bool { return l.Credential == p.Job.Credential && l.Limit == name })]
}

func (f *forecast) hour(l *LimitPlan, at time.Time) *HourPlan {
	return &l.Hours[int(at.Sub(l.Hours[0].At)/time.Hour)]
}

// stop ends a run at a region that a limit has no room for: it and those behind
// it lose this turn.
func (f *forecast) stop(p *player, at time.Time, d quota.Decision) {
	c, j, l := p.course, &f.plan.Jobs[p.index], f.limit(p, d.Limit)
	left := c.ring[c.begun:]
	j.Stopped++
	j.Skipped += len(left)
	l.Stops++
	l.Skipped += len(left)
	f.hour(l, at).Skipped += len(left)
	f.plan.Skipped += len(left)
	if l.DryAt.IsZero() {
		l.DryAt = at
	}
	for _, region := range left {
		f.region(p, region).Skipped++
	}
	if run := f.told(p); run != nil {
		run.StoppedAt, run.Limit = left[0], d.Limit
	}
	p.end(at)
}
