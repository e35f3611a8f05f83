package jobs

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"quotad/quota"
)

// A budget is units that passes spend one by one, and the gate looks at.
type budget struct {
	mu   sync.Mutex // guards left: passes spend side by side
	left quota.Units
}

func (b *bed) budget(units quota.Units) *budget {
	left := &budget{left: units}
	b.shares(left)
	return left
}

// shares has the passes of a bed spend from a budget.
func (b *bed) shares(left *budget) {
	b.peek = func(calls map[string]quota.Units) (quota.Decision, error) {
		if calls["videos.list"] > left.get() {
			d := refused()
			d.Units = calls["videos.list"]
			return d, nil
		}
		return quota.Decision{}, nil
	}
	b.play = func(_ context.Context, p played) Exit {
		for i := range 4 {
			if !left.spend() {
				b.deny(p)
				return Exit{Code: ExitExhausted}
			}
			b.decided(p, quota.Request{Operation: "videos.list", Count: 1}, quota.Decision{GrantID: p.region + string(rune('0'+i)), Units: 1})
			time.Sleep(time.Second)
		}
		return Exit{}
	}
}

func (b *budget) get() quota.Units {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left
}

func (b *budget) set(units quota.Units) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = units
}

func (b *budget) spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left == 0 {
		return false
	}
	b.left--
	return true
}

// Two jobs that expect 4 on a budget of 5: the first is served, the second is not
// launched to spend what the first still needs.
func TestNobodyIsLaunchedAgainstUnitsThatAreSpokenFor(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		one, two := trending(t), trending(t)
		two.Name = "channels"
		for _, job := range []*Job{one, two} {
			job.Regions, job.Expects = eight()[:1], map[string]quota.Units{"videos.list": 4}
		}
		b := newBed(t, dir, one, two)
		left := b.budget(5)
		b.tick() // trending, which has spent one of its four
		b.Tick("channels", time.Now().UTC())
		synctest.Wait()
		time.Sleep(time.Minute)
		list, err := b.Status("")
		must(t, err)
		if got := list[0].Last; got.State != RunDone {
			t.Errorf("the first: got %+v, want it served", got)
		}
		got := list[1].Last
		if got.State != RunStopped || got.Reason != DoesNotFit || got.Detail != "no room, with the passes under way" || left.get() != 1 {
			t.Errorf("the second: got %+v, want it not launched; %d units are left", got, left.get())
		}
		left.set(4)
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
		b.Tick("channels", time.Now().UTC()) // the first is over: nothing is spoken for any more
		time.Sleep(time.Minute)
		if list, _ := b.Status("channels"); list[0].Last.State != RunDone {
			t.Errorf("got %+v, want it served", list[0].Last)
		}
	})
}

// Of two passes that ask at once for the last units, one is launched.
func TestOnePassAsksAtATime(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		one, two := trending(t), trending(t)
		two.Name = "channels"
		for _, job := range []*Job{one, two} {
			job.Regions, job.Expects = eight()[:1], map[string]quota.Units{"videos.list": 4}
		}
		b := newBed(t, dir, one, two)
		b.budget(5)
		answer := b.peek
		b.peek = func(calls map[string]quota.Units) (quota.Decision, error) {
			time.Sleep(time.Second)
			return answer(calls)
		}
		slot := time.Now().UTC()
		b.Tick("trending", slot)
		b.Tick("channels", slot)
		time.Sleep(time.Minute)
		list, err := b.Status("")
		must(t, err)
		states := map[RunState]int{list[0].Last.State: 1}
		if states[list[1].Last.State]++; states[RunDone] != 1 || states[RunStopped] != 1 {
			t.Errorf("got %v, want one done, and one stopped because the other is under way", states)
		}
	})
}

// The gate counts the reserve for a job that may use it, and for no other.
func TestTheGateAndTheReserve(t *testing.T) {
	for _, may := range []bool{false, true} {
		t.Run(fmt.Sprint(may), func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				job := trendingIn(t, 1)
				job.UseReserve, job.Expects = may, map[string]quota.Units{"videos.list": 4}
				b := newBed(t, dir, job)
				b.reserved.Store(!may)
				b.tick()
				if got := b.reserved.Load(); got != may {
					t.Errorf("the gate was asked with the reserve: %t, want %t", got, may)
				}
			})
		})
	}
}

// Parallel passes of one run are such others too.
func TestParallelPassesShareTheBudget(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 3)
		job.Stagger, job.Parallel, job.Expects = 0, 2, map[string]quota.Units{"videos.list": 4}
		b := newBed(t, dir, job)
		b.budget(5)
		b.tick()
		time.Sleep(time.Minute)
		got := b.status()
		us, gb := got.Last.attempt("US", 0), got.Last.attempt("GB", 0)
		if got.Cursor != "GB" || us == nil || us.Outcome != OK || gb == nil || gb.Reason != DoesNotFit || len(got.Last.Passes) != 2 {
			t.Errorf("got the cursor at %s after %+v", got.Cursor, got.Last)
		}
	})
}
