package jobs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"quotad/quota"
)

// A daemon that stops begins nothing more, waits for the pass under way until it is to ask that to end, and the region
// keeps its turn.
func TestStop(t *testing.T) {
	obeys := func(ctx context.Context, _ *bed, p played) Exit {
		if p.region == "US" {
			return Exit{}
		}
		return hang(ctx, p)
	}
	stops := func(after time.Duration) func(b *bed, job *Job) {
		return func(b *bed, job *Job) {
			b.tick()
			time.Sleep(after)
			b.forget()
			b.stop()
			b.wantCursor("GB")
			b.Tick("trending", b.now().Add(time.Hour))
			if _, err := b.Run("trending", "root"); !errors.Is(err, ErrStopping) {
				b.t.Errorf("got %v, want ErrStopping", err)
			}
			b.open(job)
			b.wantCursor("GB")
		}
	}
	play(t, []history{
		{name: "while a pass is under way", regions: 8, play: obeys, live: stops(8 * time.Minute),
			want: []string{"11:08:00 GB interrupted (shutdown)", "11:08:00 run interrupted (shutdown)"}},
		{name: "between two passes", regions: 8, play: obeys, live: stops(time.Minute),
			want: []string{"11:01:00 run interrupted (shutdown)"}},
		{name: "a pass takes its time, until force ends", play: func(ask context.Context, b *bed, p played) Exit {
			<-p.force.Done()
			return Exit{Code: -1, Signal: "SIGKILL", Cause: context.Cause(ask)}
		}, live: func(b *bed, _ *Job) {
			b.tick()
			force, cancel := context.WithTimeout(b.t.Context(), 5*time.Second)
			defer cancel()
			ask, cancel := context.WithTimeout(force, time.Second)
			defer cancel()
			b.Stop(ask, force)
			b.wantCursor("US")
		}, want: []string{"11:00:00 run running", "11:00:00 US running", "11:00:05 US interrupted (shutdown)", "11:00:05 run interrupted (shutdown)"}},
		{name: "a pass is asked to end", play: func(ask context.Context, _ *bed, p played) Exit { return hang(ask, p) }, live: func(b *bed, _ *Job) {
			b.tick()
			ask, cancel := context.WithTimeout(b.t.Context(), 30*time.Second)
			defer cancel()
			b.Stop(ask, b.t.Context())
		}, want: []string{"11:00:00 run running", "11:00:00 US running", "11:00:30 US interrupted (shutdown)", "11:00:30 run interrupted (shutdown)"}},
		{name: "a pass comes to its own end", regions: 2, play: takes(time.Hour + time.Minute), live: func(b *bed, job *Job) {
			b.tick()
			stopping := b.Runner
			time.AfterFunc(time.Hour, func() { stopping.Tick("trending", time.Now().UTC()) })
			b.Stop(b.t.Context(), b.t.Context())
			b.wantCursor("GB")
			b.open(job) // the slot that came meanwhile was not run: the next daemon says so
			b.start()
		}, want: []string{"11:00:00 run running", "11:00:00 US running", "12:01:00 US ok", "12:01:00 run interrupted (shutdown)", "12:01:00 run skipped (missed)"}},
		{name: "while the gate is asked", job: func(j *Job) { j.Expects = map[string]quota.Units{"videos.list": 4} }, live: func(b *bed, _ *Job) {
			asked := make(chan struct{})
			b.peek = func(map[string]quota.Units) (quota.Decision, error) { <-asked; return quota.Decision{}, errLedger }
			b.tick()
			time.AfterFunc(time.Second, func() { close(asked) })
			b.stop()
			b.wantCursor("US")
		}, want: []string{"11:00:00 run running", "11:00:01 run interrupted (shutdown)"}},
	})
}

// After kill -9 nothing is running for ever, the region keeps its turn, and what
// the daemon left running is ended before anything else is launched. A slot that was skipped names the run in its way:
// its line is not taken for the end of that run.
func TestKilledDaemon(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job, other := trending(t, 3), trending(t, 1)
		job.Stagger, other.Name = 0, "channels"
		b := newBed(t, dir, job)
		b.play = func(ctx context.Context, p played) Exit {
			if p.region == "DE" {
				state, err := os.ReadFile(filepath.Join(dir, "trending.json"))
				if err != nil || !strings.Contains(string(state), `"region":"DE"`) {
					t.Errorf("when its command starts, the state does not have the pass: %s, %v", state, err)
				}
				return hang(ctx, p)
			}
			return Exit{}
		}
		b.tick()
		b.tick()
		b.forget()
		b.kill(other) // without the job,
		b.kill(job)   // and before that process had ended
		if _, err := b.Run("trending", "root"); !errors.Is(err, ErrUnderWay) || b.status().Last.Reason != Died {
			t.Errorf("got %v after %+v, want that the run of before is in the way until it was ended", err, b.status().Last)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		b.Start(ctx) // and is stopped before it has
		b.wants()
		b.kill(job)
		b.ended = nil
		b.start()
		b.wants("12:00:00 DE interrupted (died)", "12:00:00 run interrupted (died)")
		if want := (Identity{BootID: "boot-1", PID: 4711, Start: 42}); len(b.ended) != 1 || b.ended[0] != want {
			t.Errorf("ended %+v, want %+v", b.ended, want)
		}
		got := b.status()
		if got.Last == nil || got.Cursor != "DE" || got.Last.State != RunInterrupted || got.Last.Reason != Died || len(got.Last.Passes) != 3 {
			t.Fatalf("got the cursor at %s after %+v", got.Cursor, got.Last)
		}
		if p := got.Last.Passes[2]; p.Outcome != Interrupted || p.Reason != Died || p.EndedAt.IsZero() || p.Units != 3 || p.Made["list"] != 3 || p.Process != nil {
			t.Errorf("got %+v, want it interrupted, with what the ledger says that it spent", p)
		}
		b.play = exits(0)
		b.run()
		b.kill(job)
		b.start()
		if len(b.ended) != 1 {
			t.Errorf("ended %+v after another run", b.ended)
		}
		runs, err := b.Runs("trending", 10)
		if err != nil || len(runs) != 3 || runs[0].Ring[0] != "DE" || runs[0].State != RunDone || runs[1].State != RunSkipped && runs[2].State != RunSkipped {
			t.Errorf("got %+v, %v, want both runs and the slot that was skipped", runs, err)
		}
	})
}

// What a killed daemon left running is ended also if the job is not configured any more, or if its file is put there
// before a reload adds the job.
func TestLeftoversOfAJobThatIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		other := trending(t, 1)
		other.Name = "channels"
		b := newBed(t, dir, trending(t, 1))
		b.play = hang
		b.tick()
		for range 2 {
			b.kill(other)
			b.start()
			if len(b.ended) != 1 || b.ended[0].PID != 4711 {
				t.Errorf("got %+v ended, want the process of the job that is gone, once", b.ended)
			}
		}
		text, err := os.ReadFile(filepath.Join(dir, "trending.json"))
		must(t, err)
		b.dir, b.ended = dir+"2", nil
		b.restart(other)
		must(t, os.WriteFile(filepath.Join(b.dir, "trending.json"), text, 0o600))
		must(t, b.SetJobs([]*Job{other, trending(t, 1)}))
		synctest.Wait()
		if b.begun(); len(b.ended) != 1 || b.status().Last.State != RunRunning {
			t.Errorf("got %+v ended, and %+v", b.ended, b.status().Last)
		}
	})
}
