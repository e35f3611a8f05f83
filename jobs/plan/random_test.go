package plan

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/seedtest"
)

// eachSeed plays a scenario for each of n seeds, always the same unless
// QUOTAD_TEST_SEED says otherwise; QUOTAD_TEST_STEPS plays more of them.
func eachSeed(t *testing.T, n int, play func(s *scenario)) {
	if text := os.Getenv("QUOTAD_TEST_STEPS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	first := seedtest.Seed(t, 1)
	for i := range n {
		play(newScenario(t, first+uint64(i)))
	}
}

// Whatever the jobs and the limits: a plan is what a simulation says that keeps
// every debit and sums them all.
func TestPlanIsTheNaiveSimulation(t *testing.T) {
	dry, fine := 0, 0
	eachSeed(t, 16, func(s *scenario) {
		length := time.Duration(1+s.IntN(30)) * time.Hour
		in, naive := s.input(), s.naive()
		for _, spent := range s.spentBefore() { // by whomever
			in.Limits[0].Spend(spent.at, spent.charges, false)
			naive.spend(spent.at, spent.charges)
		}
		got, want := Simulate(in, noon.Add(length)), naive.run(noon.Add(length))
		if runs := want.runs[:min(maxRuns, len(want.runs))]; fmt.Sprint(got.Runs) != fmt.Sprint(runs) {
			t.Fatalf("seed %d: runs\ngot  %+v\nwant %+v", s.seed, got.Runs, runs)
		}
		if want := fmt.Sprint(want.limits); limitsOf(got) != want {
			t.Fatalf("seed %d: limits\ngot  %s\nwant %s", s.seed, limitsOf(got), want)
		}
		if want := fmt.Sprint(want.regions); regionsOf(got) != want {
			t.Fatalf("seed %d: regions\ngot  %s\nwant %s", s.seed, regionsOf(got), want)
		}
		if got.Skipped > 0 {
			dry++
		} else {
			fine++
		}
	})
	if dry == 0 || fine == 0 {
		t.Errorf("%d scenarios ran dry, %d did not: they are all alike", dry, fine)
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

// Each change that is proposed makes the schedule fit, and less of it would not.
func TestChangesHold(t *testing.T) {
	changed := 0
	eachSeed(t, 12, func(s *scenario) {
		for n, f := range CheckFit(s.jobs, s.credentials(), noon) {
			for _, c := range f.Changes {
				changed++
				s.holds(c, n)
			}
		}
	})
	if changed == 0 {
		t.Error("no scenario needs a change: they are all alike")
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
	if !s.fitsAfter(c, n, to) {
		s.Fatalf("seed %d: with %v the schedule still does not fit", s.seed, c)
	}
	if c.Key == "every" || to+1 == from {
		return
	}
	if s.fitsAfter(c, n, to+1) {
		s.Fatalf("seed %d: %v is more than it takes", s.seed, c)
	}
}

// fitsAfter tells whether the schedule fits the n-th limit after a change.
func (s *scenario) fitsAfter(c Change, n int, to quota.Units) bool {
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
			period, err := api.ParseSpan(c.To)
			if err != nil {
				s.Fatal(err)
			}
			slower := *job
			slower.Schedule = job.Schedule.(jobs.Every).WithPeriod(period)
			list[i] = &slower
		}
	}
	if c.Key == "reserve" {
		credential.Limits[n].Reserve = to
	}
	limit := credential.Limits[n]
	d := newDemand(list, &credential, limit, noon)
	return peak(quota.MaxUnits, nil, d.late) <= limit.Budget(false)
}
