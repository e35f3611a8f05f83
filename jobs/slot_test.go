package jobs

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"quotad/regions"
)

func takes(d time.Duration) func(context.Context, *bed, played) Exit {
	return func(context.Context, *bed, played) Exit { time.Sleep(d); return Exit{} }
}

// Each slot becomes a run once, or is skipped for a reason that is named.
func TestSlots(t *testing.T) {
	missed := []string{"16:30:00 run skipped (missed)"}
	away := func(b *bed, job *Job) { // from noon to half past four
		b.run()
		b.stop()
		b.forget()
		time.Sleep(4*time.Hour + 30*time.Minute + time.Second)
		b.open(job)
		b.start()
	}
	week := func(late time.Duration) func(b *bed, job *Job) {
		return func(b *bed, job *Job) {
			b.stop()
			time.Sleep(time.Until(job.Schedule.Next(time.Now())) + late)
			b.open(job)
			b.start()
		}
	}
	tickedLate := func(b *bed, _ *Job) {
		time.Sleep(11*time.Minute + 7*time.Second)
		b.Tick("trending", time.Now().Truncate(time.Hour).UTC())
		synctest.Wait()
	}
	firstMissed := func(b *bed, job *Job) { // its schedule is a reload's
		daily := *job
		daily.Schedule = every(b.t, 24*time.Hour)
		b.restart(&daily)
		must(b.t, b.SetJobs([]*Job{job}))
		time.Sleep(9*time.Minute + 58*time.Second)
		b.stop()
		time.Sleep(5 * time.Second)
		b.open(job)
		b.start()
	}
	catchUp, atStart := func(j *Job) { j.CatchUp = true }, func(j *Job) { j.RunAtStart = true }
	atStartApart := func(j *Job) { j.RunAtStart, j.Stagger = true, 2*time.Minute }
	finishes := []string{"11:01:00 run running", "11:01:00 GB running", "11:01:00 GB ok"}
	weekly := func(j *Job) { j.CatchUp, j.Schedule = true, every(t, 7*24*time.Hour) }
	play(t, []history{
		{name: "a run is under way", play: takes(2*time.Hour + time.Minute),
			live: func(b *bed, _ *Job) { b.run(); b.run(); b.run() },
			want: []string{"11:00:00 run running", "11:00:00 US running",
				"12:00:00 run skipped (overlap) ×1", "13:00:00 run skipped (overlap) ×2", "13:01:00 US ok", "13:01:00 run done"}},
		{name: "it is ticked twice", live: func(b *bed, _ *Job) {
			b.tick()
			b.Tick("trending", time.Now().UTC())
			b.Tick("unknown", time.Now().UTC())
			synctest.Wait()
		}, want: ran("11:00:00")},
		{name: "others were missed while the machine slept", live: func(b *bed, _ *Job) {
			b.run()
			b.forget()
			time.Sleep(4 * time.Hour)
			b.run()
		}, want: append([]string{"16:00:00 run skipped (missed)"}, ran("16:00:00")...)},
		{name: "it is ticked late", job: catchUp, live: tickedLate, want: ran("11:01:07")},
		{name: "it is ticked late, and is spread over what is left", regions: 2, job: catchUp, live: func(b *bed, _ *Job) {
			tickedLate(b, nil)
			b.wait(30 * time.Minute)
		}, want: []string{"11:01:07 run running", "11:01:07 US running", "11:01:07 US ok", "11:30:33 GB running", "11:30:33 GB ok", "11:30:33 run done"}},
		{name: "it is ticked after the next one", job: catchUp, live: func(b *bed, _ *Job) {
			time.Sleep(time.Hour + 15*time.Minute)
			b.Tick("trending", time.Now().Truncate(time.Hour).Add(-time.Hour).UTC())
			synctest.Wait()
		}, want: []string{"12:05:00 run skipped (missed)"}},
		{name: "a run by hand does not take it", live: func(b *bed, _ *Job) {
			time.Sleep(10 * time.Minute)
			b.begun()
			b.Tick("trending", time.Now().UTC())
			synctest.Wait()
		}, want: append(ran("11:00:00"), ran("11:00:00")...)},
		{name: "what was skipped is ticked again", live: func(b *bed, _ *Job) {
			must(b.t, b.Pause("trending", "root", "", 0))
			b.run()
			b.tick()
			must(b.t, b.Resume("trending"))
			b.Tick("trending", time.Now().UTC())
			synctest.Wait()
		}, want: []string{"11:00:00 run skipped (paused) ×1", "12:00:00 run skipped (paused) ×2"}},
		{name: "it is ticked late, and the job skips what it missed", live: tickedLate, want: []string{"11:01:07 run skipped (missed)"}},
		{name: "a pause ends at it", live: func(b *bed, _ *Job) {
			must(b.t, b.Pause("trending", "root", "", time.Hour+10*time.Minute))
			if got := b.status().Next; got.Hour() != 12 {
				b.t.Errorf("the next run comes at %v, want it at the end of the pause", got)
			}
			b.run()
			b.run()
		}, want: append([]string{"11:00:00 run skipped (paused) ×1"}, ran("12:00:00")...)},
		{name: "a pause outlasts a restart, and its slots share a record", live: func(b *bed, job *Job) {
			must(b.t, b.Pause("trending", "root", "the key is being changed", 2*time.Hour))
			b.run()
			b.restart(job)
			b.run()
			if runs, err := b.Runs("trending", 10); err != nil || len(runs) != 1 || runs[0].Ticks != 2 {
				b.t.Errorf("got %+v, %v, want one record of two slots", runs, err)
			}
			b.run()
			if got := b.status().Skips; got != nil {
				b.t.Errorf("got %+v, want none since the last run began", got)
			}
			must(b.t, b.Pause("trending", "root", "", 0))
			if got := b.status(); got.Pause == nil || !got.Pause.Until.IsZero() || got.Pause.Since.IsZero() || !got.Next.IsZero() {
				b.t.Errorf("got %+v and a run at %v, want a pause without an end", got.Pause, got.Next)
			}
		}, want: append([]string{"11:00:00 run skipped (paused) ×1", "12:00:00 run skipped (paused) ×2"}, ran("13:00:00")...)},
		{name: "missed, and made up for by one run", job: catchUp, live: away, want: append(missed, ran("16:30:00")...)},
		{name: "missed", live: away, want: missed},
		{name: "missed, and the job is paused", live: func(b *bed, job *Job) {
			must(b.t, b.Pause("trending", "root", "", 0))
			away(b, job)
		}, want: missed},
		{name: "missed, and another host may have run it", live: func(b *bed, job *Job) {
			b.hosts = func() ([]Daemon, time.Duration, bool) { return nil, 0, true }
			away(b, job)
		}},
		{name: "missed, and the job runs at the start", job: atStart, live: away, want: append(missed, ran("16:30:00")...)},
		{name: "a run at the start takes the latest one, and is spread over what is left", regions: 2, job: atStart,
			play: func(_ context.Context, b *bed, p played) Exit {
				if !slices.Contains(p.Env, "QUOTAD_SCHEDULED_AT=2000-01-01T10:50:00Z") {
					b.t.Errorf("got %q, want the slot", p.Env)
				}
				return Exit{}
			}, live: func(b *bed, job *Job) {
				b.start()
				b.wait(9 * time.Minute)
				b.restart(job)
			}, want: []string{"10:50:00 run running", "10:50:00 US running", "10:50:00 US ok", "10:55:00 GB running", "10:55:00 GB ok", "10:55:00 run done"}},
		{name: "a run at the start finishes one that was stopped", regions: 2, job: atStartApart, live: func(b *bed, job *Job) {
			b.tick()
			b.wait(time.Minute)
			b.stop()
			b.forget()
			b.open(job)
			b.start()
		}, want: finishes},
		{name: "a run at the start finishes one that was killed", regions: 2, job: atStartApart, live: func(b *bed, job *Job) {
			b.tick()
			b.wait(time.Minute)
			b.forget()
			b.kill(job)
			b.start()
		}, want: append([]string{"11:01:00 run interrupted (died)"}, finishes...)},
		{name: "a run at the start leaves one that was stopped by a person", regions: 2, job: atStartApart, live: func(b *bed, job *Job) {
			b.tick()
			must(b.t, b.StopRun(b.status().Last.ID))
			b.wait(time.Minute)
			b.forget()
			b.restart(job)
		}},
		{name: "a day old", job: weekly, live: week(24 * time.Hour), want: ran("00:00:00")},
		{name: "older", job: weekly, live: week(24*time.Hour + time.Second), want: []string{"00:00:01 run skipped (missed)"}},
		{name: "the first of a new schedule, missed and made up for", job: catchUp, live: firstMissed, want: ran("11:00:03")},
		{name: "the first of a new schedule, missed", live: firstMissed, want: []string{"11:00:03 run skipped (missed)"}},
		{name: "a new schedule has missed nothing", job: catchUp, live: func(b *bed, job *Job) {
			b.run()
			b.forget()
			b.stop()
			time.Sleep(24 * time.Hour)
			job.Schedule = every(b.t, time.Minute)
			b.open(job)
			b.start()
		}},
		{name: "a job that is put back has missed nothing", live: func(b *bed, job *Job) {
			must(b.t, b.SetJobs(nil))
			time.Sleep(5 * time.Hour)
			must(b.t, b.SetJobs([]*Job{job}))
			b.restart()
			time.Sleep(5 * time.Hour)
			b.restart(job)
		}},
		{name: "a restart within it does not run it again", regions: 2, job: catchUp, live: func(b *bed, job *Job) {
			b.tick()
			time.Sleep(time.Minute)
			b.restart(job)
			b.forget()
			b.tick()
		}, want: []string{"12:00:00 run running", "12:00:00 GB running", "12:00:00 GB ok"}},
	})
}

// A run that takes longer than the time between two slots overlaps again and again, until one is in time.
func TestOverlapsInARow(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t, 1))
		took := 90 * time.Minute
		b.play = func(context.Context, played) Exit { time.Sleep(took); return Exit{} }
		for _, want := range []int{0, 1, 1, 2, 2, 3} { // after each slot
			b.tick()
			if got := b.status().Overlaps; got != want {
				t.Errorf("%d overlaps, want %d", got, want)
			}
		}
		took = time.Minute
		b.wait(31 * time.Minute)
		b.begun()
		b.wait(2 * time.Minute)
		if got := b.status().Overlaps; got != 3 {
			t.Errorf("%d overlaps after a run by hand, want 3 still", got)
		}
		b.run()
		if got := b.status().Overlaps; got != 0 {
			t.Errorf("%d overlaps after a run that was in time", got)
		}
	})
}

func TestManualRun(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t, 8))
		b.cursorAt("DE")
		must(t, b.Pause("trending", "root", "", 0))
		run := b.begun("CA", "US")
		// In the order asked for, at once, without taking anybody's turn, and though the job is paused.
		b.wants("10:50:00 run running", "10:50:00 CA running", "10:50:00 CA ok", "10:50:00 US running", "10:50:00 US ok", "10:50:00 run done")
		b.wantCursor("DE")
		if err := b.StopRun(run.ID); !errors.Is(err, ErrUnknown) {
			t.Errorf("got %v, want that it is over", err)
		}
		if got := b.status().Last; got.ID != run.ID || got.By != "root" || got.Trigger != Manual {
			t.Errorf("got %+v, want the run that was asked for", got)
		}
		must(t, b.Resume("trending"))
		b.tick()
		b.forget()
		for _, row := range []struct {
			job     string
			regions []regions.Region
			want    error
		}{
			{"channels", nil, ErrUnknown}, {"trending", []regions.Region{"US", "XX"}, ErrUnknown},
			{"trending", []regions.Region{"US", "US"}, ErrInvalid}, {"trending", nil, ErrUnderWay},
		} {
			if _, err := b.Run(row.job, "root", row.regions...); !errors.Is(err, row.want) {
				t.Errorf("%s %v: got %v, want %v", row.job, row.regions, err, row.want)
			}
		}
		b.wants()
	})
}
