package jobs

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A new job has its time; a run that fails is no success, one of a chosen region neither;
// a pause stops the clock, and its end starts it anew.
func TestOverdue(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 2)
		job.ExpectSuccess = 2 * time.Hour
		b := newBed(t, dir, job)
		code := 1
		b.play = func(context.Context, played) Exit { return Exit{Code: code} }
		due := func(want string) {
			t.Helper()
			got := ""
			if at := b.status().Due; !at.IsZero() {
				got = at.Format("15:04:05")
			}
			if got != want {
				t.Errorf("due at %q, want %q", got, want)
			}
		}
		b.Start(t.Context()) // at 10:50
		synctest.Wait()
		b.run() // at 11:00
		b.run() // at 12:00, an hour after it was to be due
		due("12:50:00")
		code = 0
		b.begun("US")
		due("12:50:00")
		b.run() // at 13:00
		due("15:30:00")

		must(t, b.Pause("trending", "@0", "", 0))
		due("")
		time.Sleep(30 * time.Hour)
		synctest.Wait()
		must(t, b.Resume("trending"))
		due(time.Now().Add(2 * time.Hour).UTC().Format("15:04:05"))

		relaxed := *job
		relaxed.ExpectSuccess = 0
		must(t, b.SetJobs([]*Job{&relaxed}))
		due("")
	})
}

// Only a good run gives time, and a pause that ends by itself.
func TestDue(t *testing.T) {
	at := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	job := trending(t)
	job.ExpectSuccess = time.Hour
	j := &jobControl{job: job, state: state{Expected: at}}
	want := func(want time.Time) {
		t.Helper()
		if got := j.due(at.Add(time.Hour)); !got.Equal(want) {
			t.Errorf("due at %v, want %v", got, want)
		}
	}
	want(at.Add(time.Hour))
	ends := func(after time.Duration, end RunState, reason Reason) {
		run := &Run{StartedAt: at}
		run.end(at.Add(after), end, Stop{Reason: reason})
		j.state.end(run)
	}
	ends(time.Minute, RunDone, "")
	ends(2*time.Minute, RunStopped, BudgetGone)
	want(at.Add(time.Hour + time.Minute))
	j.state.Pause = &Pause{Since: at, Until: at.Add(3 * time.Hour)}
	want(at.Add(4 * time.Hour))
	j.state.Pause.Until = time.Time{}
	want(time.Time{})
}
