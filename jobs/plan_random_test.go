package jobs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/seedtest"
	"quotad/regions"
)

// seeds returns some that are always the same, so that there is something of
// every kind, and some that may be asked for.
func seeds(t *testing.T, n int) []uint64 {
	list := make([]uint64, n)
	first := seedtest.Seed(t, 0)
	for i := range list {
		list[i] = uint64(i)
		if i >= n/2 {
			list[i] += first
		}
	}
	return list
}

// Whatever the jobs and the limits: a plan is what a simulation says that keeps
// every debit and sums them all.
func TestPlanIsTheNaiveSimulation(t *testing.T) {
	dry := 0
	for _, seed := range seeds(t, 16) {
		s := newScenario(t, seed)
		length := time.Duration(1+s.IntN(30)) * time.Hour
		outset, naive := s.outset(), s.naive()
		for _, spent := range s.spentBefore() { // by whomever
			outset.Books[0].Spend(spent.at, spent.charges)
			naive.spend(spent.at, spent.charges)
		}
		outset.From = noon
		got, want := Foresee(outset, noon.Add(length)), naive.run(noon.Add(length))
		if runs := want.runs[:min(mostRuns, len(want.runs))]; fmt.Sprint(got.Runs) != fmt.Sprint(runs) {
			t.Fatalf("seed %d: runs\ngot  %+v\nwant %+v", seed, got.Runs, runs)
		}
		if want := fmt.Sprint(want.limits); limitsOf(got) != want {
			t.Fatalf("seed %d: limits\ngot  %s\nwant %s", seed, limitsOf(got), want)
		}
		if want := fmt.Sprint(want.regions); regionsOf(got) != want {
			t.Fatalf("seed %d: regions\ngot  %s\nwant %s", seed, regionsOf(got), want)
		}
		if got.Skipped > 0 {
			dry++
		}
	}
	if dry == 0 || dry == 16 {
		t.Errorf("%d of 16 scenarios ran dry: they are all alike", dry)
	}
}

// limitsOf and regionsOf write what the naive simulation knows too.
func limitsOf(p *Plan) string {
	list := []naiveLimit{}
	for _, l := range p.Limits {
		n := naiveLimit{Peak: l.Peak, Spent: l.Spent, DryAt: l.DryAt, Stops: l.Stops, Skipped: l.Skipped, Hours: map[int64]quota.Units{}}
		for _, h := range l.Hours {
			if h.Units > 0 {
				n.Hours[h.At.Unix()] = h.Units
			}
		}
		list = append(list, n)
	}
	return fmt.Sprint(list)
}

func regionsOf(p *Plan) string {
	counts := map[string][2]int{}
	for _, j := range p.Jobs {
		for _, r := range j.Regions {
			if r.Passes+r.Skipped > 0 {
				counts[j.Job+string(r.Region)] = [2]int{r.Passes, r.Skipped}
			}
		}
	}
	return fmt.Sprint(counts)
}

// A schedule that is proof never meets a limit, however late its passes are, up
// to the last of their run; and each change that is proposed makes it proof, the
// smallest one that does.
func TestVerdictsHold(t *testing.T) {
	proof, changed := 0, 0
	for _, seed := range seeds(t, 12) {
		s := newScenario(t, seed)
		verdicts := Judge(s.jobs, s.credentials(), noon)
		if !slices.ContainsFunc(verdicts, func(v Verdict) bool { return !v.Proof }) {
			proof++
			naive := s.naive()
			naive.jitter = true
			for _, l := range naive.run(noon.Add(50 * time.Hour)).limits {
				if l.Stops > 0 {
					t.Fatalf("seed %d: %+v is proof, but ran dry at %v", seed, verdicts, l.DryAt)
				}
			}
		}
		for n, v := range verdicts {
			if v.Proof != (v.AtWorst <= v.Budget) || v.Proof != (v.Demand <= v.Ceiling) || v.Demand > v.AtWorst || v.Estimated {
				t.Fatalf("seed %d: %+v contradicts itself", seed, v)
			}
			for _, c := range v.Changes {
				changed++
				s.holds(c, n)
			}
		}
	}
	if proof == 0 || proof == 12 || changed == 0 {
		t.Errorf("%d of 12 scenarios are proof, %d changes: they are all alike", proof, changed)
	}
}

// holds checks that a change does what it says in the n-th limit, and that less
// of it would not.
func (s *scenario) holds(c Change, n int) {
	s.Helper()
	var to, from quota.Units
	if c.Key != "every" {
		fmt.Sscan(c.To, &to)
		fmt.Sscan(c.From, &from)
		if to >= from {
			s.Fatalf("seed %d: %v asks for more", s.seed, c)
		}
	}
	if v := s.changed(c, n, to); !v.Proof {
		s.Fatalf("seed %d: with %v the schedule is still not proof: %+v", s.seed, c, v)
	}
	if c.Key == "every" || to+1 == from {
		return
	}
	if v := s.changed(c, n, to+1); v.Proof {
		s.Fatalf("seed %d: %v is more than it takes: %+v", s.seed, c, v)
	}
}

// changed returns the verdict on the n-th limit after a change.
func (s *scenario) changed(c Change, n int, to quota.Units) Verdict {
	s.Helper()
	list := slices.Clone(s.jobs)
	credential := *s.credential
	credential.Limits = slices.Clone(credential.Limits)
	for i, job := range list {
		if job.Name != c.Job {
			continue
		}
		switch c.Key {
		case "regions":
			list[i] = withRegions(job, int(to))
		case "expects":
			list[i] = withExpects(job, c.Operation, int(to))
		case "every":
			period, err := time.ParseDuration(c.To)
			if err != nil {
				s.Fatal(err)
			}
			slower := *job
			slower.Schedule = every(s.T, period, job.Schedule.(Every).phase)
			list[i] = &slower
		}
	}
	if c.Key == "reserve" {
		credential.Limits[n].Reserve = to
	}
	return Judge(list, []*quota.Credential{&credential}, noon)[n]
}

// A scenario is a random schedule on one credential with random limits.
type scenario struct {
	*testing.T
	*rand.Rand
	seed       uint64
	credential *quota.Credential
	jobs       []*Job
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
	return !slices.ContainsFunc(s.jobs, func(j *Job) bool { return len(j.Validate(s.credentials())) > 0 })
}

func (s *scenario) credentials() []*quota.Credential { return []*quota.Credential{s.credential} }

func (s *scenario) limit(i int) quota.Limit {
	units := quota.Units(10 + s.IntN(300))
	l := quota.Limit{Name: fmt.Sprint("limit", i), Units: units, Reserve: quota.Units(s.IntN(int(units) / 3))}
	lengths := []time.Duration{37 * time.Minute, time.Hour, 5 * time.Hour, 24 * time.Hour, 25*time.Hour + time.Millisecond}
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

func (s *scenario) job(i int) *Job {
	job := trending(s.T)
	job.Name, job.Regions = fmt.Sprint("job", i), eight()[:1+s.IntN(8)]
	periods := []time.Duration{20 * time.Minute, 30 * time.Minute, time.Hour, 90 * time.Minute, 5 * time.Hour, 24 * time.Hour}
	period := periods[s.IntN(len(periods))]
	job.Schedule = every(s.T, period, time.Duration(s.IntN(int(period/time.Second)))*time.Second)
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

func (s *scenario) outset() Outset {
	o := Outset{From: noon, Books: []*quota.Simulation{quota.NewSimulation(s.credential)}}
	for _, job := range s.jobs {
		o.Jobs = append(o.Jobs, Prospect{Job: job, Cursor: regions.Cursor(job.Regions[len(job.Regions)/2])})
	}
	return o
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
		charges, err := s.credential.Sum(map[string]quota.Units{"list": 1 + quota.Units(s.IntN(20))})
		if err != nil {
			s.Fatal(err)
		}
		list = append(list, spending{at, charges})
	}
	return list
}
