package jobs

import (
	"context"
	"slices"
	"testing"
	"time"
)

// A run spends from the credential that its job had when it began, until it is over.
func TestSpending(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		b.play = func(ctx context.Context, p played) Exit {
			<-ctx.Done()
			return Exit{Code: -1, Cause: context.Cause(ctx)}
		}
		wants := func(want ...string) {
			t.Helper()
			if got := b.Spending("youtube"); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		wants()
		b.tick()
		run := b.status().Last.ID
		wants(run)
		moved := trending(t)
		moved.Credential = "other"
		b.setJobs(moved)
		wants(run)
		b.setJobs()
		wants(run)
		b.stop()
		wants()
	})
}

// A caller who finds a run under way, and looks at it only when that is over and the next one has
// begun, is not shown the next one.
func TestARunIsNotShownAsTheOneBefore(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		b.play = func(context.Context, played) Exit {
			time.Sleep(time.Minute)
			return Exit{}
		}
		b.tick()
		before := b.underWay()[0]
		if run := before.current(); run == nil || run.ID != before.run.ID {
			t.Errorf("while it runs: got %+v", run)
		}
		time.Sleep(time.Hour - time.Second)
		b.tick()
		if run := before.current(); run != nil {
			t.Errorf("got run %s, want nothing of %s, which is over", run.ID, before.run.ID)
		}
	})
}
