package jobs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"quotad/regions"
)

func (b *bed) setJobs(jobs ...*Job) {
	b.t.Helper()
	must(b.t, b.SetJobs(jobs))
}

// A run under way finishes as it began; the next one knows the new definition
// and begins where the cursor is.
func TestReloadDuringARun(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		old := trending(t)
		old.Regions, old.Stagger = eight()[:3], 10*time.Minute
		b := newBed(t, dir, old)
		b.tick()
		changed := trending(t)
		changed.Regions, changed.Stagger, changed.Command = regions.Ring{"BR", "DE"}, 0, []string{"/bin/fetch", "--new"}
		b.setJobs(changed)
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		b.wants("11:00:00 run running", "11:00:00 US running", "11:00:00 US ok", "11:10:00 GB running", "11:10:00 GB ok",
			"11:20:00 DE running", "11:20:00 DE ok", "11:20:00 run done")
		b.play = func(_ context.Context, p played) Exit {
			if len(p.Args) != 2 {
				t.Errorf("got %q, want the new command", p.Args)
			}
			return Exit{}
		}
		b.run()
		b.wants("12:00:00 run running", "12:00:00 BR running", "12:00:00 BR ok", "12:00:00 DE running", "12:00:00 DE ok", "12:00:00 run done")
	})
}

// A job that is gone is not run any more, but what runs of it is still ended in
// order, and seen until then; if it comes back meanwhile it is the same job.
func TestReloadRemovesAJob(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		b.play = func(ctx context.Context, p played) Exit {
			<-ctx.Done()
			return Exit{Code: -1, Cause: context.Cause(ctx)}
		}
		b.tick()
		b.forget()
		b.setJobs()
		if got := b.status(); got.Schedule != "removed" || !got.Next.IsZero() || got.Last.State != RunRunning {
			t.Errorf("got %+v, want the run that is under way still", got)
		}
		if runs, err := b.Runs("", 1); err != nil || len(runs) != 1 || runs[0].State != RunRunning {
			t.Errorf("got %+v, %v, want that run", runs, err)
		}
		b.tick()
		b.wants()
		b.setJobs(trending(t))
		b.tick()
		b.wants("13:00:00 run skipped (overlap) ×1")
		b.setJobs()
		b.stop()
		b.wants("13:00:00 US interrupted (shutdown)", "13:00:00 run interrupted (shutdown)")
		if _, err := b.Status("trending"); !errors.Is(err, ErrUnknown) {
			t.Errorf("got %v, want %v", err, ErrUnknown)
		}
		if len(b.ended) != 0 {
			t.Errorf("%+v was taken for a leftover", b.ended)
		}
	})
}

func TestReloadIsRefusedAsAWhole(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		changed, other := trending(t), trending(t)
		changed.Regions = regions.Ring{"BR"}
		if err := b.SetJobs([]*Job{changed, other}); err == nil {
			t.Fatal("two jobs of one name were accepted")
		}
		b.wantCursor("US")
		b.run()
		if got := b.status().Last.Ring; len(got) != 8 {
			t.Errorf("got %v, want the old ring", got)
		}
	})
}

// A schedule that is replaced has missed nothing, also if a slot is due at that time.
func TestReloadReplacesASchedule(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		time.Sleep(10 * time.Minute) // nobody has ticked the slot yet
		changed := trending(t)
		changed.Schedule = shifted{every(t, time.Hour), 30 * time.Minute}
		b.setJobs(changed)
		b.wants()
		time.Sleep(30 * time.Minute)
		b.Tick("trending", time.Now().UTC())
		synctest.Wait()
		b.wants("11:30:00 run running", "11:30:00 US running", "11:30:00 US ok")
	})
}

// A job that was removed missed nothing until it was put back, whether the daemon went on
// meanwhile or was started without it.
func TestJobPutBackMissedNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		b.run()
		b.forget()
		must(t, b.SetJobs(nil))
		time.Sleep(5 * time.Hour)
		must(t, b.SetJobs([]*Job{trending(t)}))
		synctest.Wait()
		b.wants()
		b.run()
		b.stop()

		without := newBed(t, dir)
		without.stop()
		time.Sleep(5 * time.Hour)
		b = newBed(t, dir, trending(t))
		b.Start(t.Context())
		synctest.Wait()
		b.wants()
		if b.status().Skips != nil {
			t.Errorf("got %+v, want nothing missed", b.status().Skips)
		}
	})
}
