package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"sync"
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

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{t: t}
	s, err := newScheduler(b.tick, b.now)
	must(t, err)
	b.Scheduler = s
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return b
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

func (b *bed) setCron(job, line string) {
	b.t.Helper()
	schedule, err := ParseCron(line, time.UTC)
	must(b.t, errors.Join(err, b.Set(job, schedule)))
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

// at runs a test from a time of day on.
func at(t *testing.T, clock string, test func(t *testing.T)) {
	t.Helper()
	day, err := time.Parse(time.TimeOnly, clock)
	must(t, err)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(day.Sub(day.Truncate(24 * time.Hour)))
		test(t)
	})
}

func TestTicksAreAlignedToTheEpoch(t *testing.T) {
	at(t, "10:17:00", func(t *testing.T) {
		b := newBed(t)
		b.set("trending", 30*time.Minute)
		b.setCron("channels", "5 * * * *")
		b.Start()
		b.wants(13*time.Minute - 1)
		b.wants(1, "trending 10:30:00")
		b.wants(time.Hour, "trending 11:00:00", "channels 11:05:00", "trending 11:30:00")
	})
}

func TestEverySecond(t *testing.T) {
	at(t, "10:00:58", func(t *testing.T) {
		b := newBed(t)
		b.set("trending", time.Second)
		b.Start()
		b.wants(4*time.Second, "trending 10:00:59", "trending 10:01:00", "trending 10:01:01", "trending 10:01:02")
	})
}

// Over days no slot is left out and none comes twice, whatever else is looked at.
func TestEachSlotComesOnce(t *testing.T) {
	at(t, "00:00:00", func(t *testing.T) {
		b := newBed(t)
		b.set("trending", 7*time.Minute)
		b.Start()
		time.Sleep(3 * 24 * time.Hour)
		synctest.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		if want := 3 * 24 * 60 / 7; len(b.ticks) < want || len(b.ticks) > want+1 {
			t.Errorf("got %d ticks, want %d", len(b.ticks), want)
		}
		for i := range b.ticks[1:] {
			if b.ticks[i] == b.ticks[i+1] {
				t.Errorf("%s came twice", b.ticks[i])
			}
		}
	})
}

func TestChangedWhileTicking(t *testing.T) {
	at(t, "10:00:00", func(t *testing.T) {
		b := newBed(t)
		b.Start()
		b.set("trending", time.Hour)
		b.wants(time.Hour, "trending 11:00:00")
		b.set("trending", 20*time.Minute)
		b.setCron("channels", "25,55 * * * *")
		b.wants(25*time.Minute, "trending 11:20:00", "channels 11:25:00")
		b.set("trending", time.Hour) // and its slot of 11:40 comes no more
		b.wants(30*time.Minute, "channels 11:55:00")
		b.wants(5*time.Minute, "trending 12:00:00")
		if err := b.Remove("trending"); err != nil {
			t.Error(err)
		}
		if err := b.Remove("trending"); err != nil {
			t.Errorf("removed twice: %v", err)
		}
		b.wants(time.Hour, "channels 12:25:00", "channels 12:55:00")
	})
}

func TestUnscheduledWhileTicking(t *testing.T) {
	at(t, "10:00:00", func(t *testing.T) {
		b := newBed(t)
		b.Start()
		b.set("trending", time.Hour)
		b.wants(time.Hour, "trending 11:00:00")
		must(t, b.Set("trending", jobs.Unscheduled{}))
		b.wants(2 * time.Hour)
	})
}

func TestScheduleThatNeverComes(t *testing.T) {
	at(t, "10:00:00", func(t *testing.T) {
		b := newBed(t)
		b.set("trending", time.Hour)
		if err := b.Set("trending", jobs.Every{}); err == nil {
			t.Error("it was accepted")
		}
		b.Start()
		b.wants(time.Hour, "trending 11:00:00") // what was refused has changed nothing
	})
}

// The slots that came while the daemon was not awake are not run one after the
// other: only the latest of them ticks.
func TestClockSetForward(t *testing.T) {
	at(t, "10:00:00", func(t *testing.T) {
		b := newBed(t)
		b.set("trending", 30*time.Minute)
		b.Start()
		b.wants(30*time.Minute, "trending 10:30:00")
		b.setClock(3*time.Hour + 10*time.Minute) // 13:40
		b.wants(5*time.Second, "trending 13:30:00")
		b.wants(20*time.Minute, "trending 14:00:00")
	})
}

// A clock that was set back shows a time of day again, and its slots come again;
// the one that has just been ticked does not.
func TestClockSetBack(t *testing.T) {
	at(t, "10:00:00", func(t *testing.T) {
		b := newBed(t)
		b.set("trending", 30*time.Minute)
		b.Start()
		b.wants(30*time.Minute, "trending 10:30:00")
		b.setClock(-time.Second)
		b.wants(2 * time.Second)
		b.wants(30*time.Minute, "trending 11:00:00")
		b.setClock(-24 * time.Hour)
		b.wants(time.Hour, "trending 11:30:00", "trending 12:00:00")
	})
}

// While the clock is being slowed down, timers come a little early.
func TestTimersThatComeEarly(t *testing.T) {
	at(t, "10:00:00", func(t *testing.T) {
		b := newBed(t)
		b.set("trending", 30*time.Minute)
		b.Start()
		b.setClock(-900 * time.Millisecond)
		b.wants(30*time.Minute, "trending 10:30:00")
		b.wants(30*time.Minute, "trending 11:00:00")
		b.setClock(-10 * time.Second) // too early to be that slot: the heartbeat finds it
		b.wants(30 * time.Minute)
		b.wants(15*time.Second, "trending 11:30:00")
	})
}

// A tick that takes long holds up no other job, nor a reload: it is called without the lock.
func TestNoTickUnderTheLock(t *testing.T) {
	at(t, "10:00:00", func(t *testing.T) {
		var s *Scheduler
		ticks := 0
		s, err := newScheduler(func(string, time.Time) {
			ticks++
			if !s.mu.TryLock() {
				t.Error("the lock is held")
				return
			}
			s.mu.Unlock()
		}, time.Now)
		must(t, err)
		must(t, s.Set("trending", jobs.Every{Period: time.Hour}))
		time.Sleep(time.Hour)
		s.check()
		if ticks != 1 {
			t.Errorf("it ticked %d times, want once", ticks)
		}
		must(t, s.Stop())
	})
}

// What became due while the daemon was busy starting is not lost.
func TestDueBeforeStart(t *testing.T) {
	at(t, "10:50:00", func(t *testing.T) {
		b := newBed(t)
		b.set("trending", time.Hour)
		b.wants(15 * time.Minute)
		b.Start()
		b.wants(0, "trending 11:00:00")
		b.wants(time.Hour, "trending 12:00:00")
	})
}

// However short the period, a timer never takes the slot after its own.
func TestEarlyIsShort(t *testing.T) {
	due := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		before time.Duration
		want   bool
	}{{0, true}, {200 * time.Millisecond, true}, {300 * time.Millisecond, false}, {time.Second, false}} {
		e := &entry{schedule: jobs.Every{Period: time.Second}, due: due, last: due.Add(-time.Second)}
		if slot, got := e.advance(due.Add(-test.before), true); got != test.want || got && !slot.Equal(due) {
			t.Errorf("a timer %v before its slot: got %v, %v, want %v", test.before, slot, got, test.want)
		}
	}
}

func TestStopBeforeStart(t *testing.T) {
	at(t, "10:00:00", func(t *testing.T) {
		b := newBed(t) // its cleanup stops it
		b.set("trending", time.Hour)
		b.wants(2 * time.Hour)
	})
}

func TestNothingTicksAfterStop(t *testing.T) {
	at(t, "10:00:00", func(t *testing.T) {
		s, err := New(func(string, time.Time) { t.Error("it ticked") })
		must(t, err)
		must(t, s.Set("trending", jobs.Every{Period: time.Hour}))
		s.Start()
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
	})
}

// must fails a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
