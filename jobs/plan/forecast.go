package plan

import (
	"fmt"
	"math"
	"slices"
	"time"

	"quotad/jobs"
	"quotad/quota"
)

// A forecast looks a day ahead, in steps.
const (
	step    = time.Minute
	perHour = int(time.Hour / step)
	steps   = 24 * perHour
	// minWindow is the shortest window that has a forecast.
	minWindow = time.Hour
	// noticeable is the part of a limit that callers must have spent within an hour before their last minute counts.
	noticeable = 0.05
)

// A Forecast is what becomes of a limit if the coming slots spend what their jobs expect, and all
// other callers as much as in the last hour on average or, if that is more, as in the last minute. The last minute counts only
// where they spent a noticeable part of the limit within the hour: a few calls by hand are no rate, and a loop is seen when it
// is a twentieth of its way to the end. A run that has ended projects nothing.
type Forecast struct {
	Credential string      `json:"credential"`
	Limit      string      `json:"limit"`
	From       time.Time   `json:"from"`
	Until      time.Time   `json:"until"` // how far the forecast looks
	PerHour    quota.Units `json:"per_hour"`
	// GoneAt is when the limit is used up; zero: it is not until Until. What is too large for what is
	// left now does not use it up: TooLittle names that, "big (300)".
	GoneAt    time.Time `json:"gone_at,omitzero"`
	TooLittle string    `json:"too_little,omitempty"`
	// Spender is who spends most now, of callers outside jobs and jobs under way, and Rate what that comes to in an
	// hour; empty: no caller.
	Spender  string        `json:"spender,omitempty"`
	Rate     quota.Units   `json:"rate,omitempty"`
	ResetsAt time.Time     `json:"resets_at,omitzero"` // when the next period of a calendar window begins
	Hours    []quota.Units `json:"hours"`              // what is spent in each hour from From on
}

// ForecastOf returns the forecast of a limit, the zero value if there is none.
func ForecastOf(all []Forecast, credential, limit string) Forecast {
	i := slices.IndexFunc(all, func(f Forecast) bool { return f.Credential == credential && f.Limit == limit })
	if i < 0 {
		return Forecast{}
	}
	return all[i]
}

// A spender is a job with the passes that it launches in each step.
type spender struct {
	name       string
	cost       []float64 // of a pass, by limit
	useReserve bool
	fits       bool // a pass would fit now
	passes     []int
}

// foresee returns the forecasts of a credential's limits.
func foresee(p *past, states []jobs.JobState) []Forecast {
	f := &future{past: p, now: p.usage.Now.UTC()}
	var loops []*jobs.Run
	runs := map[string]*jobs.Run{} // under way, of each job
	for _, s := range states {
		runs[s.Job.Name] = s.Run
		if s.Job.Credential == p.credential.Name {
			if loop := f.addJob(s); loop != nil {
				loops = append(loops, loop)
			}
		}
	}
	for i, l := range p.usage.Limits {
		others := func(by string) bool { _, isJob := runs[by]; return !isJob }
		outside := p.sum(i, others)
		lately, counts := p.lately(i, outside)
		rate := max(outside.hour/float64(perHour), lately)
		spender, most := p.greatest(i, counts, func(by string) bool { return others(by) || runs[by] != nil })
		for _, r := range loops {
			elapsed := min(step, max(time.Second, f.now.Sub(r.StartedAt)))
			ofRun := p.sum(i, func(by string) bool { return by == r.Job })
			own, _ := p.lately(i, ofRun)
			own *= float64(step) / float64(elapsed)
			rate += own
			if perHour := own * float64(perHour); perHour > most {
				spender, most = r.Job, perHour
			}
		}
		_, resets := l.Window.Bounds(f.now)
		f.limits = append(f.limits, &limitAhead{
			LimitState: l, used: float64(l.Used), frees: p.frees[i], rate: rate, least: outside.least, resets: resets, hours: make([]float64, 24),
			spender: spender, most: most,
		})
	}
	for s := range steps {
		f.step(s)
	}
	return f.forecasts()
}

// A future is a forecast in progress.
type future struct {
	past   *past
	now    time.Time
	jobs   []*spender
	limits []*limitAhead
}

// A limitAhead is a limit at a coming step.
type limitAhead struct {
	quota.LimitState
	used   float64
	frees  []float64
	rate   float64 // of everybody else, in each step
	least  float64 // what a call of theirs costs
	resets time.Time
	left   float64 // for ordinary callers; infinite while nothing is refused
	starts float64 // what was left at first
	shut   bool    // closed
	gone   time.Time
	larger string // who needs more than is left now
	hours  []float64

	spender string
	most    float64 // what the spender spends in an hour
}

// addJob adds the coming passes of a job. It returns a run under way that has spent more than all its
// passes expect: that continues as in the last minute, once it has spent a noticeable part.
func (f *future) addJob(state jobs.JobState) (loop *jobs.Run) {
	job, _ := expecting(state)
	r := state.Run
	charges, err := f.past.credential.Sum(job.Calls())
	if err != nil || len(charges) == 0 {
		return r
	}
	one := &spender{name: job.Name, useReserve: job.UseReserve, passes: make([]int, steps)}
	for _, l := range f.past.usage.Limits {
		units, _ := quota.ChargeIn(charges, l.Name)
		one.cost = append(one.cost, float64(units))
	}
	cost := f.past.credential.Cost(job.Calls())
	l := &load{timeline: &timeline{job: job}, passes: passesOf(job, cost)}
	for at := state.Pause.Next(job.Schedule, f.now); !at.IsZero() && at.Before(f.now.Add(day)); {
		next := state.Pause.Next(job.Schedule, at)
		one.add(l.run(slotOf(at, next)), 0, f.now)
		at = next
	}
	if r != nil {
		if n := len(r.Ring); r.Spent() > cost*quota.Units(n) {
			loop = r
		} else {
			l.passes = min(l.passes, n)
			one.add(l.run(slotOf(r.Slot, job.Schedule.Next(r.Slot))), begun(r), f.now)
		}
	}
	f.jobs = append(f.jobs, one)
	return loop
}

// begun returns how many passes of a run have begun to spend.
func begun(r *jobs.Run) (n int) {
	for _, p := range r.Passes {
		if p.Attempt == 0 && (p.Outcome != jobs.Running || p.Units > 0) {
			n++
		}
	}
	return n
}

// add adds the passes of a run from the i-th on. Those that are late start now.
func (s *spender) add(r run, i int, now time.Time) {
	for i < r.passes {
		at := int(max(0, r.slot+int64(i)*r.stagger-now.UnixNano()) / int64(step))
		if at >= steps {
			return
		}
		until := max(i+1, r.before(now.Add(time.Duration(at+1)*step).UnixNano()))
		s.passes[at] += until - i
		i = until
	}
}

// step spends what is asked for in a step.
func (f *future) step(s int) {
	now := f.now.Add(time.Duration(s) * step)
	for _, l := range f.limits {
		l.advance(s, now)
	}
	for _, j := range f.jobs {
		if s == 0 {
			f.compare(j)
		}
		n := float64(j.passes[s])
		if n == 0 {
			continue
		}
		fit := min(n, f.fitting(j))
		for i, l := range f.limits {
			if fit < n && j.fits && math.Floor(l.fitting(j.cost[i], j.useReserve)) == fit {
				l.goneAt(now, fit/n)
			}
			l.spend(s, fit*j.cost[i])
		}
	}
	for _, l := range f.limits {
		switch {
		case l.rate == 0:
		case max(l.left, l.starts) >= l.least:
			l.others(s, now)
		case s == 0 && l.left > 0:
			l.larger = fmt.Sprintf("calls (%s)", quota.Thousands(int64(l.least)))
		}
	}
}

// compare finds out whether a pass of a job fits now, and in which limits it does not.
func (f *future) compare(j *spender) {
	j.fits = f.fitting(j) >= 1
	for i, l := range f.limits {
		if left := l.fitting(j.cost[i], j.useReserve); 0 < left && left < 1 && slices.Max(j.passes) > 0 {
			l.larger = fmt.Sprintf("%s (%s)", j.name, quota.Thousands(int64(j.cost[i])))
		}
	}
}

// fitting returns how many passes of a job fit.
func (f *future) fitting(j *spender) float64 {
	fit := math.Inf(1)
	for i, l := range f.limits {
		if l.isForeseen() {
			fit = min(fit, math.Floor(l.fitting(j.cost[i], j.useReserve)))
		}
	}
	return fit
}

// A limit with a short window is a pace, and no forecast.
func (l *limitAhead) isForeseen() bool { return l.Window.Nominal() >= minWindow }

func (l *limitAhead) fitting(cost float64, useReserve bool) float64 {
	left := l.left
	if useReserve && !l.shut {
		left += float64(l.Reserve)
	}
	if cost == 0 {
		return math.Inf(1)
	}
	return max(0, left) / cost
}

// advance frees what leaves the window by a step.
func (l *limitAhead) advance(s int, now time.Time) {
	if !l.resets.IsZero() && !now.Before(l.resets) {
		l.used = 0
		_, l.resets = l.Window.Bounds(now)
	}
	if s > 0 {
		l.used = max(0, l.used-l.frees[s-1])
	}
	l.left = float64(l.Budget(false)) - l.used
	if l.DryRun {
		l.left = math.Inf(1)
	}
	if l.shut = now.Before(l.Closed.Until); l.shut {
		l.left = 0
	}
	if s == 0 {
		l.starts = l.left
	}
}

func (l *limitAhead) spend(s int, units float64) {
	l.used, l.left = l.used+units, l.left-units
	l.hours[s/perHour] += units
	if !l.Window.Restarts() {
		if leaves := s + int(l.Window.Length/step); leaves < steps {
			l.frees[leaves] += units
		}
	}
}

// others spends what everybody else does in a step, as far as there is room.
func (l *limitAhead) others(s int, now time.Time) {
	spent := max(0, min(l.rate, l.left))
	if spent < l.rate {
		l.goneAt(now, spent/l.rate)
	}
	l.spend(s, spent)
}

// goneAt notes that the limit was used up after a part of the step that begins now.
func (l *limitAhead) goneAt(now time.Time, part float64) {
	if l.gone.IsZero() && !l.shut {
		l.gone = now.Add(time.Duration(part * float64(step)))
	}
}

func (f *future) forecasts() (list []Forecast) {
	for i, l := range f.limits {
		if !l.isForeseen() {
			continue
		}
		one := Forecast{
			Credential: f.past.credential.Name, Limit: l.Name, From: f.now, Until: f.now.Add(day), GoneAt: l.gone, TooLittle: l.larger,
			Spender: l.spender, Rate: quota.Units(l.most),
			PerHour: quota.Units(f.past.sum(i, func(string) bool { return true }).hour),
		}
		if _, resets := l.Window.Bounds(f.now); !resets.IsZero() {
			one.ResetsAt = resets.UTC()
		}
		for _, units := range l.hours {
			one.Hours = append(one.Hours, quota.Units(math.Round(units)))
		}
		list = append(list, one)
	}
	return list
}
