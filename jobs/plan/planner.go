package plan

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"quotad/jobs"
	"quotad/quota"
)

// A Plan says what the schedule of this daemon's jobs asks of each limit.
type Plan struct {
	Limits    []Fit    `json:"limits"`
	Measured  []string `json:"measured,omitempty"`  // jobs without expects, of which recent passes were measured
	Unknown   []string `json:"unplanned,omitempty"` // jobs without expects and without a pass that ended ok: they are in no figure
	Elsewhere []string `json:"elsewhere,omitempty"` // jobs that spent in the last day and that this daemon does not have: they are in no figure
}

// A WhatIf gives a job another schedule.
type WhatIf struct {
	Job   string
	At    time.Time     // one slot more
	Every time.Duration // if not 0, slots at this interval instead
}

// A Planner plans for the jobs of a runner and the credentials of a service. Any number of
// goroutines may use it.
type Planner struct {
	Runner  *jobs.Runner
	Service *quota.Service

	foreseen   atomic.Pointer[foreseen]
	foreseeing sync.Mutex // is held while a forecast is made; who has an older one does not wait
}

// Foreseen is the last forecast.
type foreseen struct {
	forecasts []Forecast
	of        []any // the credentials and jobs
	at        time.Time
	took      time.Duration
}

// Forecasts may take one in this many parts of the time, however often callers ask.
const forecastShare = 20

// Jobs returns the names of the jobs.
func (p *Planner) Jobs() (names []string) {
	states, _ := p.Runner.JobStates()
	for _, s := range states {
		names = append(names, s.Job.Name)
	}
	return names
}

// Plan returns a plan: what if some jobs had another schedule? The error is the ledger's.
func (p *Planner) Plan(ctx context.Context, what []WhatIf) (*Plan, error) {
	states, now := p.Runner.JobStates()
	pasts := map[string]*past{}
	for _, c := range p.Service.Credentials() {
		one, err := readPast(ctx, p.Service, c)
		if err != nil {
			return nil, err
		}
		pasts[c.Name] = one
	}
	return planOf(states, p.Service.Credentials(), pasts, what, now)
}

func planOf(states []jobs.JobState, credentials []*quota.Credential, pasts map[string]*past, what []WhatIf, now time.Time) (*Plan, error) {
	result, from := &Plan{}, jobs.Reference
	var list []*jobs.Job
	local := map[string]bool{}
	for _, s := range states {
		job, measured := expecting(s)
		local[job.Name] = true
		for _, w := range what {
			if w.Job == job.Name {
				var err error
				if job, err = w.apply(job); err != nil {
					return nil, err
				}
				from = now
			}
		}
		switch {
		case job.Schedule.Next(from).IsZero(): // it asks for nothing
		case len(job.Expects) == 0:
			result.Unknown = append(result.Unknown, job.Name)
		case measured:
			result.Measured = append(result.Measured, job.Name)
		}
		list = append(list, job)
	}
	result.Limits = CheckFit(list, credentials, from, func(credential string, limit int) quota.Units {
		past := pasts[credential]
		window := past.credential.Limits[limit].Window.Nominal()
		return quota.Units(past.sum(limit, isOutside).day * float64(window) / float64(day))
	})
	elsewhere := map[string]bool{}
	for _, past := range pasts {
		for by := range past.by {
			if !isOutside(by) && !local[by] {
				elsewhere[by] = true
			}
		}
	}
	result.Elsewhere = slices.Sorted(maps.Keys(elsewhere))
	return result, nil
}

// expecting returns a job with what its passes spend: what they expect, or what was measured.
func expecting(state jobs.JobState) (job *jobs.Job, measured bool) {
	if len(state.Job.Expects) > 0 || len(state.Took) == 0 {
		return state.Job, false
	}
	one := *state.Job
	one.Expects = state.Took
	return &one, true
}

// apply returns the job with the other schedule.
func (w WhatIf) apply(job *jobs.Job) (*jobs.Job, error) {
	changed := *job
	if w.Every == 0 {
		changed.Schedule = oneMore{job.Schedule, w.At.UTC()}
		return &changed, nil
	}
	before, _ := job.Schedule.(jobs.Every)
	every, err := jobs.NewEvery(w.Every, before.Phase)
	changed.Schedule = every
	return &changed, err
}

// oneMore is a schedule with one slot more.
type oneMore struct {
	jobs.Schedule
	slot time.Time
}

// Next implements jobs.Schedule.
func (o oneMore) Next(t time.Time) time.Time {
	next := o.Schedule.Next(t)
	if o.slot.After(t) && (next.IsZero() || o.slot.Before(next)) {
		return o.slot
	}
	return next
}

// Forecast returns one for each limit whose window is an hour long, or longer. It may be as old as 20
// times what it takes to make. The error is the ledger's.
func (p *Planner) Forecast(ctx context.Context) ([]Forecast, error) {
	of := p.configured()
	last := p.foreseen.Load()
	if last != nil && !slices.Equal(last.of, of) {
		last = nil
	}
	if last != nil && time.Since(last.at) < forecastShare*last.took {
		return last.forecasts, nil
	}
	if !p.foreseeing.TryLock() {
		if last != nil {
			return last.forecasts, nil
		}
		p.foreseeing.Lock()
	}
	defer p.foreseeing.Unlock()
	begun := time.Now()
	list, err := p.foresee(ctx)
	if err == nil {
		p.foreseen.Store(&foreseen{list, of, time.Now(), time.Since(begun)})
	}
	return list, err
}

// configured returns the credentials and jobs.
func (p *Planner) configured() (of []any) {
	for _, c := range p.Service.Credentials() {
		of = append(of, c)
	}
	states, _ := p.Runner.JobStates()
	for _, s := range states {
		of = append(of, s.Job)
	}
	return of
}

// foresee makes a forecast. It reads the logs first, then which runs are under way: what they have
// spent since is in neither, and so nothing is counted twice.
func (p *Planner) foresee(ctx context.Context) ([]Forecast, error) {
	list := []Forecast{}
	for _, c := range p.Service.Credentials() {
		past, err := readPast(ctx, p.Service, c)
		if err != nil {
			return nil, err
		}
		states, _ := p.Runner.JobStates()
		list = append(list, foresee(past, states)...)
	}
	return list, nil
}
