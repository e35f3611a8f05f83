package plan

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"quotad/jobs"
	"quotad/quota"
)

// A Plan says what the schedule of this daemon's jobs asks of each limit.
type Plan struct {
	Limits   []Fit    `json:"limits"`
	Measured []string `json:"measured,omitempty"`  // jobs without expects, of which the last ten runs were measured
	Unknown  []string `json:"unplanned,omitempty"` // jobs without expects and without a pass that ended ok: they are in no figure
}

// A Rate is how fast a limit is spent.
type Rate struct {
	Credential string      `json:"credential"`
	Limit      string      `json:"limit"`
	PerHour    quota.Units `json:"per_hour"` // in the last hour, by all
	// GoneAt is when the limit is used up by the coming slots and everybody else's last hour, if that is within a day and
	// before the sum expects it; else zero.
	GoneAt time.Time `json:"gone_at,omitzero"`
	// Spender is who spent most of that beyond the schedule, and Beyond how much in the hour.
	Spender string      `json:"spender,omitempty"`
	Beyond  quota.Units `json:"beyond,omitempty"`
}

// RateOf returns the rate of a limit, the zero value if there is none.
func RateOf(all []Rate, credential, limit string) Rate {
	i := slices.IndexFunc(all, func(r Rate) bool { return r.Credential == credential && r.Limit == limit })
	if i < 0 {
		return Rate{}
	}
	return all[i]
}

// A Planner plans for the jobs of a runner and the credentials of a service. Any number of goroutines may use it.
type Planner struct {
	Runner  *jobs.Runner
	Service *quota.Service

	mu    sync.Mutex // guards what follows; nothing waits under it
	rates []Rate     // the last ones
	until time.Time  // they are given until then
	fits  []Fit      // the last sum
	of    []any      // what it is of
}

// Plan returns what the schedule asks of each limit.
func (p *Planner) Plan() *Plan {
	result := &Plan{}
	states, _ := p.Runner.JobStates()
	result.Limits = p.sum(states, p.expecting(states, result))
	return result
}

// sum adds up again if something has changed.
func (p *Planner) sum(states []jobs.JobState, list []*jobs.Job) []Fit {
	credentials, of := p.Service.Credentials(), []any{}
	for _, c := range credentials {
		of = append(of, c)
	}
	for i, job := range list {
		of = append(of, states[i].Job, fmt.Sprint(job.Expects))
	}
	p.mu.Lock()
	fits, known := p.fits, slices.Equal(p.of, of)
	p.mu.Unlock()
	if !known {
		fits = Sum(list, credentials)
		p.mu.Lock()
		p.fits, p.of = fits, of
		p.mu.Unlock()
	}
	return fits
}

// expecting returns the jobs with what their passes spend: what they expect, or the mean of the last ten runs.
func (p *Planner) expecting(states []jobs.JobState, named *Plan) (list []*jobs.Job) {
	for _, s := range states {
		job := s.Job
		if len(job.Expects) == 0 && !job.Schedule.Next(jobs.Reference).IsZero() {
			one := *job
			one.Expects, job = p.measured(job.Name), &one
			if len(one.Expects) == 0 {
				named.Unknown = append(named.Unknown, job.Name)
			} else {
				named.Measured = append(named.Measured, job.Name)
			}
		}
		list = append(list, job)
	}
	return list
}

// measured returns the mean calls of the passes of a job that ended well in its last ten runs, rounded up.
func (p *Planner) measured(job string) jobs.Made {
	runs, _ := p.Runner.Runs(job, 10) // what cannot be read is not known
	sum, passes := jobs.Made{}, quota.Units(0)
	for _, r := range runs {
		for _, pass := range r.Passes {
			if pass.Outcome == jobs.OK {
				passes++
				for operation, calls := range pass.Made {
					sum[operation] += calls
				}
			}
		}
	}
	for operation, calls := range sum {
		sum[operation] = (calls + passes - 1) / passes
	}
	return sum
}

// Rates returns one for each limit whose window is an hour long, or longer. They may be some seconds old. The error is
// the ledger's.
func (p *Planner) Rates(ctx context.Context) ([]Rate, error) {
	p.mu.Lock()
	rates, fresh := p.rates, time.Now().Before(p.until)
	p.mu.Unlock()
	if fresh {
		return rates, nil
	}
	begun := time.Now()
	rates = []Rate{}
	states, _ := p.Runner.JobStates()
	all := p.expecting(states, &Plan{})
	fits := p.sum(states, all)
	for _, c := range p.Service.Credentials() {
		list, err := p.ratesOf(ctx, c, states, all, fits)
		if err != nil {
			return nil, err
		}
		rates = append(rates, list...)
	}
	const share = 20 // of the time they take a twentieth
	p.mu.Lock()
	p.rates, p.until = rates, time.Now().Add(share*time.Since(begun))
	p.mu.Unlock()
	return rates, nil
}

// ratesOf reads the last hour of a log.
func (p *Planner) ratesOf(
	ctx context.Context, c *quota.Credential, states []jobs.JobState, all []*jobs.Job, fits []Fit,
) (list []Rate, err error) {
	usage, err := p.Service.Usage(ctx, c.Name)
	if err != nil {
		return nil, err
	}
	spent := make([]map[string]quota.Units, len(usage.Limits)) // by caller
	for i := range spent {
		spent[i] = map[string]quota.Units{}
	}
	const most = 100_000
	read := 0
	err = p.Service.Walk(ctx, c.Name, usage.Now.Add(-time.Hour), func(e quota.Entry) bool {
		if _, isGrant := e.Grant(); isGrant && !e.At.After(usage.Now) {
			for i, l := range usage.Limits {
				units, _ := quota.ChargeIn(e.Charges, l.Name)
				spent[i][e.By] += units
			}
		}
		read++
		return read < most
	})
	if err != nil {
		return nil, err
	}
	for i, l := range usage.Limits {
		at := slices.IndexFunc(fits, func(f Fit) bool { return f.Credential == c.Name && f.Limit == l.Name })
		if at < 0 || l.Window.Nominal() < time.Hour {
			continue
		}
		r, others := Rate{Credential: c.Name, Limit: l.Name}, quota.Units(0)
		coming, lately := comingOf(all, states, c, l.Name, usage.Now)
		for by, units := range spent[i] {
			r.PerHour += units
			if i := slices.IndexFunc(states, func(s jobs.JobState) bool { return s.Job.Name == by }); i >= 0 && states[i].Run == nil {
				continue // a run that has ended spends nothing more
			}
			units -= lately[by]
			others += max(0, units)
			if units > r.Beyond || units == r.Beyond && units > 0 && by < r.Spender {
				r.Spender, r.Beyond = by, units
			}
		}
		if l.Closed.IsZero() && !l.DryRun {
			r.GoneAt = usedUp(l, fits[at], float64(others), coming, usage.Now)
		}
		list = append(list, r)
	}
	return list, nil
}

// comingOf returns what the coming slots of the jobs spend of a limit in each minute of a day, and what each job's slots
// of the last hour did, with one more: it may have been late.
func comingOf(all []*jobs.Job, states []jobs.JobState, c *quota.Credential, limit string, now time.Time) (coming []quota.Units, lately map[string]quota.Units) {
	coming, lately = make([]quota.Units, day/time.Minute), map[string]quota.Units{}
	for i, job := range all {
		charges, _ := c.Sum(job.Calls())
		run, _ := quota.ChargeIn(charges, limit)
		first := job.Schedule.Next(now.Add(-time.Hour))
		if run *= quota.Units(len(job.Regions)); job.Credential != c.Name || run == 0 || first.IsZero() {
			continue
		}
		lately[job.Name] = run
		for at := first; !at.IsZero() && at.Before(now.Add(day)); at = job.Schedule.Next(at) {
			if !at.After(now) {
				lately[job.Name] += run
			} else if !states[i].Pause.Active(at) {
				coming[at.Sub(now)/time.Minute] += run
			}
		}
	}
	return coming, lately
}

// usedUp returns when a limit is used up by the coming slots, and by everybody else in a straight line. It is zero if it
// is not within a day or before the period ends, or if the coming slots alone do the same. Of a sliding window, others
// that spend as much all the time have to leave the schedule too little.
func usedUp(l quota.LimitState, fit Fit, others float64, coming []quota.Units, now time.Time) time.Time {
	_, resets := l.Window.Bounds(now)
	inWindow := others * l.Window.Nominal().Hours()
	if others == 0 || !l.Window.Restarts() && float64(fit.Demand)+inWindow <= float64(fit.Budget) {
		return time.Time{}
	}
	left, growth := float64(l.Remaining()), quota.Units(0)
	most := max(0, fit.Demand-l.Used) // what the jobs spend on top, until what leaves makes up for it
	if !fit.Fits {
		most = quota.MaxUnits
	}
	for i, units := range coming {
		at := now.Add(time.Duration(i) * time.Minute)
		growth += units
		switch {
		case !resets.IsZero() && !at.Before(resets), left > 0 && float64(min(growth, most)) >= left:
			return time.Time{}
		case float64(min(growth, most))+others*float64(i)/60 >= left:
			return at
		}
	}
	return time.Time{}
}
