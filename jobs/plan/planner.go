package plan

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/slidinglog"
)

const (
	// A plan for the same jobs and limits is valid for this long.
	maxPlanAge = time.Minute
	// Forecasts may take this share of the time, however often callers ask: one that takes a
	// second is valid for 20.
	maxForecastShare = 20

	day = 24 * time.Hour
)

// A Planner plans for the jobs of a runner and the credentials of a service. It caches a plan until
// something changes. Any number of goroutines may use it.
type Planner struct {
	runner  *jobs.Runner
	service *quota.Service

	// A plan may take half a minute. A forecast, which each status has, does not wait for one.
	planning sync.Mutex // guards what follows, and is held while something is planned
	planned  config     // that plans and fits are of
	plans    map[int]cached[*Plan]
	fits     cached[[]Fit]

	foreseeing sync.Mutex // guards what follows, and is held while a forecast is made
	foreseen   config     // that the forecast is of
	forecast   cached[[]Forecast]
}

// A config is the credentials and jobs that something is computed from.
type config []any

// A cached value is valid as long as its inputs are the same.
type cached[T any] struct {
	value  T
	inputs string
	at     time.Time
	took   time.Duration
}

// get returns the value. It is computed again unless it is younger than fresh with the same
// inputs, or younger than lax.
func (c *cached[T]) get(inputs string, fresh, lax time.Duration, compute func() (T, error)) (T, error) {
	age := time.Since(c.at)
	if !c.at.IsZero() && (c.inputs == inputs && age < fresh || age < lax) {
		return c.value, nil
	}
	start := time.Now()
	value, err := compute()
	if err == nil {
		*c = cached[T]{value, inputs, time.Now(), time.Since(start)}
	}
	return value, err
}

// NewPlanner returns a planner with an empty cache.
func NewPlanner(r *jobs.Runner, s *quota.Service) *Planner {
	return &Planner{runner: r, service: s}
}

// Jobs returns the names of the jobs.
func (p *Planner) Jobs() (names []string) {
	states, _ := p.runner.JobStates()
	for _, s := range states {
		names = append(names, s.Job.Name)
	}
	return names
}

// An Ask says what to plan.
type Ask struct {
	Days int
	// MaxAge is how old a plan may be if something has changed since.
	MaxAge time.Duration
	// With adds slots to jobs, by their names: what if?
	With map[string][]time.Time
}

// Plan returns a plan, which must not be changed. The error is the ledger's.
func (p *Planner) Plan(ctx context.Context, ask Ask) (*Plan, error) {
	p.planning.Lock()
	defer p.planning.Unlock()
	states, now, inputs, err := p.refresh(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(inputs.config, p.planned) {
		p.planned, p.plans, p.fits = inputs.config, make(map[int]cached[*Plan]), cached[[]Fit]{}
	}
	one := p.plans[ask.Days]
	if ask.With != nil {
		one, ask.MaxAge = cached[*Plan]{}, 0
	} else {
		defer func() { p.plans[ask.Days] = one }()
	}
	return one.get(inputs.text, maxPlanAge, ask.MaxAge, func() (*Plan, error) {
		var made strings.Builder
		for _, s := range states {
			fmt.Fprintln(&made, s.Took)
		}
		fits, err := p.fits.get(made.String(), math.MaxInt64, ask.MaxAge, func() ([]Fit, error) {
			return CheckFit(allExpecting(states), p.service.Credentials(), jobs.Reference), nil
		})
		if err != nil {
			return nil, err
		}
		return p.play(ctx, SimInput{From: now, Jobs: with(states, ask.With), Fits: fits}, ask.Days)
	})
}

// A Forecast is when a limit is exhausted if the jobs run as planned, and all other callers spend
// as in the last hour.
type Forecast struct {
	Credential string      `json:"credential"`
	Limit      string      `json:"limit"`
	PerHour    quota.Units `json:"per_hour"`         // that calls cost in the last hour
	GoneAt     time.Time   `json:"gone_at,omitzero"` // when something is refused; zero: nothing is until Until
	Until      time.Time   `json:"until"`            // how far the forecast looks
}

// ForecastOf returns the forecast of a limit, the zero value if there is none.
func ForecastOf(all []Forecast, credential, limit string) Forecast {
	i := slices.IndexFunc(all, func(f Forecast) bool { return f.Credential == credential && f.Limit == limit })
	if i < 0 {
		return Forecast{}
	}
	return all[i]
}

// Forecast returns one for each limit whose window is an hour long, or longer. It looks a day
// ahead. The error is the ledger's.
func (p *Planner) Forecast(ctx context.Context) ([]Forecast, error) {
	p.foreseeing.Lock()
	defer p.foreseeing.Unlock()
	states, now, inputs, err := p.refresh(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(inputs.config, p.foreseen) {
		p.foreseen, p.forecast = inputs.config, cached[[]Forecast]{}
	}
	return p.forecast.get(inputs.text, maxPlanAge, maxForecastShare*p.forecast.took, func() ([]Forecast, error) {
		played, err := p.play(ctx, SimInput{From: now, Jobs: states, Fits: []Fit{}, Others: true}, 1)
		if err != nil {
			return nil, err
		}
		list := []Forecast{}
		for _, l := range played.Limits {
			if l.isForeseen {
				list = append(list, Forecast{Credential: l.Credential, Limit: l.Limit, PerHour: l.PerHour, GoneAt: l.DryAt, Until: played.Until})
			}
		}
		return list, nil
	})
}

func (p *Planner) play(ctx context.Context, in SimInput, days int) (*Plan, error) {
	in.From = in.From.Truncate(time.Millisecond)
	for _, c := range p.service.Credentials() {
		limits, known, err := slidinglog.Simulate(ctx, p.service, c.Name)
		if err != nil {
			return nil, err
		}
		if known { // otherwise it was removed meanwhile
			in.Limits = append(in.Limits, limits)
		}
	}
	return Simulate(in, in.From.Add(time.Duration(days)*day)), nil
}

// Inputs are what a plan depends on. They differ if the plan does, unless only time passed without
// a slot.
type inputs struct {
	config config
	text   string // all else
}

// refresh returns the states of the jobs, and what a plan depends on now. The error is the ledger's.
func (p *Planner) refresh(ctx context.Context) (states []jobs.JobState, now time.Time, in inputs, err error) {
	states, now = p.runner.JobStates()
	var b strings.Builder
	for _, c := range p.service.Credentials() {
		in.config = append(in.config, c)
		usage, err := p.service.Usage(ctx, c.Name)
		if err != nil {
			return nil, now, inputs{}, err
		}
		for _, l := range usage.Limits {
			fmt.Fprintln(&b, l.Used, l.Closed.Until.UnixMilli(), l.CatchingUp.UnixMilli(), l.Lent)
		}
	}
	for _, s := range states {
		in.config = append(in.config, s.Job)
		fmt.Fprintln(&b, s.Cursor, s.Pause, s.Run, s.Took, s.Job.Schedule.Next(now))
	}
	in.text = b.String()
	return states, now, in, nil
}

// with adds slots to jobs.
func with(states []jobs.JobState, further map[string][]time.Time) []jobs.JobState {
	states = slices.Clone(states)
	for i := range states {
		if slots := further[states[i].Job.Name]; len(slots) > 0 {
			job := *states[i].Job
			job.Schedule = furtherSlots{job.Schedule, slots}
			states[i].Job = &job
		}
	}
	return states
}

// furtherSlots are a schedule's, and some more.
type furtherSlots struct {
	jobs.Schedule
	slots []time.Time
}

// Next implements jobs.Schedule.
func (f furtherSlots) Next(t time.Time) time.Time {
	next := f.Schedule.Next(t)
	for _, slot := range f.slots {
		if slot.After(t) && (next.IsZero() || slot.Before(next)) {
			next = slot.UTC()
		}
	}
	return next
}
