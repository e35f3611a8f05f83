package jobs

import (
	"context"
	"errors"
	"testing"
	"time"

	"quotad/quota"
)

// A gate that is asked while the daemon stops says nothing about the region.
func TestStopWhileTheGateIsAsked(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.Expects = map[string]quota.Units{"videos.list": 4}
		b := newBed(t, dir, job)
		asked := make(chan struct{})
		b.peek = func(map[string]quota.Units) (quota.Decision, error) { <-asked; return quota.Decision{}, errLedger }
		b.tick()
		go func() { time.Sleep(time.Second); close(asked) }()
		b.stop()
		b.wants("11:00:00 run running", "11:00:01 run interrupted (shutdown)")
		b.wantCursor("US")
	})
}

func TestStopInterrupts(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		b.play = func(ctx context.Context, p played) Exit {
			if p.region == "US" {
				return Exit{}
			}
			<-ctx.Done()
			time.Sleep(300 * time.Millisecond) // until TERM has had its effect
			return Exit{Code: -1, Signal: "SIGTERM", Cause: context.Cause(ctx)}
		}
		b.tick()
		time.Sleep(8 * time.Minute)
		b.forget()
		b.stop()
		b.wants("11:08:00 GB interrupted (shutdown)", "11:08:00 run interrupted (shutdown)")
		b.wantCursor("GB")
		b.tick()
		if _, err := b.Run("trending", "root"); !errors.Is(err, ErrStopping) {
			t.Errorf("got %v, want ErrStopping", err)
		}
		b.wants()
		b = newBed(t, dir, trending(t))
		b.wantCursor("GB")
	})
}

// Waiting for the next region's time does not keep the daemon from stopping.
func TestStopWhileWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		b.tick()
		time.Sleep(time.Minute)
		b.stop()
		b.wants("11:00:00 run running", "11:00:00 US running", "11:00:00 US ok", "11:01:00 run interrupted (shutdown)")
		b.wantCursor("GB")
	})
}

// A pass that takes its time to end has its grace, until force ends.
func TestStopForces(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		b.play = func(ask context.Context, p played) Exit {
			<-ask.Done()
			<-p.force.Done()
			return Exit{Code: -1, Signal: "SIGKILL", Cause: context.Cause(ask)}
		}
		b.tick()
		force, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		ask, cancel := context.WithTimeout(force, time.Second)
		defer cancel()
		b.Stop(ask, force)
		b.wants("11:00:00 run running", "11:00:00 US running", "11:00:05 US interrupted (shutdown)", "11:00:05 run interrupted (shutdown)")
		b.wantCursor("US")
	})
}

// Until it is asked to end, a pass under way may come to its own end.
func TestStopWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		b.play = func(context.Context, played) Exit { time.Sleep(time.Hour + time.Minute); return Exit{} }
		b.tick()
		go func() {
			time.Sleep(time.Hour)
			b.Tick("trending", time.Now().UTC())
		}()
		b.Stop(t.Context(), t.Context())
		b.wants("11:00:00 run running", "11:00:00 US running", "12:01:00 US ok", "12:01:00 run interrupted (shutdown)")
		b.wantCursor("GB")
		b.stop()
		// The slot that came meanwhile was not run: the next daemon says so.
		b = newBed(t, dir, trending(t))
		b.Start(t.Context())
		b.wants("12:01:00 run skipped (missed)")
	})
}

// After kill -9 nothing is running for ever, the region keeps its turn, and what
// the daemon left running is ended before anything else is launched.
func TestKilledDaemon(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		hang := make(chan struct{})
		b.play = func(ctx context.Context, p played) Exit {
			if p.region == "DE" {
				<-hang
			}
			return Exit{}
		}
		b.tick()
		time.Sleep(16 * time.Minute)
		next := b.killed(trending(t))
		got := next.status()
		if got.Cursor != "DE" || got.Last.State != RunInterrupted || got.Last.Reason != Died {
			t.Errorf("got the cursor at %s after %+v", got.Cursor, got.Last)
		}
		if pass := got.Last.Passes[2]; pass.Outcome != Interrupted || pass.Reason != Died || pass.EndedAt.IsZero() {
			t.Errorf("got %+v, want it interrupted", pass)
		}
		next.Start(t.Context())
		next.wants("11:16:00 DE interrupted (died)", "11:16:00 run interrupted (died)")
		if want := (Identity{BootID: "boot-1", PID: 4711, Start: 42}); len(next.ended) != 1 || !sameProcess(next.ended[0], want) {
			t.Errorf("ended %+v, want %+v", next.ended, want)
		}
		next.run()
		again := next.killed(trending(t))
		again.Start(t.Context())
		if len(again.ended) != 0 {
			t.Errorf("ended %+v after another run", again.ended)
		}
		if got := next.status().Last; got.Ring[0] != "DE" || got.State != RunDone {
			t.Errorf("got %+v, want the next run to begin at DE", got)
		}
		runs, err := next.Runs("trending", 10)
		if err != nil || len(runs) != 2 || runs[1].State != RunInterrupted {
			t.Errorf("got %+v, %v, want both runs in the history", runs, err)
		}
		close(hang)
	})
}

// A slot that was skipped names the run in its way. Its line is not taken for the end of that run.
func TestKilledDuringAnOverlap(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		hang := make(chan struct{})
		b.play = func(context.Context, played) Exit { <-hang; return Exit{} }
		b.tick()
		b.tick()
		next := b.killed(trending(t))
		next.Start(t.Context())
		if runs, err := next.Runs("trending", 10); err != nil || len(runs) != 2 || runs[0].State != RunInterrupted {
			t.Errorf("got %+v, %v, want the run interrupted behind the slot that was skipped", runs, err)
		}
		if len(next.ended) != 1 || next.ended[0].PID != 4711 {
			t.Errorf("ended %+v, want the pass of the run that was killed", next.ended)
		}
		close(hang)
	})
}

// Of two lines about the same skipped ticks, the later one knows more.
func TestSkippedTicksShareARecord(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		must(t, b.Pause("trending", "root", "", 0))
		b.run()
		b.run()
		runs, err := b.Runs("trending", 10)
		if err != nil || len(runs) != 1 || runs[0].Ticks != 2 {
			t.Errorf("got %+v, %v, want one record of two ticks", runs, err)
		}
	})
}

func sameProcess(a, b Identity) bool {
	return a.BootID == b.BootID && a.PID == b.PID && a.Start == b.Start
}

// What a killed daemon left running is ended also if the job is not configured any more.
func TestLeftoversOfAJobThatIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 1)
		b := newBed(t, dir, job)
		b.play = func(ctx context.Context, _ played) Exit {
			<-ctx.Done()
			return Exit{Cause: context.Cause(ctx)}
		}
		b.tick()
		other := trending(t)
		other.Name = "channels"
		killed := b.killed(other).killed(other) // before that process had ended
		killed.Start(t.Context())
		if len(killed.ended) != 1 || killed.ended[0].PID != 4711 {
			t.Errorf("got %+v ended, want the process of the job that is gone", killed.ended)
		}
		again := killed.killed(other)
		again.Start(t.Context())
		if len(again.ended) != 0 {
			t.Errorf("got %+v ended, and it had ended", again.ended)
		}
	})
}
