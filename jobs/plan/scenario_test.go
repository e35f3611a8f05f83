package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/slidinglog"
	"quotad/regions"
)

func eight() regions.Ring {
	return regions.Ring{"US", "GB", "DE", "FR", "IN", "BR", "AU", "CA"}
}

// trending is a job that a test may change.
func trending(t *testing.T) *jobs.Job {
	t.Helper()
	return &jobs.Job{
		Name: "trending", Credential: "youtube", Regions: eight(), Schedule: every(t, time.Hour, 0), Stagger: jobs.EvenStagger,
		Command: []string{"/bin/fetch"}, Timeout: 5 * time.Minute, KillGrace: 10 * time.Second,
	}
}

func every(t *testing.T, period, phase time.Duration) jobs.Every {
	t.Helper()
	e, err := jobs.NewEvery(period, phase)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// weekly is a schedule with a slot at one time of some weekdays, in UTC.
type weekly struct {
	days []time.Weekday
	at   time.Duration // since midnight
}

func (w weekly) Next(t time.Time) time.Time {
	for slot := t.UTC().Truncate(24 * time.Hour).Add(w.at); ; slot = slot.Add(24 * time.Hour) {
		if slot.After(t) && slices.Contains(w.days, slot.Weekday()) {
			return slot
		}
	}
}

func (w weekly) String() string { return fmt.Sprint(w.days, " at ", w.at) }

// A scenario is a random schedule on one credential with random limits.
type scenario struct {
	*testing.T
	*rand.Rand
	seed       uint64
	credential *quota.Credential
	jobs       []*jobs.Job
}

func newScenario(t *testing.T, seed uint64) *scenario {
	s := &scenario{T: t, Rand: rand.New(rand.NewPCG(seed, 0)), seed: seed}
	for s.jobs == nil || !s.isValid() {
		s.credential = &quota.Credential{Name: "youtube", Operations: map[string]quota.Cost{"list": {Every: 1}, "search": {Every: 5}}}
		for i := range 1 + s.IntN(3) {
			s.credential.Limits = append(s.credential.Limits, s.limit(i))
		}
		s.jobs = nil
		for i := range 1 + s.IntN(3) {
			s.jobs = append(s.jobs, s.job(i))
		}
	}
	return s
}

// isValid tells whether each job could run by itself.
func (s *scenario) isValid() bool {
	if len(s.credential.Validate()) > 0 {
		return false
	}
	return !slices.ContainsFunc(s.jobs, func(j *jobs.Job) bool { return len(j.Validate(s.credentials())) > 0 })
}

func (s *scenario) credentials() []*quota.Credential { return []*quota.Credential{s.credential} }

func (s *scenario) limit(i int) quota.Limit {
	units := quota.Units(10 + s.IntN(300))
	l := quota.Limit{Name: fmt.Sprint("limit", i), Units: units, Reserve: quota.Units(s.IntN(int(units) / 3))}
	lengths := []time.Duration{time.Minute, 37 * time.Minute, time.Hour, 5 * time.Hour, 24 * time.Hour, 25*time.Hour + time.Millisecond}
	l.Window = quota.Sliding(lengths[s.IntN(len(lengths))])
	if s.IntN(3) == 0 {
		zone, err := time.LoadLocation([]string{"UTC", "America/Los_Angeles", "Asia/Kolkata"}[s.IntN(3)])
		if err != nil {
			s.Fatal(err)
		}
		l.Window = quota.Calendar([]quota.Period{quota.Hour, quota.Day}[s.IntN(2)], zone)
	}
	if i > 0 && s.IntN(2) == 0 {
		l.Only = []string{"search"}
	}
	return l
}

func (s *scenario) job(i int) *jobs.Job {
	job := trending(s.T)
	job.Name, job.Regions = fmt.Sprint("job", i), eight()[:1+s.IntN(8)]
	job.Timeout = []time.Duration{time.Second, time.Minute, 5 * time.Minute, time.Hour}[s.IntN(4)]
	periods := []time.Duration{20 * time.Minute, 30 * time.Minute, time.Hour, 90 * time.Minute, 5 * time.Hour, 24 * time.Hour}
	period := periods[s.IntN(len(periods))]
	phase := time.Duration(s.IntN(int(period/time.Second))) * time.Second
	job.Schedule = every(s.T, period, phase)
	if period == 24*time.Hour && s.IntN(2) == 0 {
		job.Schedule = weekly{[]time.Weekday{time.Monday, time.Tuesday, time.Saturday}[:1+s.IntN(3)], phase}
	}
	switch s.IntN(3) {
	case 0:
		job.Stagger = 0
	case 1:
		job.Stagger = time.Duration(s.IntN(int(period/time.Second)/8)) * time.Second
	}
	job.Expects = map[string]quota.Units{"list": 1 + quota.Units(s.IntN(4))}
	if s.IntN(3) == 0 {
		job.Expects["search"] = 1
	}
	return job
}

// isDaily tells whether each day is like the one before it.
func (s *scenario) isDaily() bool {
	return !slices.ContainsFunc(s.jobs, func(j *jobs.Job) bool {
		e, ok := j.Schedule.(jobs.Every)
		return !ok || 24*time.Hour%e.Period() != 0
	})
}

// input is a simulation that begins at noon in the middle of the rings, with
// nothing spent.
func (s *scenario) input() SimInput {
	in := SimInput{From: noon, Limits: []*slidinglog.Simulation{slidinglog.NewSimulation(s.credential)}}
	for _, job := range s.jobs {
		in.Jobs = append(in.Jobs, jobs.JobState{Job: job, Cursor: regions.Cursor(job.Regions[len(job.Regions)/2])})
	}
	return in
}

// A spending is something that was asked for.
type spending struct {
	at      time.Time
	charges []quota.Charge
}

func (s *scenario) spentBefore() []spending {
	s.Helper()
	var list []spending
	for at := noon.Add(-20 * time.Hour); at.Before(noon); at = at.Add(time.Duration(s.IntN(5*3600)) * time.Second) {
		charges, err := s.credential.Sum(quota.Calls{Count: map[string]quota.Units{"list": 1 + quota.Units(s.IntN(20))}})
		if err != nil {
			s.Fatal(err)
		}
		list = append(list, spending{at, charges})
	}
	return list
}
