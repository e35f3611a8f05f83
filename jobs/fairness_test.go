package jobs

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"quotad/quota"
	"quotad/quota/seedtest"
	"quotad/regions"
)

// Whatever the budget, the failures and the restarts: regions are served in the
// order of the ring, none is passed over, and nobody is served twice before all
// others had their turn.
func TestEveryRegionIsServedInTurn(t *testing.T) {
	seed := seedtest.Seed(t, 1)
	for i := range uint64(4) {
		t.Run(strconv.FormatUint(i, 10), func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				s := &stress{random: rand.New(rand.NewPCG(seed, i)), cost: 4}
				s.budget = 1 + quota.Units(s.random.IntN(40))
				s.job = trending(t)
				s.job.Stagger = 0
				if s.random.IntN(2) == 0 {
					s.job.Expects = map[string]quota.Units{"videos.list": s.cost}
				}
				s.live(t, dir, 20)
				s.check(t, eight())
			})
		})
	}
}

// A stress is a job whose budget is a sliding window of a day, whose passes fail
// now and then, and whose daemon is stopped at any time.
type stress struct {
	random *rand.Rand
	job    *Job
	budget quota.Units
	cost   quota.Units // of a pass

	debits []time.Time // one for each unit
	served []regions.Region
}

func (s *stress) live(t *testing.T, dir string, ticks int) {
	b := s.open(t, dir)
	for range ticks {
		b.run()
		if s.random.IntN(5) == 0 {
			b.stop()
			b = s.open(t, dir)
		}
	}
	b.stop()
}

func (s *stress) open(t *testing.T, dir string) *bed {
	b := newBed(t, dir, s.job)
	b.peek = func(calls map[string]quota.Units) (quota.Decision, error) {
		switch {
		case s.random.IntN(10) == 0:
			return quota.Decision{}, errLedger
		case calls["videos.list"] > s.left():
			return refused(), nil
		}
		return quota.Decision{}, nil
	}
	b.play = func(_ context.Context, p played) Exit { return s.pass(b, p) }
	return b
}

// pass spends unit by unit, and ends at the first denial.
func (s *stress) pass(b *bed, p played) Exit {
	for range s.cost {
		if s.left() == 0 {
			b.deny(p)
			return Exit{Code: ExitExhausted}
		}
		s.debits = append(s.debits, time.Now())
	}
	s.served = append(s.served, regions.Region(p.region))
	return Exit{Code: s.random.IntN(4) / 3}
}

func (s *stress) left() quota.Units {
	since := time.Now().Add(-24 * time.Hour)
	s.debits = slices.DeleteFunc(s.debits, func(at time.Time) bool { return !at.After(since) })
	return s.budget - quota.Units(len(s.debits))
}

func (s *stress) check(t *testing.T, ring regions.Ring) {
	t.Helper()
	for i, region := range s.served {
		if want := ring[i%len(ring)]; region != want {
			t.Fatalf("budget %d: %d. served was %s, want %s: %v", s.budget, i+1, region, want, s.served)
		}
	}
	if s.budget >= s.cost && len(s.served) == 0 {
		t.Errorf("budget %d: nobody was served", s.budget)
	}
}

// A region that needs more than there ever is does not keep all others from
// their turn, though each run that begins with it stops there.
func TestInsatiableRegion(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.Regions, job.Stagger, job.Schedule = regions.Ring{"US", "GB", "DE", "FR"}, 0, every(t, 24*time.Hour)
		s := &stress{random: rand.New(rand.NewPCG(0, 0)), budget: 6, job: job}
		b := newBed(t, dir, job)
		b.play = func(_ context.Context, p played) Exit {
			s.cost = 1
			if p.region == "DE" {
				s.cost = 10
			}
			left := s.left()
			exit := s.pass(b, p)
			b.spend(p, "youtube:1-0", left-s.left())
			return Exit{Code: exit.Code / ExitExhausted * ExitExhausted}
		}
		var cursors []regions.Cursor
		for range 6 {
			time.Sleep(24 * time.Hour)
			b.Tick("trending", time.Now().UTC())
			synctest.Wait()
			cursors = append(cursors, b.status().Cursor)
		}
		// US and GB, then DE runs dry; then DE alone, three days in a row; then FR
		// and round to DE again.
		if want := []regions.Cursor{"DE", "DE", "DE", "FR", "DE", "DE"}; !slices.Equal(cursors, want) {
			t.Errorf("the cursor was at %v, want %v", cursors, want)
		}
		if want := (regions.Ring{"US", "GB", "FR", "US", "GB"}); !slices.Equal(s.served, want) {
			t.Errorf("served %v, want %v", s.served, want)
		}
	})
}

// A region that finds nothing left keeps its turn, however often.
func TestDeniedAtOnceKeepsTheTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		b.play = func(_ context.Context, p played) Exit { b.deny(p); return Exit{Code: ExitExhausted} }
		for range 2 * patience {
			b.run()
			b.wantCursor("US")
		}
		// Without a denial on record it is the region's own trouble, if it has it
		// several times in a row.
		trouble := func(context.Context, played) Exit { return Exit{Code: ExitExhausted} }
		fine := func(context.Context, played) Exit { return Exit{} }
		for _, play := range []func(context.Context, played) Exit{trouble, trouble, fine, trouble, trouble} {
			b.play = play
			b.run()
			b.wantCursor("US")
		}
		b.play = trouble
		b.run()
		b.wantCursor("GB")
		if got := b.status().Last; got.State != RunStopped || !got.Passes[0].Yields {
			t.Errorf("got %+v, want the run stopped and the turn passed on", got)
		}
	})
}
