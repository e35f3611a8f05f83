package jobs

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// An hour ahead, a daemon ran slots that are still to come: once its clock is right it runs the job again,
// says so until then, and a good run is due in time.
func TestAClockThatWasAhead(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 1)
		job.Schedule = every(t, 10*time.Minute)
		now := time.Now // a clock
		b := newBedAt(t, dir, func() time.Time { return now().Add(time.Hour) }, job)
		b.Start(t.Context())
		b.Tick("trending", b.now().Truncate(10*time.Minute))
		synctest.Wait()
		b.stop()
		b = newBed(t, dir, job)
		b.Start(t.Context())
		b.forget()
		time.Sleep(time.Minute)
		if got, want := b.status().Clock, "the clock was set back: what is recorded for 2000-01-01T11:50:00Z counts no more, that is 59m0s ahead"; got != want {
			t.Errorf("the status says %q, want %q", got, want)
		}
		b.tick()
		synctest.Wait()
		b.wants("11:00:00 run running", "11:00:00 US running", "11:00:00 US ok", "11:00:00 run done")
		if got := b.status().Clock; got != "" {
			t.Errorf("the status still says %q", got)
		}
		if due := b.status().Due; due.Day() != 2 || due.Hour() != 13 || due.Minute() != 0 {
			t.Errorf("due at %v, want it 26 hours after the good run", due)
		}
		time.Sleep(10 * time.Minute)
		b.Tick("trending", b.now().Truncate(10*time.Minute))
		synctest.Wait()
		b.wants("11:10:00 run running", "11:10:00 US running", "11:10:00 US ok", "11:10:00 run done")
	})
}

// The last run is the one that began last, also if the clock was ahead when an earlier one began: if the
// daemon is killed in it, it is recovered.
func TestTheLastRunIsTheLastInTheFile(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 2)
		b := newBedAt(t, dir, func() time.Time { return time.Now().Add(time.Hour) }, job)
		b.begun()
		b.stop()
		b = newBed(t, dir, job)
		b.play = func(ctx context.Context, _ played) Exit { <-ctx.Done(); return Exit{Cause: context.Cause(ctx)} }
		run := b.begun()
		next := b.killed(job)
		next.Start(t.Context())
		if got := next.status().Last; got.ID != run.ID || got.State != RunInterrupted || got.Reason != Died || len(next.ended) != 1 {
			t.Errorf("got %+v, and ended %v: want the run that was under way", got, next.ended)
		}
		if runs, err := next.Runs("", 2); err != nil || len(runs) != 2 || runs[0].ID != run.ID {
			t.Errorf("got %+v, %v, want the run that began last first", runs, err)
		}
	})
}

// The passes of a run come at their times, and a pace ends, though the clock is set meanwhile.
func TestTheClockIsSetDuringARun(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				job := trendingIn(t, 3)
				job.Stagger, job.MaxWait = 5*time.Minute, time.Minute
				b := newBed(t, dir, job)
				var began []time.Duration
				var slot time.Time
				b.play = func(_ context.Context, p played) Exit {
					if len(began) == 0 {
						slot = time.Now()
					}
					if began = append(began, time.Since(slot)); len(began) == 2 {
						b.denyUntil(p, "list", b.now().Add(30*time.Second))
					}
					return Exit{}
				}
				b.tick()
				time.Sleep(time.Minute)
				b.ahead.Store(int64(step))
				time.Sleep(4*time.Minute + 10*time.Second)
				b.ahead.Store(0)
				time.Sleep(6 * time.Minute)
				synctest.Wait()
				if want := []time.Duration{0, 5 * time.Minute, 5*time.Minute + 30*time.Second, 10 * time.Minute}; !slices.Equal(began, want) {
					t.Errorf("passes began after %v, want %v", began, want)
				}
			})
		})
	}
}
