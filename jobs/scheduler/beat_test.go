package scheduler

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"quotad/jobs"
)

func TestBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		var mu sync.Mutex // guards beats
		var beats []time.Duration
		began := time.Now()
		b.Beat(10*time.Second, func() {
			mu.Lock()
			beats = append(beats, time.Since(began))
			mu.Unlock()
		})
		wants := func(want ...time.Duration) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(beats, want) {
				t.Errorf("got beats at %v, want %v", beats, want)
			}
		}
		wants()
		b.Start()
		time.Sleep(30 * time.Second)
		wants(10*time.Second, 20*time.Second, 30*time.Second)
		must(t, b.Stop())
		time.Sleep(time.Minute)
		wants(10*time.Second, 20*time.Second, 30*time.Second)
	})
}

// A tick that does not return keeps the beat away, which comes back with it.
func TestNoBeatWithoutTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var beats, ahead atomic.Int64
		stuck := make(chan struct{})
		s, err := newScheduler(func(string, time.Time) { <-stuck }, func() time.Time {
			return time.Now().Add(time.Duration(ahead.Load()))
		})
		if err != nil {
			t.Fatal(err)
		}
		every := jobs.Every{Period: time.Hour}
		must(t, s.Set("fetch", every))
		s.Beat(time.Second, func() { beats.Add(1) })
		wants := func(want int64) {
			t.Helper()
			synctest.Wait()
			if got := beats.Load(); got != want {
				t.Errorf("%d beats came, want %d", got, want)
			}
		}
		s.Start()
		time.Sleep(3500 * time.Millisecond)
		wants(3)
		ahead.Store(int64(time.Hour)) // the next one to look at the slots is the beat
		time.Sleep(5 * time.Second)
		wants(3)
		close(stuck)
		wants(5) // one was due meanwhile
		time.Sleep(2 * time.Second)
		wants(7)
		must(t, s.Stop())
	})
}

// The clock is set back by ten minutes: slots and beats come as before.
func TestAClockThatIsSetBack(t *testing.T) {
	for _, step := range []time.Duration{-10 * time.Minute, -time.Minute, 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			var ticks, beats, ahead atomic.Int64
			s, err := newScheduler(func(string, time.Time) { ticks.Add(1) }, func() time.Time {
				return time.Now().Add(time.Duration(ahead.Load()))
			})
			must(t, err)
			must(t, s.Set("fetch", jobs.Every{Period: 10 * time.Second}))
			s.Beat(time.Second, func() { beats.Add(1) })
			s.Start()
			time.Sleep(time.Minute)
			ahead.Store(int64(step))
			time.Sleep(time.Minute)
			ahead.Store(0)
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := ticks.Load(); got < 17 || got > 19 {
				t.Errorf("the clock is set by %v: %d slots ran in three minutes, want 18", step, got)
			}
			if got := beats.Load(); got < 179 {
				t.Errorf("the clock is set by %v: %d beats came in three minutes, want 180", step, got)
			}
			must(t, s.Stop())
		})
	}
}
