package jobs

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"quotad/regions"
)

// A new job has its time; a run that fails is no success, one of a chosen region neither;
// a pause stops the clock, and its end starts it anew. Of a manual job no run is expected.
func TestNoGoodRun(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 2)
		job.Schedule = every(t, 12*time.Hour)
		b := newBed(t, dir, job)
		code := 1
		b.play = func(context.Context, played) Exit { return Exit{Code: code} }
		due := func(want time.Time) {
			t.Helper()
			if got := b.status().Due; !got.Equal(want) {
				t.Errorf("due at %v, want %v", got, want)
			}
		}
		b.Start(t.Context())
		synctest.Wait()
		began := b.now()
		due(began.Add(36 * time.Hour))
		b.begun()
		code = 0
		b.begun("US")
		due(began.Add(36 * time.Hour))
		time.Sleep(time.Hour)
		b.begun()
		due(b.status().Last.EndedAt.Add(36 * time.Hour))

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
		r := &Run{ID: string(rune(97 + n)), State: RunStopped, EndedAt: at.Add(time.Duration(n) * time.Hour), Ring: regions.Ring{"US", "GB", "DE"}, at: map[passName]int{}}
		for i, outcome := range row.of {
			r.put(Pass{Region: r.Ring[i], Outcome: outcome})
		}
		s.end(r)
		if got := s.Good.Equal(r.EndedAt); got != row.good {
			t.Errorf("run %d: good is %v, want %v", n, got, row.good)
		}
	}
}

// A good run is due three slots after the last one, however far apart these are, but not within 26 hours.
func TestDue(t *testing.T) {
	at := time.Date(2026, 3, 1, 11, 5, 0, 0, time.UTC)
	for _, row := range []struct {
		period, want time.Duration
	}{{time.Minute, 26 * time.Hour}, {8 * time.Hour, 26 * time.Hour}, {24 * time.Hour, 72 * time.Hour}, {7 * 24 * time.Hour, 21 * 24 * time.Hour}} {
		job := trending(t)
		job.Schedule = every(t, row.period)
		j := &jobControl{job: job, state: state{Good: at}}
		if got := j.due(at.Add(time.Hour)); !got.Equal(at.Add(row.want)) {
			t.Errorf("every %v: due at %v, want %v later", row.period, got, row.want)
		}
	}
}

// A host that stands by says nothing of good runs, and when it takes over a job, it has its time.
func TestStandingByIsNoFailure(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		other := Daemon{ID: "2", Name: "A", Jobs: []string{"trending"}}
		b := newHost(t, dir, func() ([]Daemon, time.Duration, bool) {
			return []Daemon{other, {ID: "1", Name: "a", Self: true}}, 0, true
		}, trendingIn(t, 2))
		for range 40 {
			b.run()
		}
		if due := b.status().Due; !due.IsZero() {
			t.Errorf("it stands by, and says that a good run is due at %v", due)
		}
		other.Ago = time.Minute
		if due := b.status().Due; due.Before(b.now().Add(24 * time.Hour)) {
			t.Errorf("it takes over at %v, and a good run is due at %v", b.now(), due)
		}
	})
}
