package plan

import (
	"slices"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/slidinglog"
	"quotad/regions"
)

const (
	maxPasses = 300_000 // that are simulated
	maxRuns   = 100     // that are listed
)

// A SimInput is what a simulation begins with.
type SimInput struct {
	From   time.Time
	Jobs   []jobs.JobState
	Limits []*slidinglog.Simulation // of every credential, in their order; Simulate spends from them
	Fits   []Fit                    // of every limit, as CheckFit returns them; nil: Simulate computes them
	Others bool                     // all other callers spend as in the last hour
}

// Simulate returns what the jobs will do until an instant, and whether they fit. It
// stops at some 300,000 passes.
func Simulate(in SimInput, until time.Time) *Plan {
	s := newSim(in, until)
	s.play()
	s.checkFit(in)
	return s.plan
}

// A sim is a simulation in progress.
type sim struct {
	plan   *Plan
	jobs   []*jobSim
	others []*othersSim
	next   time.Time // when the others spend next
}

// newSim returns a simulation before its first pass.
func newSim(in SimInput, until time.Time) *sim {
	s := &sim{plan: &Plan{From: in.From, Until: until, Limits: []Limit{}, Jobs: make([]Job, 0, len(in.Jobs)), Runs: make([]Run, 0, maxRuns)}}
	for _, limits := range in.Limits {
		used := limits.Used(in.From)
		for i, limit := range limits.Credential.Limits {
			_, resets := limit.Window.Bounds(in.From)
			s.plan.Limits = append(s.plan.Limits, Limit{
				Fit:  Fit{Credential: limits.Credential.Name, Limit: limit.Name},
				Used: used[i], Peak: used[i], ResetsAt: resets.UTC(), Hours: hours(in.From, until),
			})
		}
	}
	for _, state := range in.Jobs {
		s.addJob(state, in.Limits)
	}
	s.addOthers(in)
	return s
}

// hours returns empty hours from one instant until another.
func hours(from, until time.Time) []Hour {
	list := []Hour{}
	for at := from.UTC().Truncate(time.Hour); at.Before(until); at = at.Add(time.Hour) {
		list = append(list, Hour{At: at, Jobs: map[string]quota.Units{}})
	}
	return list
}

// addJob adds a job to the simulation, unless what it spends is unknown.
func (s *sim) addJob(state jobs.JobState, all []*slidinglog.Simulation) {
	job, measured := expecting(state)
	state.Job = job
	limits, charges := price(job, all)
	if len(charges) == 0 {
		s.plan.Unknown = append(s.plan.Unknown, job.Name)
		return
	}
	s.plan.Jobs = append(s.plan.Jobs, Job{
		Job: job.Name, Credential: job.Credential, Paused: state.Pause.Active(s.plan.From), Measured: measured,
		Spent: map[string]quota.Units{},
	})
	j := &jobSim{JobState: state, limits: limits, charges: charges, cost: limits.Credential.Cost(job.Calls()), outcome: &s.plan.Jobs[len(s.plan.Jobs)-1]}
	for _, region := range job.Regions {
		j.outcome.Regions = append(j.outcome.Regions, Region{Region: region})
	}
	if state.Run != nil {
		run := *state.Run
		j.Run, j.run = &run, underWay(&run, job, j.cost)
	}
	j.await(s.plan.From)
	s.jobs = append(s.jobs, j)
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

func allExpecting(states []jobs.JobState) []*jobs.Job {
	list := make([]*jobs.Job, len(states))
	for i, state := range states {
		list[i], _ = expecting(state)
	}
	return list
}

// price returns the limits that a job spends from, and the charges of one pass.
func price(job *jobs.Job, all []*slidinglog.Simulation) (*slidinglog.Simulation, []quota.Charge) {
	i := slices.IndexFunc(all, func(s *slidinglog.Simulation) bool { return s.Credential.Name == job.Credential })
	if i < 0 {
		return nil, nil
	}
	charges, err := all[i].Credential.Sum(job.Calls())
	if err != nil {
		return nil, nil // the gate would refuse it for ever, and the configuration says so
	}
	return all[i], all[i].Credential.Paced(charges, job.MaxWait, job.UseReserve)
}

// checkFit adds whether the jobs fit each limit by themselves.
func (s *sim) checkFit(in SimInput) {
	if in.Fits == nil {
		var credentials []*quota.Credential
		for _, limits := range in.Limits {
			credentials = append(credentials, limits.Credential)
		}
		in.Fits = CheckFit(allExpecting(in.Jobs), credentials, in.From)
	}
	for i, fit := range in.Fits {
		s.plan.Limits[i].Fit = fit
	}
}

// play simulates one pass after the other.
func (s *sim) play() {
	for n := 0; ; n++ {
		j := s.first()
		if j == nil || !j.next.Before(s.plan.Until) {
			s.othersSpend(s.plan.Until)
			return
		}
		if n == maxPasses {
			s.cut(j.next)
			return
		}
		s.othersSpend(j.next)
		s.pass(j)
	}
}

// first returns the job with the first pass; nil if there is none.
func (s *sim) first() *jobSim {
	var first *jobSim
	for _, j := range s.jobs {
		if !j.next.IsZero() && (first == nil || j.next.Before(first.next)) {
			first = j
		}
	}
	return first
}

// cut ends the plan early.
func (s *sim) cut(until time.Time) {
	s.plan.Cut, s.plan.Until = true, until
	for i := range s.plan.Limits {
		l := &s.plan.Limits[i]
		l.Hours = slices.DeleteFunc(l.Hours, func(h Hour) bool { return !h.At.Before(until) })
	}
}

// pass simulates the next pass of a job: it is launched, or it stops its run.
func (s *sim) pass(j *jobSim) {
	if j.Run == nil {
		j.begin()
		j.listed = s.addRun(j)
	}
	at, region := j.next, j.Run.Ring[j.Run.Begun]
	if j.Run.Begun == j.run.passes { // the run has spent what it may
		s.stop(j, at, "")
		return
	}
	d := j.limits.Spend(at, j.charges, j.Job.UseReserve)
	s.count(j, at, d)
	if !d.Granted() {
		if !j.waits(at, d) {
			s.stop(j, at, d.Limit)
		}
		return
	}
	s.plan.Passes++
	j.outcome.Passes++
	j.region(region).Passes++
	if j.listed != nil {
		j.listed.Served = append(j.listed.Served, region)
	}
	j.launched(at)
}

// addRun adds a run to the list, and returns nil if that is full.
func (s *sim) addRun(j *jobSim) *Run {
	if len(s.plan.Runs) == maxRuns {
		return nil
	}
	s.plan.Runs = append(s.plan.Runs, Run{Job: j.Job.Name, Slot: j.Run.Slot, Served: []regions.Region{}})
	return &s.plan.Runs[len(s.plan.Runs)-1]
}

// count adds a pass's decision to the limits that it counts in.
func (s *sim) count(j *jobSim, at time.Time, d quota.Decision) {
	for _, state := range d.Limits {
		l := s.limit(j, state.Name)
		l.Peak = max(l.Peak, state.Used)
		if d.Granted() {
			l.Spent += state.Cost
			j.outcome.Spent[state.Name] += state.Cost
			h := l.hour(at)
			h.Units += state.Cost
			h.Jobs[j.Job.Name] += state.Cost
		}
	}
}

// stop ends a run at a region that does not fit a limit: that region and those after it lose this
// turn. Without a limit the run has spent what it may, and they have their turn in the next one.
func (s *sim) stop(j *jobSim, at time.Time, limit string) {
	left := j.Run.Ring[j.Run.Begun:]
	j.outcome.Stopped++
	if j.listed != nil {
		j.listed.StoppedAt, j.listed.Limit, j.listed.Capped = left[0], limit, limit == ""
	}
	if limit != "" {
		l := s.limit(j, limit)
		l.Stops++
		l.Skipped += len(left)
		l.hour(at).Skipped += len(left)
		if l.DryAt.IsZero() {
			l.DryAt = at
		}
		s.plan.Skipped += len(left)
		j.outcome.Skipped += len(left)
		for _, region := range left {
			j.region(region).Skipped++
		}
	}
	j.end(at)
}

func (s *sim) limit(j *jobSim, name string) *Limit {
	return &s.plan.Limits[slices.IndexFunc(s.plan.Limits, func(l Limit) bool { return l.Credential == j.Job.Credential && l.Fit.Limit == name })]
}

func (l *Limit) hour(at time.Time) *Hour {
	return &l.Hours[int(at.Sub(l.Hours[0].At)/time.Hour)]
}

// A jobSim is the simulation of a job.
type jobSim struct {
	jobs.JobState
	limits  *slidinglog.Simulation
	charges []quota.Charge // of a pass
	cost    quota.Units    // of a pass, as a run counts it
	run     timetable      // of the run under way
	next    time.Time      // when its next pass comes; zero: none does
	outcome *Job
	listed  *Run // nil if its run is not listed
}

// await finds the job's next pass: of the run under way, else of the first slot after now at which
// the job is not paused.
func (j *jobSim) await(now time.Time) {
	if r := j.Run; r != nil {
		j.next = j.run.start(r.Begun)
		if j.next.Before(now) {
			j.next = now
		}
		return
	}
	j.next = j.Pause.Next(j.Job.Schedule, now)
}

// begin begins the run of the slot that the job waited for.
func (j *jobSim) begin() {
	ring := j.Job.Regions.From(j.Cursor)
	j.run = timetableOf(j.Job, j.cost, j.next, j.Job.Schedule.Next(j.next))
	j.Run = &jobs.Progress{Slot: j.next, Ring: ring, MovesCursor: true}
	j.outcome.Runs++
}

// waits delays the job's next pass for a limit that returns soon, if it does.
func (j *jobSim) waits(at time.Time, d quota.Decision) bool {
	if !d.Denied() || !d.RetryAt.After(at) || !j.Job.WaitsFor(d.RetryAt, at) {
		return false
	}
	j.next = d.RetryAt
	return true
}

// launched moves to the next region, or ends the run after the last one.
func (j *jobSim) launched(at time.Time) {
	j.Run.Begun++
	if j.Run.Begun == len(j.Run.Ring) {
		j.end(at)
		return
	}
	j.await(at)
}

// end ends the run: the next one begins at the region that this one did not reach, at the first
// slot after this run is over.
func (j *jobSim) end(at time.Time) {
	r := j.Run
	j.Run = nil
	if r.MovesCursor {
		reached := 0
		j.Cursor = r.Ring.Advance(func(regions.Region) bool { reached++; return reached <= r.Begun })
	}
	j.await(at)
}

// region returns the figures of a region. Those of a region that only the run under way has are
// not kept.
func (j *jobSim) region(name regions.Region) *Region {
	list := j.outcome.Regions
	i := slices.IndexFunc(list, func(r Region) bool { return r.Region == name })
	if i < 0 {
		return &Region{}
	}
	return &list[i]
}
