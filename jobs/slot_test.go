package jobs

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestOverlapIsSkipped(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 1)
		b := newBed(t, dir, job)
		b.play = func(context.Context, played) Exit {
			time.Sleep(2*time.Hour + time.Minute)
			return Exit{}
		}
		b.run()
		b.run()
		b.run()
		b.wants("11:00:00 run running", "11:00:00 US running",
			"12:00:00 run skipped (overlap) ×1", "13:00:00 run skipped (overlap) ×2", "13:01:00 US ok", "13:01:00 run done")
		if got := b.status(); got.Last.State != RunDone || got.Skips.Ticks != 2 || got.Skips.LastSlot.Hour() != 13 {
			t.Errorf("got %+v and %+v", got.Last, got.Skips)
		}
	})
}

// A run that takes longer than the time between two slots overlaps again and again, until one is in time.
func TestOverlapsInARow(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trendingIn(t, 1))
		took := 90 * time.Minute
		b.play = func(context.Context, played) Exit { time.Sleep(took); return Exit{} }
		for _, want := range []int{0, 1, 1, 2, 2, 3} { // after each slot
			b.tick()
			if got := b.status().Overlaps; got != want {
				t.Errorf("%d overlaps, want %d", got, want)
			}
		}
		took = time.Minute
		b.run()
		if got := b.status().Overlaps; got != 0 {
			t.Errorf("%d overlaps after a run that was in time", got)
		}
	})
}

func TestSlotIsTickedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 1)
		job.CatchUp = true
		b := newBed(t, dir, job)
		slot := time.Now().UTC().Truncate(time.Hour)
		b.Tick("trending", slot)
		synctest.Wait()
		b.Tick("trending", slot)
		b.Tick("unknown", slot)
		synctest.Wait()
		b.wants("10:50:00 run running", "10:50:00 US running", "10:50:00 US ok", "10:50:00 run done")
	})
}

// A suspended machine ticks late: one run, and what was missed has a name.
func TestMissedWhileAsleep(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 1)
		b := newBed(t, dir, job)
		b.run()
		b.forget()
		time.Sleep(4 * time.Hour)
		b.run()
		b.wants("16:00:00 run skipped (missed)", "16:00:00 run running", "16:00:00 US running", "16:00:00 US ok", "16:00:00 run done")
		if runs, err := b.states["trending"].files.latest(10); err != nil || len(runs) != 3 {
			t.Errorf("the log has %d runs, %v, want two and what was missed", len(runs), err)
		}
	})
}

// A slot that is ticked late was missed: it runs once, unless the job skips what it missed.
func TestASlotThatIsTickedLate(t *testing.T) {
	for name, catchUp := range map[string]bool{"once": true, "skip": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				job := trendingIn(t, 1)
				job.CatchUp = catchUp
				b := newBed(t, dir, job)
				time.Sleep(11*time.Minute + 7*time.Second)
				b.Tick("trending", time.Now().Truncate(time.Hour).UTC())
				synctest.Wait()
				if catchUp {
					b.wants("11:01:07 run running", "11:01:07 US running", "11:01:07 US ok", "11:01:07 run done")
				} else {
					b.wants("11:01:07 run skipped (missed)")
				}
			})
		})
	}
}

func TestPause(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 1)
		b := newBed(t, dir, job)
		must(t, b.Pause("trending", "root", "the key is being changed", 2*time.Hour))
		if got := b.status().Next; got.Hour() != 13 {
			t.Errorf("the next run comes at %v, want it after the pause", got)
		}
		b.run()
		b.stop()
		b = newBed(t, dir, job) // a restart does not end it
		b.run()
		b.wants("12:00:00 run skipped (paused) ×2")
		if got := b.status().Pause; got != nil {
			t.Errorf("got %+v, want it over", got)
		}
		b.run() // it is over by itself
		b.wants("13:00:00 run running", "13:00:00 US running", "13:00:00 US ok", "13:00:00 run done")
		must(t, b.Pause("trending", "root", "", 0))
		if got := b.status(); got.Pause == nil || !got.Pause.Until.IsZero() || got.Pause.Since.IsZero() || !got.Next.IsZero() {
			t.Errorf("got %+v and a run at %v, want a pause without an end", got.Pause, got.Next)
		}
		if err := b.Resume("trending"); err != nil || b.status().Pause != nil {
			t.Errorf("got %v, want it resumed", err)
		}
	})
}

// A slot at the end of a pause is run, and foretold.
func TestAPauseEndsAtASlot(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trendingIn(t, 1))
		must(t, b.Pause("trending", "root", "", time.Hour+10*time.Minute))
		if got := b.status().Next; got.Hour() != 12 {
			t.Errorf("the next run comes at %v, want it at the end of the pause", got)
		}
		b.run()
		b.run()
		b.wants("11:00:00 run skipped (paused) ×1", "12:00:00 run running", "12:00:00 US running", "12:00:00 US ok", "12:00:00 run done")
	})
}

// The tick of a slot is on disk with its first pass: a restart does not run it
// a second time.
func TestRestartWithinASlot(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.CatchUp = true
		b := newBed(t, dir, job)
		b.tick()
		time.Sleep(time.Minute)
		b.stop()
		next := newBed(t, dir, job)
		next.Start(t.Context())
		synctest.Wait()
		next.wants()
		next.tick()
		if got := next.status().Last.Ring[0]; got != "GB" {
			t.Errorf("the next run begins at %s, want GB", got)
		}
	})
}

func TestCatchUp(t *testing.T) {
	for _, test := range []struct {
		name    string
		catchUp bool
		start   bool // RunAtStart
		want    []string
	}{
		{"one run for all that was missed", true, false,
			[]string{"16:30:00 run skipped (missed)", "16:30:00 run running", "16:30:00 US running", "16:30:00 US ok", "16:30:00 run done"}},
		{"one run, though the job would also run at the start", true, true,
			[]string{"16:30:00 run skipped (missed)", "16:30:00 run running", "16:30:00 US running", "16:30:00 US ok", "16:30:00 run done"}},
		{"not made up for", false, false,
			[]string{"16:30:00 run skipped (missed)"}},
		{"not made up for, but the job runs at the start", false, true,
			[]string{"16:30:00 run skipped (missed)", "16:30:00 run running", "16:30:00 US running", "16:30:00 US ok", "16:30:00 run done"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				job := trendingIn(t, 1)
				job.CatchUp, job.RunAtStart = test.catchUp, test.start
				b := newBed(t, dir, job)
				b.run()
				b.stop()
				time.Sleep(4*time.Hour + 30*time.Minute + time.Second)
				b = newBed(t, dir, job)
				b.Start(t.Context())
				synctest.Wait()
				b.wants(test.want...)
			})
		})
	}
}

// The latest slot is made up for until it is a day old.
func TestCatchUpOfAnOldSlot(t *testing.T) {
	for name, row := range map[string]struct {
		late time.Duration
		want []string
	}{
		"a day":      {24 * time.Hour, []string{"00:00:00 run running", "00:00:00 US running", "00:00:00 US ok", "00:00:00 run done"}},
		"and longer": {24*time.Hour + time.Second, []string{"00:00:01 run skipped (missed)"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				job := trendingIn(t, 1)
				job.CatchUp, job.Schedule = true, every(t, 7*24*time.Hour)
				newBed(t, dir, job).stop()
				time.Sleep(time.Until(job.Schedule.Next(time.Now())) + row.late)
				b := newBed(t, dir, job)
				b.Start(t.Context())
				synctest.Wait()
				b.wants(row.want...)
			})
		})
	}
}

// A job that is new, or has a new schedule, has not missed anything.
func TestNothingMissedByANewSchedule(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 1)
		job.CatchUp = true
		b := newBed(t, dir, job)
		b.Start(t.Context())
		b.run()
		b.stop()
		time.Sleep(24 * time.Hour)
		job.Schedule = every(t, time.Minute)
		b = newBed(t, dir, job)
		b.Start(t.Context())
		synctest.Wait()
		b.wants()
	})
}

func TestRunAtStart(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 2)
		job.RunAtStart = true
		b := newBed(t, dir, job)
		b.play = func(_ context.Context, p played) Exit {
			if !slices.Contains(p.Env, "QUOTAD_SCHEDULED_AT=2000-01-01T10:50:00Z") {
				t.Errorf("got %q, want the slot", p.Env)
			}
			return Exit{}
		}
		b.Start(t.Context())
		time.Sleep(9 * time.Minute)
		// Even: over the ten minutes that are left until the next slot.
		b.wants("10:50:00 run running", "10:50:00 US running", "10:50:00 US ok", "10:55:00 GB running", "10:55:00 GB ok", "10:55:00 run done")
		if got := b.status().Last.Trigger; got != AtStart {
			t.Errorf("got %q, want %q", got, AtStart)
		}
		b.stop()
		b = newBed(t, dir, job) // started again: the latest slot has had its run
		b.Start(t.Context())
		synctest.Wait()
		b.wants()
		b.run()
		b.wants("11:00:00 run running", "11:00:00 US running", "11:00:00 US ok", "11:30:00 GB running", "11:30:00 GB ok", "11:30:00 run done")
		b.stop()
		b = newBed(t, dir, job)
		b.Start(t.Context())
		synctest.Wait()
		b.wants()
	})
}

// The run at the start finishes one that ended with its daemon, in the time of the same slot.
func TestARunAtTheStartFinishes(t *testing.T) {
	for name, killed := range map[string]bool{"killed": true, "stopped": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				job := trendingIn(t, 2)
				job.RunAtStart, job.Stagger = true, 2*time.Minute
				b := newBed(t, dir, job)
				b.tick()
				time.Sleep(time.Minute)
				b.wants("11:00:00 run running", "11:00:00 US running", "11:00:00 US ok")
				var next *bed
				if killed {
					next = b.killed(job)
				} else {
					b.stop()
					next = newBed(t, dir, job)
				}
				next.Start(t.Context())
				synctest.Wait()
				if last := next.status().Last; last.Trigger != AtStart || last.State != RunRunning || last.Ring[0] != "GB" {
					t.Errorf("got %+v, want a run that begins at GB", last)
				}
			})
		})
	}
}

// Nobody was there for the first slot of a schedule that is new: it is known all the
// same, whether the job is new or was only given another schedule.
func TestTheFirstSlotWasMissed(t *testing.T) {
	for _, test := range []struct {
		name    string
		catchUp bool
		reload  bool // the schedule is a reload's
		want    []string
	}{
		{"made up for", true, false, []string{"11:00:03 run running", "11:00:03 US running", "11:00:03 US ok", "11:00:03 run done"}},
		{"not made up for", false, false, []string{"11:00:03 run skipped (missed)"}},
		{"reloaded and made up for", true, true, []string{"11:00:03 run running", "11:00:03 US running", "11:00:03 US ok", "11:00:03 run done"}},
		{"reloaded and not made up for", false, true, []string{"11:00:03 run skipped (missed)"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				first, job := trending(t), trending(t)
				job.Regions, job.CatchUp = eight()[:1], test.catchUp
				if first.Schedule = job.Schedule; test.reload {
					first.Schedule = every(t, 24*time.Hour)
				}
				b := newBed(t, dir, first)
				b.Start(t.Context())
				if test.reload {
					b.setJobs(job)
				}
				time.Sleep(9*time.Minute + 58*time.Second)
				b.stop()
				time.Sleep(5 * time.Second)
				b = newBed(t, dir, job)
				b.Start(t.Context())
				synctest.Wait()
				b.wants(test.want...)
			})
		})
	}
}
