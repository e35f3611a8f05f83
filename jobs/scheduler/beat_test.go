package scheduler

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"quotad/jobs"
)

// overAtOnce is how long a beat takes: gocron may call again what is over at the very
// instant at which it began, as it can be where time stands still meanwhile.
const overAtOnce = time.Millisecond

func TestBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		var mu sync.Mutex // guards beats
		var beats []time.Duration
		began := time.Now()
		err := b.Beat(10*time.Second, func() {
			mu.Lock()
			beats = append(beats, time.Since(began))
			mu.Unlock()
			time.Sleep(overAtOnce)
		})
		if err != nil {
			t.Fatal(err)
		}
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
		beat := func() {
			beats.Add(1)
			time.Sleep(overAtOnce)
		}
		must(t, errors.Join(s.Set("fetch", every), s.Beat(time.Second, beat)))
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
		wants(4)
		time.Sleep(2 * time.Second)
		wants(6)
		must(t, s.Stop())
	})
}
