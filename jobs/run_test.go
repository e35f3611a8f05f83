package jobs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// The ids of runs sort by time, and differ within a millisecond.
func TestRunIDs(t *testing.T) {
	begin, last := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC), ""
	for i := range 1000 {
		id := newRunID(begin.Add(time.Duration(i) * 37 * time.Millisecond))
		if len(id) != 15 || quota.CheckName(id) != nil || strings.ToLower(id) != id || id <= last {
			t.Fatalf("%q after %q is not an id of 15 characters", id, last)
		}
		last = id
	}
	if one, other := newRunID(begin), newRunID(begin); one == other {
		t.Errorf("two runs of one millisecond have one id, %q", one)
	}
}

// The output of a run is bounded, whatever it writes; a reader asks for the lines after those that it has, and a pass
// keeps the last ones of its own.
func TestOutput(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "short": "page 1 of many", "long": strings.Repeat("x", maxOutput+1)} {
		o, most := &runOutput{}, maxOutput/64
		adds := max(10, 3*most/(1+len(text)/1000))
		for range adds {
			o.add("US", Line{Text: text})
		}
		o.add("US", Line{Text: "the last"})
		lines, written := o.after(0)
		if n := len(lines); n < 1 || n > most || lines[n-1].Text != "the last" || written != adds+1 || o.size > maxOutput {
			t.Errorf("%s: %d lines are kept of %d, %d bytes", name, n, written, o.size)
		}
		for after, want := range map[int]int{written - 1: 1, written: 0, written + 5: 0} {
			if lines, _ := o.after(after); len(lines) != want {
				t.Errorf("%s: %d lines after %d, want %d", name, len(lines), after, want)
			}
		}
	}
	var output runOutput
	output.add("US", Line{Text: "of the pass before", Stream: "stderr"})
	for i := range 25 {
		output.add("US", Line{Text: strings.Repeat("x", 20*i)})
	}
	got, said := output.tail(1)
	if len(got) != 10 || len(got[0]) != 300 || len(got[9]) != 480 || said != "" { // 3,910 bytes with their newlines
		t.Errorf("got %q, %q, want the last 10 lines", got, said)
	}
	output.add("US", Line{Text: "no such key", Stream: "stderr"})
	output.add("US", Line{Text: " ", Stream: "stderr"})
	output.add("US", Line{Text: strings.Repeat("ö", 1000)})
	got, said = output.tail(1)
	if last := got[len(got)-1]; len(last) > maxLineBytes+len("…") || !strings.HasSuffix(last, "ö…") || said != "no such key" {
		t.Errorf("got %q, %q, want the beginning of the line, marked as cut", last, said)
	}
}

func passOf(region string, attempt int, o Outcome) Pass {
	return Pass{Region: regions.Region(region), Attempt: attempt, Outcome: o}
}

// A job is short of units for as long as its runs serve no region for want of them, or stop at the same one.
func TestAShortage(t *testing.T) {
	ran := func(outcomes ...Outcome) *Run {
		r := &Run{State: RunStopped, Ring: eight()}
		for i, o := range outcomes {
			p := passOf(string(eight()[i]), 0, o)
			if p.Limit = "daily"; o == NotLaunched {
				p.Reason = DoesNotFit
			}
			r.Passes = append(r.Passes, p)
		}
		return r
	}
	unknown := ran(NotLaunched)
	unknown.Passes[0].Reason = LedgerUnavailable
	waited := ran(Exhausted)
	waited.Passes = append(waited.Passes, passOf("US", 1, OK))
	for _, row := range []struct {
		name string
		runs []*Run
		want string
	}{
		{"none", []*Run{ran(OK, OK)}, ""},
		{"a run that served some", []*Run{ran(OK, Exhausted)}, "runs 0, GB ×1 by daily"},
		{"denied, then not launched", []*Run{ran(Exhausted), ran(NotLaunched)}, "runs 2, US ×2 by daily"},
		{"it failed, and that is a turn", []*Run{ran(NotLaunched), ran(Failed, NotLaunched)}, "runs 0, GB ×1 by daily"},
		{"served in between", []*Run{ran(NotLaunched), ran(OK), ran(NotLaunched)}, "runs 1, US ×1 by daily"},
		{"the last region each time", []*Run{ran(OK, Exhausted), ran(OK, NotLaunched), ran(OK, NotLaunched)}, "runs 0, GB ×3 by daily"},
		{"nothing is known of the third", []*Run{ran(NotLaunched), ran(NotLaunched), unknown}, "runs 2, US ×2 by daily"},
		{"waited for", []*Run{waited}, ""},
	} {
		var s *Shortage
		for _, r := range row.runs {
			s = r.shortage(s)
		}
		got := ""
		if s != nil {
			got = fmt.Sprintf("runs %d, %s ×%d by %s", s.Runs, s.Region, s.Times, s.Limit)
		}
		if got != row.want {
			t.Errorf("%s: got %q, want %q", row.name, got, row.want)
		}
	}
}

// A job whose pace spreads its ring over several runs is as good as one whose runs go round.
func TestRingOverSeveralRuns(t *testing.T) {
	at := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	var s state
	for n, row := range []struct {
		of   []Outcome
		good bool
	}{
		{[]Outcome{OK, OK, Exhausted}, false}, {[]Outcome{OK, Exhausted}, true}, {[]Outcome{OK, OK, Exhausted}, false},
		{[]Outcome{Exhausted}, false}, {[]Outcome{Failed, OK}, false},
	} {
		r := &Run{ID: fmt.Sprint(n), State: RunStopped, EndedAt: at.Add(time.Duration(n) * time.Hour), Ring: regions.Ring{"US", "GB", "DE"}}
		for i, outcome := range row.of {
			r.put(passOf(string(r.Ring[i]), 0, outcome))
		}
		s.end(r)
		if got := s.Good.Equal(r.EndedAt); got != row.good {
			t.Errorf("run %d: good is %v, want %v", n, got, row.good)
		}
	}
}

// What a pass usually needs is the mean of the last ten runs, rounded up. A region that is tried again does not fail yet.
func TestWhatAStateKeepsOfPasses(t *testing.T) {
	var s state
	for n := range 12 {
		r := &Run{ID: fmt.Sprint(n), State: RunDone, Ring: regions.Ring{"US", "GB", "DE"}, Retry: 1}
		for i, outcome := range []Outcome{OK, OK, Failed} {
			p := passOf(string(r.Ring[i]), 0, outcome)
			p.Made = Made{"list": quota.Units(n + i)}
			r.put(p)
		}
		s.end(r)
	}
	if last := s.Took[len(s.Took)-1]; len(s.Took) != meanOf || last["list"] != 12 || mean(s.Took)["list"] != 8 {
		t.Errorf("got %v, the mean %v", s.Took, mean(s.Took))
	}
	measured := &jobControl{job: &Job{}, state: s}
	got := (&Runner{jobs: []*jobControl{measured}, configured: 1}).JobStates()[0]
	if !got.Measured || got.Expects["list"] != 8 || len(measured.job.Expects) != 0 {
		t.Errorf("got %+v, want what it needs", got)
	}
	s = state{}
	r := &Run{ID: "1", Ring: regions.Ring{"US"}, Retry: 1}
	for attempt := range 2 {
		p := passOf("US", attempt, Failed)
		r.put(p)
		if s.pass(r, &p, 0); len(s.Bad) != attempt {
			t.Errorf("%d regions fail after %d attempts", len(s.Bad), attempt+1)
		}
	}
	r = &Run{ID: "2"}
	for i := range 2 * MaxFailing {
		p := passOf(fmt.Sprint(i), 0, Failed)
		s.pass(r, &p, 0)
	}
	if len(s.Bad) != MaxFailing {
		t.Errorf("%d regions are known to fail, want %d", len(s.Bad), MaxFailing)
	}
}

// A good run is due three slots after the last one, however far apart these are, but not within 26 hours.
func TestDue(t *testing.T) {
	at := time.Date(2026, 3, 1, 11, 5, 0, 0, time.UTC)
	for _, row := range []struct {
		period, want time.Duration
	}{{time.Minute, 26 * time.Hour}, {8 * time.Hour, 26 * time.Hour}, {24 * time.Hour, 72 * time.Hour}, {7 * 24 * time.Hour, 21 * 24 * time.Hour}} {
		job := trending(t, 1)
		job.Schedule = every(t, row.period)
		j := &jobControl{job: job, state: state{Good: at}}
		if got := j.due(at.Add(time.Hour)); !got.Equal(at.Add(row.want)) {
			t.Errorf("every %v: due at %v, want %v later", row.period, got, row.want)
		}
	}
}

// A new job has its time; a run that fails is no success, one of a chosen region neither;
// a pause stops the clock, and its end starts it anew. Of a manual job no run is expected.
func TestNoGoodRun(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t, 2)
		job.Schedule = every(t, 12*time.Hour)
		b := newBed(t, dir, job)
		due := func(want time.Time) {
			t.Helper()
			if got := b.status().Due; !got.Equal(want) {
				t.Errorf("due at %v, want %v", got, want)
			}
		}
		b.start()
		began := b.now()
		due(began.Add(36 * time.Hour))
		b.play = exits(1)
		b.begun()
		b.play = exits(0)
		b.begun("US")
		due(began.Add(36 * time.Hour))
		time.Sleep(time.Hour)
		b.begun()
		due(b.status().Last.EndedAt.Add(36 * time.Hour))
		must(t, b.Pause("trending", "@0", "", 20*time.Hour))
		due(b.now().Add(56 * time.Hour).Truncate(time.Hour).Add(50 * time.Minute))

		must(t, b.Pause("trending", "@0", "", 0))
		due(time.Time{})
		time.Sleep(30 * time.Hour)
		must(t, b.Resume("trending"))
		due(b.now().Add(36 * time.Hour))
		manual := *job
		manual.Schedule = Unscheduled{}
		must(t, b.SetJobs([]*Job{&manual}))
		due(time.Time{})
	})
}
