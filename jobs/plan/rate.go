package plan

import (
	"context"
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
func RateOf(all []Rate, credential, limit string) (r Rate) {
	if i := slices.IndexFunc(all, func(r Rate) bool { return r.Credential == credential && r.Limit == limit }); i >= 0 {
		r = all[i]
	}
	return r
}

// A Planner plans for the jobs of a runner and the credentials of a service. Any number of goroutines may use it.
type Planner struct {
	Runner  *jobs.Runner
	Service *quota.Service

	mu    sync.Mutex // guards what follows; nothing waits under it
	rates []Rate     // the last ones
	until time.Time  // they are given until then
}

// jobsOf returns the jobs of states.
func jobsOf(states []jobs.JobState) (list []*jobs.Job) {
	for _, s := range states {
		list = append(list, s.Job)
	}
	return list
}

// Plan returns what the schedule asks of each limit.
func (p *Planner) Plan() *Plan {
	states := p.Runner.JobStates()
	result := &Plan{Limits: Sum(jobsOf(states), p.Service.Credentials())}
	for _, s := range states {
		switch {
		case s.Schedule.Next(jobs.Reference).IsZero():
		case s.Measured:
			result.Measured = append(result.Measured, s.Name)
		case len(s.Expects) == 0:
			result.Unknown = append(result.Unknown, s.Name)
		}
	}
	return result
}

// Rates returns one for each limit whose window is an hour long, or longer. It reads the last hour of each log, at most
// once in 20 times as long as that takes. The error is the ledger's.
func (p *Planner) Rates(ctx context.Context) ([]Rate, error) {
	p.mu.Lock()
	rates, begun := p.rates, time.Now()
	fresh := begun.Before(p.until)
	p.mu.Unlock()
	if fresh {
		return rates, nil
	}
	rates = []Rate{}
	states := p.Runner.JobStates()
	for _, c := range p.Service.Credentials() {
		usage, err := p.Service.Usage(ctx, c.Name)
		if err != nil {
			return nil, err
		}
		spent, err := p.lastHour(ctx, c.Name, usage.Now)
		if err != nil {
			return nil, err
		}
		for _, fit := range Sum(jobsOf(states), []*quota.Credential{c}) {
			i := slices.IndexFunc(usage.Limits, func(l quota.LimitState) bool { return l.Name == fit.Limit })
			if i >= 0 && usage.Limits[i].Window.Nominal() >= time.Hour {
				rates = append(rates, rateOf(usage.Limits[i], fit, c, states, spent, usage.Now))
			}
		}
	}
	p.mu.Lock()
	p.rates, p.until = rates, time.Now().Add(20*time.Since(begun))
	p.mu.Unlock()
	return rates, nil
}

// A spender is a caller with the limit that it spends from.
type spender struct{ by, limit string }

// lastHour reads what was granted in the last hour.
func (p *Planner) lastHour(ctx context.Context, credential string, now time.Time) (map[spender]quota.Units, error) {
	spent, read := map[spender]quota.Units{}, 0
	err := p.Service.Walk(ctx, credential, now.Add(-time.Hour), func(e quota.Entry) bool {
		if _, isGrant := e.Grant(); isGrant {
			for _, charge := range e.Charges {
				spent[spender{e.By, charge.Limit}] += charge.Units
			}
		}
		read++
		return read < 100_000
	})
	return spent, err
}

// rateOf goes by what each caller has spent in the last hour. A job has spent what its slots of that hour explain, with
// one more, which may have been late; one whose run has ended spends nothing more than its coming slots.
func rateOf(l quota.LimitState, fit Fit, c *quota.Credential, states []jobs.JobState, spent map[spender]quota.Units, now time.Time) Rate {
	r, others := Rate{Credential: fit.Credential, Limit: fit.Limit}, quota.Units(0)
	coming, explained := make([]quota.Units, day/time.Minute), map[string]quota.Units{}
	for _, s := range states {
		charges, _ := c.Sum(s.Calls())
		run, _ := quota.ChargeIn(charges, l.Name)
		if run *= quota.Units(len(s.Regions)); s.Credential != c.Name {
			run = 0
		}
		explained[s.Name] = run
		for at := s.Schedule.Next(now.Add(-time.Hour)); run > 0 && !at.IsZero() && at.Before(now.Add(day)); at = s.Schedule.Next(at) {
			if !at.After(now) {
				explained[s.Name] += run
			} else if !s.Pause.Active(at) {
				coming[at.Sub(now)/time.Minute] += run
			}
		}
		if !s.Runs {
			explained[s.Name] = quota.MaxUnits
		}
	}
	for of, units := range spent {
		if of.limit != l.Name {
			continue
		}
		r.PerHour += units
		beyond := max(0, units-explained[of.by])
		others += beyond
		if beyond > r.Beyond || beyond == r.Beyond && beyond > 0 && of.by < r.Spender {
			r.Spender, r.Beyond = of.by, beyond
		}
	}
	if l.Closed.IsZero() && !l.DryRun {
		r.GoneAt = usedUp(l, fit, float64(others), coming, now)
	}
	return r
}

// usedUp returns when a limit is used up by the coming slots, and by everybody else in a straight line. It is zero if it
// is not within a day or before the period ends, or if the coming slots alone do the same. Of a sliding window, others
// that spend as much all the time have to leave the schedule too little.
func usedUp(l quota.LimitState, fit Fit, others float64, coming []quota.Units, now time.Time) time.Time {
	if others == 0 || !l.Window.Restarts() && float64(fit.Demand)+others*l.Window.Nominal().Hours() <= float64(fit.Budget) {
		return time.Time{}
	}
	_, resets := l.Window.Bounds(now)
	left, growth, most := float64(l.Remaining()), quota.Units(0), max(0, fit.Demand-l.Used)
	if !fit.Fits {
		most = quota.MaxUnits // else the jobs spend no more on top: what leaves makes up for it
	}
	for i, units := range coming {
		at := now.Add(time.Duration(i) * time.Minute)
		growth = min(growth+units, most)
		switch {
		case !resets.IsZero() && !at.Before(resets), left > 0 && float64(growth) >= left:
			return time.Time{}
		case float64(growth)+others*float64(i)/60 >= left:
			return at
		}
	}
	return time.Time{}
}
