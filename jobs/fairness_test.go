package jobs

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/seedtest"
	"quotad/regions"
)

// Whatever the budget, the failures and the restarts: regions are served in the order of the ring, none is passed
// over, and nobody is served twice before all others had their turn.
func TestEveryRegionIsServedInTurn(t *testing.T) {
	seed := seedtest.Seed(t, 1)
	for i := range uint64(4) {
		t.Run(strconv.FormatUint(i, 10), func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				s := &stress{random: rand.New(rand.NewPCG(seed, i)), cost: 4}
				s.budget = 1 + quota.Units(s.random.IntN(40))
				job := trending(t, 8)
				job.Stagger = 0
				if s.random.IntN(2) == 0 {
					job.Expects = map[string]quota.Units{"videos.list": s.cost}
				}
				b := newBed(t, dir, job)
				b.peek = s.peek
				b.play = func(_ context.Context, p played) Exit { return s.pass(b, p) }
				for range 20 {
					if b.run(); s.random.IntN(5) == 0 {
						b.restart(job)
					}
				}
				for i, region := range s.served {
					if want := eight()[i%8]; region != want {
						t.Fatalf("budget %d: %d. served was %s, want %s: %v", s.budget, i+1, region, want, s.served)
					}
				}
				if s.budget >= s.cost && len(s.served) == 0 {
					t.Errorf("budget %d: nobody was served", s.budget)
				}
			})
		})
	}
}

// A stress is a budget in a sliding window of three hours, and passes that fail now and then.
type stress struct {
	random *rand.Rand
	budget quota.Units
	cost   quota.Units // of a pass

	debits []time.Time // one for each unit
	served []regions.Region
}

// peek cannot be asked now and then.
func (s *stress) peek(calls map[string]quota.Units) (quota.Decision, error) {
	switch {
	case s.random.IntN(10) == 0:
		return quota.Decision{}, errLedger
	case calls["videos.list"] > s.left():
		return refused(), nil
	}
	return quota.Decision{}, nil
}

// pass spends unit by unit, and ends at the first denial.
func (s *stress) pass(b *bed, p played) Exit {
	for i := range s.cost {
		if s.left() == 0 {
			b.deny(p, "", 3*time.Hour)
			return Exit{Code: ExitExhausted}
		}
		s.debits = append(s.debits, time.Now())
		b.spend(p, "videos.list", p.token+strconv.Itoa(int(i)), 1)
	}
	s.served = append(s.served, regions.Region(p.region))
	return Exit{Code: s.random.IntN(4) / 3}
}

func (s *stress) left() quota.Units {
	since := time.Now().Add(-3 * time.Hour)
	s.debits = slices.DeleteFunc(s.debits, func(at time.Time) bool { return !at.After(since) })
	return s.budget - quota.Units(len(s.debits))
}

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
