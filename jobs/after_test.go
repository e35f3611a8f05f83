package jobs

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"quotad/regions"
)

// A slot runs once the other job's latest slot at or before it, or something later, is done.
func TestFollowOn(t *testing.T) {
	at := func(clock string) time.Time {
		if clock == "" {
			return time.Time{}
		}
		day, err := time.Parse("15:04", clock)
		must(t, err)
		return day.AddDate(2026, 2, 0)
	}
	hourly, daily, quarter := every(t, time.Hour), shifted{every(t, 24*time.Hour), 3 * time.Hour}, every(t, 15*time.Minute)
	for _, row := range []struct {
		name            string
		own, other      Schedule
		slot, good, now string
		want            string
	}{
		{"the run of the same slot is done", hourly, hourly, "06:00", "06:00", "06:01", "runs"},
		{"it is not", hourly, hourly, "06:00", "05:00", "06:01", "waits"},
		{"none ever was", hourly, hourly, "06:00", "", "06:01", "waits"},
		{"nor then", hourly, hourly, "06:00", "05:00", "07:00", "over"},
		{"a run by hand is done", hourly, hourly, "06:00", "06:17", "06:18", "runs"},
		{"a rarer job was done today", hourly, daily, "06:00", "03:00", "06:00", "runs"},
		{"and not since its slot", hourly, daily, "06:00", "02:59", "06:00", "waits"},
		{"a more frequent job has done its latest slot", hourly, quarter, "06:10", "06:00", "06:10", "runs"},
		{"and not yet", hourly, quarter, "06:15", "06:00", "06:15", "waits"},
		{"a manual job was run since the slot before", hourly, Unscheduled{}, "06:00", "05:20", "06:00", "runs"},
		{"and not since", hourly, Unscheduled{}, "06:00", "04:59", "06:00", "waits"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := "waits"
			switch runs, over := followOn(row.own, row.other, at(row.slot), at(row.good), at(row.now)); {
			case runs:
				got = "runs"
			case over:
				got = "over"
			}
			if got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

// The bed's job trending runs after fetch: with it, after it failed and was run again by hand, and never. What was done
// before a restart is done after it; a slot that waited then is made up for.
func TestAfterAnotherJob(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		fetch, load := trending(t, 1), trending(t, 1)
		fetch.Name, fetch.Regions, load.After, load.CatchUp = "fetch", regions.Ring{"all"}, "fetch", true
		b := newBed(t, dir, load, fetch)
		var code atomic.Int64
		b.play = func(_ context.Context, p played) Exit {
			if p.region == "all" {
				time.Sleep(90*time.Second + time.Second/2)
				return Exit{Code: int(code.Load())}
			}
			return Exit{}
		}
		b.tick("fetch")
		if got := b.status(); got.Follows.Hour() != 11 || got.After != "fetch" {
			t.Errorf("the slot %v waits for %q, want that of 11", got.Follows, got.After)
		}
		time.Sleep(10 * time.Minute)
		b.wants(append([]string{"11:00:00 run running", "11:00:00 all running", "11:01:30 all ok", "11:01:30 run done"}, ran("11:01:31")...)...)

		code.Store(1)
		b.tick("fetch")
		b.wait(10 * time.Minute)
		code.Store(0)
		b.restart(load, fetch)
		run, err := b.Run("fetch", "root")
		must(t, err)
		if runs, err := b.Runs("", 1); err != nil || len(runs) != 1 || runs[0].ID != run.ID {
			t.Errorf("got %+v, %v, want the latest run of all jobs", runs, err)
		}
		b.wait(10 * time.Minute)
		b.wants(append([]string{"12:00:00 run running", "12:00:00 all running", "12:01:30 all failed", "12:01:30 run failed",
			"12:10:00 run running", "12:10:00 all running", "12:11:30 all ok", "12:11:30 run done"}, ran("12:11:31")...)...)

		b.tick() // fetch is not run at 13:00
		b.tick() // nor at 14:00
		time.Sleep(10*time.Minute + time.Second/2)
		b.wants("14:00:00 run skipped (after) ×1")
		must(t, b.Pause("trending", "root", "", 0))
		b.wait(time.Minute)
		b.wants("14:10:01 run skipped (paused) ×1")
		if got := b.status().Follows; !got.IsZero() {
			t.Errorf("the slot %v waits, want none", got)
		}
	})
}

// A slot that waits until the next one comes is told once, though that one runs first.
func TestASlotThatWaitsIsToldOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		fetch, load := trending(t, 1), trending(t, 1)
		fetch.Name, fetch.Schedule, load.After = "fetch", Unscheduled{}, "fetch"
		b := newBed(t, dir, load, fetch)
		time.Sleep(10*time.Minute + time.Second/2)
		b.Tick("trending", b.now().Truncate(time.Hour))
		b.wait(time.Hour - 900*time.Millisecond) // it has asked for the last time before the next slot
		_, err := b.Run("fetch", "root")
		must(t, err)
		b.wait(400 * time.Millisecond)
		b.forget()
		b.Tick("trending", b.now().Truncate(time.Hour))
		b.wait(time.Minute)
		b.wants(append([]string{"12:00:00 run skipped (after) ×1"}, ran("12:00:00")...)...)
	})
}

func TestCheckAfter(t *testing.T) {
	const circle = "no job of a circle would ever run: "
	rows := []struct{ name, after, host, want string }{
		{name: "fetch"},
		{name: "sort", after: "fetch"},
		{name: "typo", after: "fetsh", want: `job "fetsh" is not configured`},
		{name: "after a typo", after: "typo"},
		{name: "self", after: "self", want: circle + "self after self"},
		{name: "a", after: "b", want: circle + "a after b after c after a"},
		{name: "b", after: "c", want: circle + "b after c after a after b"},
		{name: "c", after: "a", want: circle + "c after a after b after c"},
		{name: "after a circle", after: "a"},
		{name: "away", after: "fetch", host: "collector-2", want: `job "fetch" runs on another host: write the same host in both`},
	}
	var all []*Job
	for _, row := range rows {
		all = append(all, &Job{Name: row.name, After: row.after, Host: row.host})
	}
	for i, row := range rows {
		got := ""
		if err := all[i].CheckAfter(all); err != nil {
			got = err.Error()
		}
		if got != row.want {
			t.Errorf("%s: got %q, want %q", row.name, got, row.want)
		}
	}
}
