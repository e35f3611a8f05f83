package jobs

import (
	"context"
	"slices"
	"testing"
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
