package jobs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"quotad/quota"
	"quotad/regions"
)

func TestPassesAreStaggered(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		b.play = func(_ context.Context, p played) Exit {
			b.spend(p, "youtube:1-0", 3)
			time.Sleep(10 * time.Second)
			return Exit{}
		}
		b.run()
		b.wants(
			"11:00:00 run running",
			"11:00:00 US running", "11:00:10 US ok", "11:07:30 GB running", "11:07:40 GB ok",
			"11:15:00 DE running", "11:15:10 DE ok", "11:22:30 FR running", "11:22:40 FR ok",
			"11:30:00 IN running", "11:30:10 IN ok", "11:37:30 BR running", "11:37:40 BR ok",
			"11:45:00 AU running", "11:45:10 AU ok", "11:52:30 CA running", "11:52:40 CA ok",
			"11:52:40 run done",
		)
		b.wantCursor("US") // a full turn: the next run begins where this one did
		last := b.status().Last
		if len(last.Passes) != 8 || last.Passes[3].Units != 3 || last.Passes[3].Calls != 1 || last.Passes[3].Process != nil || last.Trigger != Scheduled {
			t.Errorf("got %+v", last)
		}
		b.stop()
	})
}

// A pass that takes longer than the stagger makes the next one late, and no two
// are under way at once.
func TestPassesWaitForOneAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.Regions, job.Stagger = eight()[:3], 2*time.Second
		b := newBed(t, dir, job)
		b.play = func(_ context.Context, p played) Exit {
			if p.region == "US" {
				time.Sleep(5 * time.Second)
			}
			return Exit{}
		}
		b.run()
		b.wants("11:00:00 run running", "11:00:00 US running", "11:00:05 US ok", "11:00:05 GB running", "11:00:05 GB ok",
			"11:00:05 DE running", "11:00:05 DE ok", "11:00:05 run done")
		b.stop()
	})
}

func TestParallelPasses(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.Regions, job.Stagger, job.Parallel = eight()[:4], 0, 2
		b := newBed(t, dir, job)
		b.play = func(ctx context.Context, p played) Exit {
			switch p.region {
			case "US":
				time.Sleep(5 * time.Second)
			case "GB":
				time.Sleep(time.Second)
			case "DE":
				time.Sleep(2 * time.Second)
				b.deny(p)
			}
			return Exit{}
		}
		b.tick()
		time.Sleep(2 * time.Second)
		b.wantCursor("US") // it is under way still, though GB behind it has had its turn
		time.Sleep(time.Minute)
		synctest.Wait()
		got := b.status()
		if got.Last.State != RunStopped || got.Cursor != "DE" || len(got.Last.Passes) != 3 {
			t.Errorf("got the cursor at %s after %+v, want it at DE, and FR not launched", got.Cursor, got.Last)
		}
		b.stop()
	})
}

// All jobs together have no more passes under way than the host is to carry.
func TestPassesOfAllJobsAreCapped(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		one, two := trending(t), trending(t)
		one.Stagger, two.Stagger = 0, 0
		two.Name = "channels"
		b := newBed(t, dir, one, two)
		b.places = make(chan struct{}, 1)
		busy := 0
		b.play = func(context.Context, played) Exit {
			if busy++; busy > 1 {
				t.Error("two passes are under way")
			}
			time.Sleep(time.Second)
			busy--
			return Exit{}
		}
		slot := time.Now().UTC()
		b.Tick("trending", slot)
		b.Tick("channels", slot)
		time.Sleep(16 * time.Second)
		synctest.Wait()
		list, err := b.Status("")
		if err != nil || len(list) != 2 {
			t.Fatalf("got %d jobs, %v", len(list), err)
		}
		for _, s := range list {
			if s.Last.State != RunDone {
				t.Errorf("job %s: got %+v, want it done within 16 s", s.Job.Name, s.Last)
			}
		}
		b.stop()
	})
}

// The daemon's own record of a denial stops the run, whatever the pass says.
func TestExhaustedPassStopsTheRun(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		dry := true
		b.play = func(_ context.Context, p played) Exit {
			if p.region == "BR" && dry {
				b.deny(p)
				return Exit{Code: 1}
			}
			return Exit{}
		}
		b.run()
		got := b.status()
		if got.Cursor != "BR" || got.Last.State != RunStopped || got.Last.Reason != BudgetGone || got.Last.RetryAt.IsZero() {
			t.Errorf("got the cursor at %s after %+v", got.Cursor, got.Last)
		}
		pass := got.Last.Passes[len(got.Last.Passes)-1]
		if pass.Outcome != Exhausted || pass.Detail != `denied by limit "daily"` || len(got.Last.Passes) != 6 {
			t.Errorf("got %+v, want BR exhausted and the rest not launched", got.Last.Passes)
		}
		b.forget()
		dry = false
		b.run()
		if got := b.status(); got.Last.Ring[0] != "BR" || got.Last.State != RunDone || got.Cursor != "BR" {
			t.Errorf("the next run: got %+v, want it to begin at BR and come round", got.Last)
		}
		b.stop()
	})
}

// Nothing is launched to be told no.
func TestUnaffordablePassIsNotLaunched(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.Expects = map[string]quota.Units{"videos.list": 4}
		b := newBed(t, dir, job)
		budget := quota.Units(9)
		b.peek = func(calls map[string]quota.Units) (quota.Decision, error) {
			if calls["videos.list"] > budget {
				return refused(), nil
			}
			return quota.Decision{}, nil
		}
		b.play = func(context.Context, played) Exit { budget -= 4; return Exit{} }
		b.run()
		b.wants("11:00:00 run running", "11:00:00 US running", "11:00:00 US ok", "11:07:30 GB running", "11:07:30 GB ok",
			"11:15:00 DE skipped (unaffordable)", "11:15:00 run stopped (unaffordable)")
		b.wantCursor("DE")
		if got := b.status().Last; got.Passes[2].Detail != `a pass expects 4 units, limit "daily" has 0` || got.RetryAt.IsZero() {
			t.Errorf("got %+v, want the reason and a time", got)
		}
		b.run()
		b.wants("12:00:00 run running", "12:00:00 DE skipped (unaffordable)", "12:00:00 run stopped (unaffordable)")
		b.wantCursor("DE")
		b.stop()
	})
}

// An outage is neither a denial nor a failure: nobody's turn is lost or used up.
func TestUnreachableLedger(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.Expects = map[string]quota.Units{"videos.list": 4}
		b := newBed(t, dir, job)
		b.peek = func(map[string]quota.Units) (quota.Decision, error) { return quota.Decision{}, errLedger }
		b.run()
		b.wants("11:00:00 run running", "11:00:00 US skipped (ledger_unavailable)", "11:00:00 run stopped (ledger_unavailable)")
		b.wantCursor("US")
		if got := b.status().Last.Passes[0].Detail; got != errLedger.Error() {
			t.Errorf("got %q, want what was wrong", got)
		}
		b.stop()
	})
}

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

// The place that the last pass leaves and the stop that it causes come at once.
func TestNoPlaceAfterAStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	places := make(chan struct{}, 1)
	for range 100 {
		if take(ctx, places) || len(places) != 0 {
			t.Fatal("a place was taken")
		}
	}
}

// One bad region starves nobody.
func TestFailuresDoNotStopTheRun(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.Stagger = 0
		b := newBed(t, dir, job)
		b.play = func(_ context.Context, p played) Exit {
			switch p.region {
			case "US":
				return Exit{Code: 3}
			case "GB":
				return Exit{Code: -1, Signal: "SIGKILL"}
			case "DE":
				return Exit{Code: -1, Cause: ErrTimeout}
			case "FR":
				return Exit{Code: -1, Err: errors.New("fork/exec /bin/fetch: no such file or directory")}
			case "IN":
				p.output(Line{Stream: "stderr", Text: "panic: it hurts"})
				return Exit{Code: 2}
			}
			return Exit{}
		}
		b.run()
		b.wants("11:00:00 run running",
			"11:00:00 US running", "11:00:00 US failed", "11:00:00 GB running", "11:00:00 GB killed",
			"11:00:00 DE running", "11:00:00 DE timeout", "11:00:00 FR running", "11:00:00 FR failed",
			"11:00:00 IN running", "11:00:00 IN stderr: panic: it hurts", "11:00:00 IN failed",
			"11:00:00 BR running", "11:00:00 BR ok", "11:00:00 AU running", "11:00:00 AU ok", "11:00:00 CA running", "11:00:00 CA ok",
			"11:00:00 run done")
		passes := b.status().Last.Passes
		if got := passes[3].Detail; !strings.Contains(got, "no such file") {
			t.Errorf("got %q, want the reason why it could not be started", got)
		}
		if got := passes[4].Tail; !slices.Equal(got, []string{"panic: it hurts"}) {
			t.Errorf("got %q, want its last words", got)
		}
		b.stop()
	})
}

func TestStopOnFailure(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.Stagger, job.StopOnFailure = 0, true
		b := newBed(t, dir, job)
		b.play = func(_ context.Context, p played) Exit {
			if p.region == "GB" {
				return Exit{Code: 3}
			}
			return Exit{}
		}
		b.run()
		b.wants("11:00:00 run running", "11:00:00 US running", "11:00:00 US ok", "11:00:00 GB running", "11:00:00 GB failed", "11:00:00 run stopped (failed)")
		b.wantCursor("DE") // a bad region starves nobody
		if got := b.status().Last.Detail; got != "GB: exit status 3" {
			t.Errorf("got %q, want which region, and why", got)
		}
		b.stop()
	})
}

func TestWorkingDirectory(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.Regions, job.Dir = eight()[:1], filepath.Join(dir, "data", "trending")
		b := newBed(t, dir, job)
		b.play = func(_ context.Context, p played) Exit {
			if info, err := os.Stat(p.Dir); err != nil || !info.IsDir() {
				t.Errorf("the working directory is not there: %v", err)
			}
			return Exit{}
		}
		b.run()
		if err := os.RemoveAll(job.Dir); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(job.Dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		b.run()
		if got := b.status().Last.Passes[0]; got.Outcome != Failed || !strings.Contains(got.Detail, "working directory") {
			t.Errorf("got %+v, want a failed pass", got)
		}
		b.stop()
	})
}

func TestOverlapIsSkipped(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.Regions = eight()[:1]
		b := newBed(t, dir, job)
		b.play = func(context.Context, played) Exit {
			time.Sleep(2*time.Hour + time.Minute)
			return Exit{}
		}
		b.run()
		b.run()
		b.run()
		b.wants("11:00:00 run running", "11:00:00 US running",
			"12:00:00 run skipped (overlap) ×1", "13:00:00 run skipped (overlap) ×2", "13:01:00 US ok", "13:01:00 run done")
		if got := b.status(); got.Last.State != RunDone || got.Skips.Ticks != 2 || got.Skips.LastSlot.Hour() != 13 {
			t.Errorf("got %+v and %+v", got.Last, got.Skips)
		}
		b.stop()
	})
}

func TestSlotIsTickedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.Regions = eight()[:1]
		b := newBed(t, dir, job)
		slot := time.Now().UTC().Truncate(time.Hour)
		b.Tick("trending", slot)
		synctest.Wait()
		b.Tick("trending", slot)
		b.Tick("unknown", slot)
		synctest.Wait()
		b.wants("10:50:00 run running", "10:50:00 US running", "10:50:00 US ok", "10:50:00 run done")
		b.stop()
	})
}

// A suspended machine ticks late: one run, and what was missed has a name.
func TestMissedWhileAsleep(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.Regions = eight()[:1]
		b := newBed(t, dir, job)
		b.run()
		b.forget()
		time.Sleep(4 * time.Hour)
		b.run()
		b.wants("16:00:00 run skipped (missed) ×4", "16:00:00 run running", "16:00:00 US running", "16:00:00 US ok", "16:00:00 run done")
		if got := b.desks["trending"].history.lines; got != 3 {
			t.Errorf("the history has %d lines, want one for each run and one for what was missed", got)
		}
		b.stop()
	})
}

func TestPause(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.Regions = eight()[:1]
		b := newBed(t, dir, job)
		if err := b.Pause("trending", "root", "the key is being changed", 2*time.Hour); err != nil {
			t.Fatal(err)
		}
		b.run()
		b.stop()
		b = newBed(t, dir, job) // a restart does not end it
		b.run()
		b.wants("12:00:00 run skipped (paused) ×2")
		if got := b.status().Pause; got != nil {
			t.Errorf("got %+v, want it over", got)
		}
		b.run() // it is over by itself
		b.wants("13:00:00 run running", "13:00:00 US running", "13:00:00 US ok", "13:00:00 run done")
		if err := b.Pause("trending", "root", "", 0); err != nil {
			t.Fatal(err)
		}
		if got := b.status().Pause; got == nil || !got.Until.IsZero() || got.Since.IsZero() {
			t.Errorf("got %+v, want a pause without an end", got)
		}
		if err := b.Resume("trending"); err != nil || b.status().Pause != nil {
			t.Errorf("got %v, want it resumed", err)
		}
		b.stop()
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
		b.stop()
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

func TestStopGivesUpWhenItMust(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		release := make(chan struct{})
		b.play = func(context.Context, played) Exit { <-release; return Exit{Cause: ErrShutdown} }
		b.tick()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
		close(release)
		b.stop()
	})
}

// Draining lets the pass under way come to its own end.
func TestDrain(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		b.play = func(context.Context, played) Exit { time.Sleep(20 * time.Second); return Exit{} }
		b.tick()
		go func() {
			time.Sleep(5 * time.Second)
			b.Tick("trending", time.Now().UTC()) // no overlap: nothing begins any more
		}()
		if err := b.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		b.wants("11:00:00 run running", "11:00:00 US running", "11:00:20 US ok", "11:00:20 run interrupted (shutdown)")
		b.wantCursor("GB")
		b.stop()
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
		if pass := got.Last.Passes[2]; pass.Outcome != Interrupted || pass.Reason != Died || pass.EndedAt.IsZero() || pass.Process != nil {
			t.Errorf("got %+v, want it interrupted", pass)
		}
		next.Start(t.Context())
		next.wants("11:16:00 DE interrupted (died)", "11:16:00 run interrupted (died)")
		if want := (Identity{BootID: "boot-1", PID: 4711, Start: 42}); len(next.ended) != 1 || !sameProcess(next.ended[0], want) {
			t.Errorf("ended %+v, want %+v", next.ended, want)
		}
		again := next.killed(trending(t))
		again.Start(t.Context())
		if len(again.ended) != 0 {
			t.Errorf("ended %+v once more", again.ended)
		}
		next.run()
		if got := next.status().Last; got.Ring[0] != "DE" || got.State != RunDone {
			t.Errorf("got %+v, want the next run to begin at DE", got)
		}
		runs, err := next.Runs("trending", 10)
		if err != nil || len(runs) != 2 || runs[1].State != RunInterrupted {
			t.Errorf("got %+v, %v, want both runs in the history", runs, err)
		}
		close(hang)
		b.stop()
		next.stop()
	})
}

// Killed between the two writes at the end of a run: it is over, not interrupted.
func TestKilledWhileARunWasFiled(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.Regions = eight()[:1]
		b := newBed(t, dir, job)
		b.play = func(context.Context, played) Exit { time.Sleep(time.Minute); return Exit{} }
		b.tick()
		before, err := os.ReadFile(filepath.Join(dir, "trending.json"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		b.stop()
		if err := os.WriteFile(filepath.Join(dir, "trending.json"), before, 0o600); err != nil {
			t.Fatal(err)
		}
		b = newBed(t, dir, job)
		b.Start(t.Context())
		b.wants()
		runs, err := b.Runs("trending", 10)
		if err != nil || len(runs) != 1 || runs[0].State != RunDone || b.status().Last.State != RunDone || len(b.ended) != 0 {
			t.Errorf("got %+v, %v, want one run, done", runs, err)
		}
		b.stop()
	})
}

// Of two records of the same skipped ticks, the later one knows more.
func TestKilledWhileSkipsWereFiled(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		if err := b.Pause("trending", "root", "", 0); err != nil {
			t.Fatal(err)
		}
		b.run()
		d := b.desks["trending"]
		if err := d.history.append(d.memory.Skips); err != nil {
			t.Fatal(err)
		}
		b.run()
		runs, err := b.Runs("trending", 10)
		if err != nil || len(runs) != 1 || runs[0].Ticks != 2 {
			t.Errorf("got %+v, %v, want one record of two ticks", runs, err)
		}
		b.stop()
	})
}

func sameProcess(a, b Identity) bool {
	return a.BootID == b.BootID && a.PID == b.PID && a.Start == b.Start
}

// Killed between the record and the launch: there is no process yet to be named,
// only the marks it would have had.
func TestKilledBeforeTheProcessIsKnown(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		var next *bed
		b.config.Launcher = launchFunc(func(ctx context.Context, c Command, _ func(Line)) Exit {
			if next == nil {
				next = b.killed(trending(t))
			}
			return Exit{}
		})
		b.tick()
		next.Start(t.Context())
		id := next.status().Last.ID
		want := []string{"QUOTAD_RUN_ID=" + id, "QUOTAD_REGION=US"}
		if len(next.ended) != 1 || next.ended[0].BootID != "boot-1" || !slices.Equal(next.ended[0].Marks, want) {
			t.Errorf("ended %+v, want what is marked with %q", next.ended, want)
		}
		b.stop()
		next.stop()
	})
}

type launchFunc func(context.Context, Command, func(Line)) Exit

func (f launchFunc) Launch(ctx context.Context, c Command, output func(Line)) Exit {
	return f(ctx, c, output)
}

// The tick of a slot is on disk with its first pass: a restart does not run it
// a second time.
func TestRestartWithinASlot(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.MissedWithin = time.Hour
		b := newBed(t, dir, job)
		b.tick()
		time.Sleep(time.Minute)
		b.stop()
		next := newBed(t, dir, job)
		next.Start(t.Context())
		synctest.Wait()
		next.wants()
		next.tick()
		if got := next.status().Last.Ring[0]; got != "GB" {
			t.Errorf("the next run begins at %s, want GB", got)
		}
		next.stop()
	})
}

func TestCatchUp(t *testing.T) {
	for _, test := range []struct {
		name   string
		within time.Duration
		start  bool // RunAtStart
		want   []string
	}{
		{"one run for all that was missed", time.Hour, false,
			[]string{"16:30:00 run skipped (missed) ×4", "16:30:00 run running", "16:30:00 US running", "16:30:00 US ok", "16:30:00 run done"}},
		{"one run, though the job would also run at the start", time.Hour, true,
			[]string{"16:30:00 run skipped (missed) ×4", "16:30:00 run running", "16:30:00 US running", "16:30:00 US ok", "16:30:00 run done"}},
		{"too long ago", 29 * time.Minute, false,
			[]string{"16:30:00 run skipped (missed) ×5"}},
		{"too long ago, but the job runs at the start", 0, true,
			[]string{"16:30:00 run skipped (missed) ×5", "16:30:00 run running", "16:30:00 US running", "16:30:00 US ok", "16:30:00 run done"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				job := trending(t)
				job.Regions, job.MissedWithin, job.RunAtStart = eight()[:1], test.within, test.start
				b := newBed(t, dir, job)
				b.run()
				b.stop()
				time.Sleep(4*time.Hour + 30*time.Minute + time.Second)
				b = newBed(t, dir, job)
				b.Start(t.Context())
				synctest.Wait()
				b.wants(test.want...)
				b.stop()
			})
		})
	}
}

// A job that is new, or has a new schedule, has not missed anything.
func TestNothingMissedByANewSchedule(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.Regions, job.MissedWithin = eight()[:1], 24*time.Hour
		b := newBed(t, dir, job)
		b.Start(t.Context())
		b.run()
		b.stop()
		time.Sleep(24 * time.Hour)
		job.Schedule = every(t, time.Minute, 0)
		b = newBed(t, dir, job)
		b.Start(t.Context())
		synctest.Wait()
		b.wants()
		b.stop()
	})
}

func TestRunAtStart(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.Regions, job.RunAtStart = eight()[:2], true
		b := newBed(t, dir, job)
		b.play = func(_ context.Context, p played) Exit {
			if !slices.Contains(p.Env, "QUOTAD_SCHEDULED_AT=2000-01-01T10:50:00Z") {
				t.Errorf("got %q, want the slot", p.Env)
			}
			return Exit{}
		}
		b.Start(t.Context())
		time.Sleep(9 * time.Minute)
		// Even: over the ten minutes that are left until the next slot.
		b.wants("10:50:00 run running", "10:50:00 US running", "10:50:00 US ok", "10:55:00 GB running", "10:55:00 GB ok", "10:55:00 run done")
		if got := b.status().Last.Trigger; got != AtStart {
			t.Errorf("got %q, want %q", got, AtStart)
		}
		b.stop()
		for _, region := range eight()[:2] { // started again, and again at the same instant
			b = newBed(t, dir, job)
			b.play = func(context.Context, played) Exit { return Exit{} }
			b.Start(t.Context())
			synctest.Wait()
			b.wants("10:59:00 run running", fmt.Sprintf("10:59:00 %s running", region), fmt.Sprintf("10:59:00 %s ok", region))
			b.stop()
		}
	})
}

// State that cannot be saved is told, and the work goes on.
func TestTroubleWithTheDisk(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.Regions = eight()[:2]
		job.Stagger = 0
		b := newBed(t, dir, job)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		b.run()
		if got := b.status().Last; got.State != RunDone {
			t.Errorf("got %+v, want it done", got)
		}
		if log := strings.Join(b.log, "\n"); !strings.Contains(log, "trouble: trending: cannot save state") {
			t.Errorf("got %s, want the trouble told", log)
		}
		b.stop()
	})
}

func TestOpenRefusesDamagedState(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "trending.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Config{Jobs: []*Job{trending(t)}, Dir: dir, Now: time.Now})
	if err == nil || !strings.Contains(err.Error(), `job "trending"`) || !strings.Contains(err.Error(), "move the file away") {
		t.Errorf("got %v, want the job, the file and the cure", err)
	}
	_, err = Open(Config{Jobs: []*Job{trending(t), trending(t)}, Dir: t.TempDir(), Now: time.Now})
	if err == nil || !strings.Contains(err.Error(), "defined twice") {
		t.Errorf("got %v, want two jobs of one name refused", err)
	}
}

// A region that is gone from the configuration takes the cursor to the beginning.
func TestCursorOfARegionThatIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		if err := b.SetCursor("trending", "BR"); err != nil {
			t.Fatal(err)
		}
		b.stop()
		job := trending(t)
		job.Regions = regions.Ring{"US", "GB", "DE"}
		b = newBed(t, dir, job)
		b.wantCursor("US")
		b.run()
		if got := b.status().Last; !slices.Equal(got.Ring, job.Regions) {
			t.Errorf("got %v, want the whole ring from its beginning", got.Ring)
		}
		b.stop()
	})
}
