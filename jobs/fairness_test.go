package jobs

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"quotad/regions"
)

// A region that needs more than there ever is does not keep all others from
// their turn, though each run that begins with it stops there. Restarts change nothing.
func TestInsatiableRegion(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t, 4)
		job.Stagger, job.Schedule = 0, every(t, 24*time.Hour)
		b := newBed(t, dir, job)
		var left int // of six units a day
		var served regions.Ring
		b.play = func(_ context.Context, p played) Exit {
			needs := map[string]int{"DE": 10}
			for i := range max(1, needs[p.region]) {
				if left == 0 {
					b.deny(p, "videos.list", 3*time.Hour)
					return Exit{Code: ExitExhausted}
				}
				left--
				b.spend(p, "videos.list", strconv.Itoa(i), 1)
			}
			served = append(served, regions.Region(p.region))
			return Exit{}
		}
		var cursors []regions.Cursor
		for range 6 {
			left = 6
			time.Sleep(24 * time.Hour)
			b.Tick("trending", time.Now().UTC())
			b.wait(0)
			cursors = append(cursors, b.status().Cursor)
			b.restart(job)
		}
		// US and GB, then DE runs dry; then DE alone, three days in a row; then FR and round to DE again.
		if want := []regions.Cursor{"DE", "DE", "DE", "FR", "DE", "DE"}; !slices.Equal(cursors, want) {
			t.Errorf("the cursor was at %v, want %v", cursors, want)
		}
		if want := (regions.Ring{"US", "GB", "FR", "US", "GB"}); !slices.Equal(served, want) {
			t.Errorf("served %v, want %v", served, want)
		}
	})
}

// A region that finds nothing left keeps its turn, however often. Without a denial on record it is the region's own
// trouble, if it has it several times in a row.
func TestDeniedAtOnceKeepsTheTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t, 8))
		denied := func(_ context.Context, p played) Exit { b.deny(p, "", time.Hour); return Exit{Code: ExitExhausted} }
		dry, fine := exits(ExitExhausted), exits(0)
		for _, play := range []func(context.Context, played) Exit{denied, denied, dry, dry, fine, dry, denied, dry, denied} {
			b.play = play
			b.run()
			b.wantCursor("US")
		}
		b.play = dry
		b.run()
		b.wantCursor("GB")
		if got := b.status().Last; got.State != RunStopped || !got.Passes[0].Yields {
			t.Errorf("got %+v, want the run stopped and the turn passed on", got)
		}
		b.run()
		b.run()
		b.play = func(ctx context.Context, p played) Exit {
			if p.region == "GB" {
				return fine(ctx, p)
			}
			return dry(ctx, p)
		}
		b.run()
		b.wantCursor("DE") // which was dry once
	})
}
