package scheduler

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"quotad/jobs"
)

// A bed is a scheduler in a synctest bubble, with a wall clock that can be set.
type bed struct {
	*Scheduler
	t *testing.T

	mu    sync.Mutex // guards what follows
	wrong time.Duration
	ticks []string
}

// at runs a test from a time of day on.
func at(t *testing.T, clock string, test func(b *bed)) {
	t.Helper()
	day, err := time.Parse(time.TimeOnly, clock)
	must(t, err)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(day.Sub(day.Truncate(24 * time.Hour)))
		b := &bed{t: t}
		s, err := newScheduler(b.tick, b.now)
		must(t, err)
		b.Scheduler = s
		t.Cleanup(func() { must(t, s.Stop()) })
		test(b)
	})
}

func (b *bed) now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Add(b.wrong)
}

// setClock moves the wall clock, of which the timers know nothing.
func (b *bed) setClock(by time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong += by
}

func (b *bed) tick(job string, slot time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ticks = append(b.ticks, fmt.Sprintf("%s %s", job, slot.Format("15:04:05")))
}

func (b *bed) set(job string, period time.Duration) {
	b.t.Helper()
	must(b.t, b.Set(job, jobs.Every{Period: period}))
}

// wants lets time pass and compares the ticks since the last call.
func (b *bed) wants(passes time.Duration, want ...string) {
	b.t.Helper()
	time.Sleep(passes)
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.ticks, want) {
		b.t.Errorf("got %q, want %q", b.ticks, want)
	}
	b.ticks = nil
}

// Ticks are aligned to the epoch. A schedule that is set anew counts from its own next slot on; one that never comes is
// refused, and changes nothing.
func TestSchedulesAreSet(t *testing.T) {
	at(t, "10:17:00", func(b *bed) {
		b.set("trending", 30*time.Minute)
		b.Start()
		b.wants(13*time.Minute - 1)
		b.wants(1, "trending 10:30:00")
		if err := b.Set("trending", jobs.Every{}); err == nil {
			t.Error("a schedule that never comes was accepted")
		}
		hourly, err := ParseCron("5 * * * *", time.UTC)
		must(t, err)
		must(t, b.Set("channels", hourly))
		b.wants(time.Hour, "trending 11:00:00", "channels 11:05:00", "trending 11:30:00")
		b.set("trending", time.Hour)
		b.wants(31*time.Minute, "trending 12:00:00")
		b.set("trending", 20*time.Minute)
		b.wants(20*time.Minute, "channels 12:05:00", "trending 12:20:00")
		b.set("trending", time.Hour) // and its slot of 12:40 comes no more
		b.wants(29 * time.Minute)
		must(t, b.Set("trending", jobs.Unscheduled{}))
		must(t, b.Remove("channels"))
		b.wants(3 * time.Hour)
	})
}

// Of the slots that came while the daemon was not awake only the latest ticks. A clock that was set back shows a time of
// day again, and its slots come again; the one that has just been ticked does not.
func TestClockIsSet(t *testing.T) {
	at(t, "10:00:00", func(b *bed) {
		b.set("trending", 30*time.Minute)
		b.Start()
		b.wants(30*time.Minute, "trending 10:30:00")
		b.setClock(3*time.Hour + 10*time.Minute) // 13:40
		b.wants(5*time.Second, "trending 13:30:00")
		b.wants(20*time.Minute, "trending 14:00:00")
		b.setClock(-30 * time.Second)
		b.wants(40 * time.Second)
		b.wants(30*time.Minute, "trending 14:30:00")
		b.setClock(-24 * time.Hour)
		b.wants(time.Hour, "trending 15:00:00", "trending 15:30:00")
	})
}

// What became due while the daemon was busy starting is not lost.
func TestDueBeforeStart(t *testing.T) {
	at(t, "10:50:00", func(b *bed) {
		b.set("trending", time.Hour)
		b.wants(15 * time.Minute)
		b.Start()
		b.wants(0, "trending 11:00:00")
	})
}

// However short the period, a timer never takes the slot after its own.
func TestEarlyIsShort(t *testing.T) {
	due := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		before time.Duration
		want   bool
	}{{0, true}, {200 * time.Millisecond, true}, {300 * time.Millisecond, false}, {time.Second, false}} {
		e := &entry{schedule: jobs.Every{Period: time.Second}, due: due, last: due.Add(-time.Second)}
		if slot, got := e.advance(due.Add(-row.before), true); got != row.want || got && !slot.Equal(due) {
			t.Errorf("a timer %v before its slot: got %v, %v, want %v", row.before, slot, got, row.want)
		}
		if slot, again := e.advance(due.Add(-row.before), true); again {
			t.Errorf("a timer %v before its slot brings %v again", row.before, slot)
		}
	}
}

// A tick that does not return keeps the beat away, which comes back with it. It holds up no other job, nor a reload.
// After Stop nothing comes.
func TestNoBeatWithoutTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var beats, ahead atomic.Int64
		stuck := make(chan struct{})
		s, err := newScheduler(func(string, time.Time) { <-stuck }, func() time.Time {
			return time.Now().Add(time.Duration(ahead.Load()))
		})
		must(t, err)
		must(t, s.Set("fetch", jobs.Every{Period: time.Hour}))
		s.Beat(time.Second, func() { beats.Add(1) })
		wants := func(after time.Duration, want int64) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := beats.Load(); got != want {
				t.Errorf("%d beats came, want %d", got, want)
			}
		}
		s.Start()
		wants(3500*time.Millisecond, 3)
		ahead.Store(int64(time.Hour)) // the next one to look at the slots is the beat
		wants(time.Second, 3)
		if !s.mu.TryLock() {
			close(stuck)
			t.Fatal("the lock is held")
		}
		s.mu.Unlock()
		wants(4*time.Second, 3)
		close(stuck)
		wants(0, 5) // one was due meanwhile
		wants(2*time.Second, 7)
		must(t, s.Stop())
		wants(3*time.Hour, 7)
	})
}

// The clock is set back by ten minutes: slots and beats come as before.
func TestAClockThatIsSetBack(t *testing.T) {
	for _, step := range []time.Duration{-10 * time.Minute, -time.Minute, 10 * time.Minute} {
		at(t, "10:00:00", func(b *bed) {
			b.set("fetch", 10*time.Second)
			var beats atomic.Int64
			b.Beat(time.Second, func() { beats.Add(1) })
			b.Start()
			for _, by := range []time.Duration{step, -step, 0} {
				time.Sleep(time.Minute)
				synctest.Wait()
				b.setClock(by)
			}
			if n := len(b.ticks); n < 17 || n > 19 {
				b.t.Errorf("the clock is set by %v: %d slots ran in three minutes, want 18", step, n)
			}
			if got := beats.Load(); got < 179 {
				b.t.Errorf("the clock is set by %v: %d beats came in three minutes, want 180", step, got)
			}
		})
	}
}

// must fails a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
