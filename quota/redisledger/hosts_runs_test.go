package redisledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"quotad/jobs"
)

// Three hosts tick; each slot is run by one of them, and the next one goes on
// where it ended.
func TestHostsShareSlots(t *testing.T) {
	withSimulatedHosts(t, func(c *simulatedHosts) {
		hosts := []*host{c.start("a"), c.start("b"), c.start("c")}
		c.until("11:55:00")
		c.wants("11:00:00 run running", "11:00:00 US ok", "11:10:00 GB ok", "11:20:00 DE ok", "11:30:00 FR ok", "11:30:00 run done")
		for _, h := range hosts {
			s := h.status()
			if s.Last == nil || s.Last.State != jobs.RunDone || len(s.Last.Passes) != 4 || s.Last.Host == "" {
				t.Errorf("host %s shows %+v", h.name, s.Last)
			}
		}
		time.Sleep(11 * time.Hour)
		served := 0
		for _, h := range hosts {
			served += len(h.served())
			if runs, err := h.Runs("trending", 100); err != nil || len(runs) != 12 {
				t.Errorf("host %s shows %d runs, %v: %q", h.name, len(runs), err, c.log)
			}
			h.stop()
		}
		if served != 12*4 {
			t.Errorf("%d passes in twelve hours, want %d", served, 12*4)
		}
	})
}

// A host dies in the middle of a run: the slot is over, the next one begins at the
// region it was at, on time but for the moments that it takes to be sure.
func TestAHostDies(t *testing.T) {
	withSimulatedHosts(t, func(c *simulatedHosts) {
		c.play = func(ctx context.Context, h *host, region string) jobs.Exit {
			if region == "DE" && time.Now().UTC().Hour() == 11 {
				<-ctx.Done()
				return jobs.Exit{Cause: context.Cause(ctx)}
			}
			return jobs.Exit{}
		}
		a := c.start("a")
		c.until("10:55:00")
		c.until("11:20:30")
		c.wants("11:00:00 run running", "11:00:00 US ok", "11:10:00 GB ok")
		a.kill()
		b := c.start("b")
		if last := b.status().Last; last.State != jobs.RunRunning {
			t.Errorf("got %+v before anybody can know", last)
		}
		c.until("11:40:00")
		s := b.status()
		if s.Last.State != jobs.RunInterrupted || s.Last.Reason != jobs.Died || s.Last.Passes[2].Outcome != jobs.Interrupted || s.Cursor != "DE" {
			t.Errorf("got the cursor at %s after %+v, want it where the host died", s.Cursor, s.Last)
		}
		c.until("12:59:00")
		c.wants("12:00:00 run running", "12:00:00 DE ok", "12:10:00 FR ok", "12:20:00 US ok", "12:30:00 GB ok", "12:30:00 run done")
		// It comes back, and has nothing to say about what went on without it.
		a = c.start("a")
		c.wants("12:59:00 DE interrupted", "12:59:00 run interrupted (died)")
		if s := a.status(); s.Last.State != jobs.RunDone || s.Cursor != "DE" {
			t.Errorf("got the cursor at %s after %+v", s.Cursor, s.Last)
		}
		runs, err := a.Runs("trending", 10)
		if err != nil || len(runs) != 2 || runs[0].State != jobs.RunDone || runs[1].State != jobs.RunInterrupted {
			t.Errorf("got %+v, %v, want both runs, once each", runs, err)
		}
		a.stop()
		b.stop()
	})
}

// It dies right before a slot: whoever claims that one waits until nobody can hold
// the job any more.
func TestAHostDiesBeforeASlot(t *testing.T) {
	withSimulatedHosts(t, func(c *simulatedHosts) {
		c.play = func(ctx context.Context, h *host, region string) jobs.Exit {
			if h.name == "a" && region == "FR" {
				<-ctx.Done()
				return jobs.Exit{Cause: context.Cause(ctx)}
			}
			return jobs.Exit{}
		}
		a := c.start("a")
		c.until("11:59:58")
		b := c.start("b")
		a.kill()
		c.wants("11:00:00 run running", "11:00:00 US ok", "11:10:00 GB ok", "11:20:00 DE ok")
		c.until("12:00:30")
		list := b.status()
		if list.Last.State != jobs.RunRunning || list.Last.Host != "b" || list.Last.Ring[0] != "FR" {
			t.Errorf("got %+v, want the slot run, from FR on", list.Last)
		}
		if late := list.Last.StartedAt.Sub(list.Last.Slot); late <= 0 || late > 12*time.Second {
			t.Errorf("begun %v late", late)
		}
		b.stop()
	})
}

// It dies while it is about to begin the run of a slot, after each thing in turn that it
// asks of Redis: another host runs the slot as soon as the lock may have ended, or knows
// that the run has begun and died.
func TestAHostDiesOverASlot(t *testing.T) {
	for calls := 1; calls <= 4; calls++ {
		t.Run(strconv.Itoa(calls), func(t *testing.T) {
			withSimulatedHosts(t, func(c *simulatedHosts) {
				a, b := c.start("a"), c.start("b")
				if err := b.ticks.Stop(); err != nil {
					t.Error(err)
				}
				c.until("10:59:59")
				a.dieAfter(calls)
				c.until("11:00:00") // it has done all that it will
				b.Tick("trending", time.Now().UTC())
				time.Sleep(12 * time.Second)
				_, _ = b.Runs("trending", 10) // asks whether the host is there
				time.Sleep(8 * time.Second)
				runs, err := b.Runs("trending", 10)
				var is []string
				for _, run := range runs {
					is = append(is, fmt.Sprintf("%s %s %s", run.Host, run.State, run.Reason))
				}
				if begun, died := []string{"b running "}, []string{"a interrupted died"}; err != nil || !slices.Equal(is, begun) && !slices.Equal(is, died) {
					t.Errorf("got the runs %q, %v, want %q or %q", is, err, begun, died)
				}
				a.stop()
				b.stop()
			})
		})
	}
}

// A host was cut off in the middle of a run, and is back while a pass of that run goes on:
// it leaves the next slot to a host that can run it.
func TestAHostComesBackBusy(t *testing.T) {
	withSimulatedHosts(t, func(c *simulatedHosts) {
		c.play = func(_ context.Context, h *host, region string) jobs.Exit {
			if h.name == "a" && region == "US" {
				time.Sleep(150 * time.Minute)
			}
			return jobs.Exit{}
		}
		a := c.start("a")
		c.until("11:30:00")
		c.wants("11:00:00 run running")
		a.setDead(true)
		b := c.start("b")
		c.until("12:40:00")
		c.wants("12:00:00 run running", "12:00:00 US ok", "12:10:00 GB ok", "12:20:00 DE ok", "12:30:00 FR ok", "12:30:00 run done")
		a.setDead(false)
		if err := b.ticks.Stop(); err != nil {
			t.Error(err)
		}
		c.until("13:00:00") // it has done all that it will at that instant
		b.Tick("trending", time.Now().UTC())
		c.until("13:29:00")
		c.wants("13:00:00 run running", "13:00:00 US ok", "13:10:00 GB ok", "13:20:00 DE ok")
		a.stop()
		b.kill()
	})
}

// It stops in order right in a run: the others need not wait.
func TestAHostStops(t *testing.T) {
	withSimulatedHosts(t, func(c *simulatedHosts) {
		a := c.start("a")
		c.until("11:05:00")
		a.stop()
		b := c.start("b")
		if s := b.status(); s.Last.State != jobs.RunInterrupted || s.Last.Reason != jobs.Shutdown || s.Cursor != "GB" {
			t.Errorf("got the cursor at %s after %+v", s.Cursor, s.Last)
		}
		if _, err := b.Run("trending", "root", nil); err != nil {
			t.Error(err)
		}
		c.wants("11:00:00 run running", "11:00:00 US ok", "11:05:00 run interrupted (shutdown)", "11:05:00 run running",
			"11:05:00 GB ok", "11:05:00 DE ok", "11:05:00 FR ok", "11:05:00 US ok", "11:05:00 run done")
		b.stop()
	})
}

// A pass leaves a bookmark, and its host dies: the next pass of the region finds it on
// another host, and when that pass has ended well, no host has it any more.
func TestHostsShareBookmarks(t *testing.T) {
	withSimulatedHosts(t, func(c *simulatedHosts) {
		c.play = func(_ context.Context, h *host, region string) jobs.Exit {
			if region != "DE" || time.Now().UTC().Hour() != 11 {
				return jobs.Exit{}
			}
			if err := h.SetBookmark("trending", "DE", "page 5"); err != nil {
				t.Error(err)
			}
			return jobs.Exit{Code: jobs.ExitExhausted}
		}
		bookmark := func(h *host, want string) {
			if got, err := h.Bookmark("trending", "DE"); err != nil || got != want {
				t.Errorf("host %s has bookmark %q, %v, want %q", h.name, got, err, want)
			}
		}
		a := c.start("a")
		c.until("11:30:00")
		c.wants("11:00:00 run running", "11:00:00 US ok", "11:10:00 GB ok", "11:20:00 DE exhausted", "11:20:00 run stopped (exhausted)")
		a.kill()
		b := c.start("b")
		bookmark(b, "page 5")
		c.until("12:05:00")
		bookmark(b, "")
		a = c.start("a")
		c.until("13:05:00")
		if found, want := slices.Concat(a.bookmarks(), b.bookmarks()), []string{"DE page 5"}; !slices.Equal(found, want) {
			t.Errorf("the passes found %q, want %q", found, want)
		}
		bookmark(a, "")
		bookmark(b, "")
		a.stop()
		b.stop()
	})
}

// A run that takes longer than the period is nobody's to overtake, on whatever
// host; the tick that met it is skipped once.
func TestOverlapOfHosts(t *testing.T) {
	withSimulatedHosts(t, func(c *simulatedHosts) {
		c.play = func(ctx context.Context, _ *host, region string) jobs.Exit {
			if region == "US" {
				time.Sleep(65 * time.Minute)
			}
			return jobs.Exit{}
		}
		hosts := []*host{c.start("a"), c.start("b"), c.start("c")}
		c.until("12:03:00")
		c.wants("11:00:00 run running", "12:00:08 run skipped (overlap) ×1")
		for _, h := range hosts {
			if s := h.status(); s.Last.State != jobs.RunRunning || s.Skips == nil || s.Skips.Reason != jobs.Overlap {
				t.Errorf("host %s shows %+v and %+v", h.name, s.Last, s.Skips)
			}
			if _, err := h.Run("trending", "root", nil); !errors.Is(err, jobs.ErrUnderWay) {
				t.Errorf("host %s answers %v to a manual run", h.name, err)
			}
			if err := h.SetCursor("trending", "FR"); !errors.Is(err, jobs.ErrUnderWay) {
				t.Errorf("host %s answers %v to a new cursor", h.name, err)
			}
		}
		for _, h := range hosts {
			h.stop()
		}
	})
}

// A pause and a cursor are everybody's, whoever sets them, and outlive the hosts.
func TestHostsSharePauseAndCursor(t *testing.T) {
	withSimulatedHosts(t, func(c *simulatedHosts) {
		a, b := c.start("a"), c.start("b")
		if err := errors.Join(a.Pause("trending", "root", "the key is being changed", 0), b.SetCursor("trending", "FR")); err != nil {
			t.Fatal(err)
		}
		if p := b.status().Pause; p == nil || p.By != "root" || a.status().Cursor != "FR" {
			t.Errorf("got %+v and the cursor at %s", p, a.status().Cursor)
		}
		c.until("11:30:00")
		c.wants("11:00:00 run skipped (paused) ×1")
		a.stop()
		b.stop()
		b = c.start("b")
		if err := b.Resume("trending"); err != nil {
			t.Fatal(err)
		}
		a = c.start("a")
		if p := a.status().Pause; p != nil {
			t.Errorf("got %+v, want it resumed", p)
		}
		c.until("12:05:00")
		c.wants("12:00:00 run running", "12:00:00 FR ok")
		a.stop()
		b.stop()
	})
}

// While Redis is away nobody knows who has a slot: it is skipped by name on each
// host, and run by one of them as soon as it can be claimed, if that is soon enough.
func TestRedisIsAwayAtASlot(t *testing.T) {
	withSimulatedHosts(t, func(c *simulatedHosts) {
		c.job.Regions, c.job.CatchUp = c.job.Regions[:1], true
		a, b := c.start("a"), c.start("b")
		c.killRedis()
		if err := a.Pause("trending", "root", "", 0); err == nil {
			t.Error("a pause was accepted that nobody else can know of")
		}
		if _, err := a.Run("trending", "root", nil); err == nil {
			t.Error("a run was accepted that nobody else can know of")
		}
		if err := a.SetCursor("trending", "US"); err == nil || !strings.HasPrefix(err.Error(), `cannot set the cursor of job "trending": `) {
			t.Errorf("a cursor that nobody else can know of: %v", err)
		}
		c.until("11:10:00")
		c.wants("11:00:00 run skipped (ledger_unavailable) ×1", "11:00:00 run skipped (ledger_unavailable) ×1")
		c.runRedis()
		c.until("11:11:00")
		if last := a.status().Last; last == nil || last.Trigger != jobs.CatchUp || last.State != jobs.RunDone || last.Slot.Minute() != 0 {
			t.Errorf("got %+v, want the slot made up for", last)
		}
		if runs := slices.Concat(a.served(), b.served()); len(runs) != 1 {
			t.Errorf("it was run %d times", len(runs))
		}
		c.until("11:30:00")
		c.forget()
		c.killRedis()
		c.until("12:31:00")
		c.runRedis()
		c.until("12:59:00")
		c.wants("12:00:00 run skipped (ledger_unavailable) ×1", "12:00:00 run skipped (ledger_unavailable) ×1")
		c.until("13:05:00")
		c.wants("13:00:00 run running", "13:00:00 US ok", "13:00:00 run done")
		a.stop()
		b.stop()
	})
}

// A run that ends while Redis is away is told when it is back, before another host may
// take its job: there is one history of it, and no region is fetched twice.
func TestARunEndsWhileRedisIsAway(t *testing.T) {
	withSimulatedHosts(t, func(c *simulatedHosts) {
		c.job.Stagger = time.Minute
		a, b := c.start("a"), c.start("b")
		c.until("11:01:30") // US and GB are over
		c.killRedis()
		c.until("12:00:20") // nobody has the slot for now
		c.runRedis()
		c.until("12:59:00") // one of the hosts has made up for it
		for _, h := range []*host{a, b} {
			runs, err := h.Runs("trending", 100)
			runs = slices.DeleteFunc(runs, func(r jobs.Run) bool { return r.State == jobs.RunSkipped })
			if err != nil || len(runs) != 2 {
				t.Errorf("host %s shows %d runs, %v: %q", h.name, len(runs), err, c.log)
			}
			for _, run := range runs {
				if run.State != jobs.RunDone || len(run.Passes) != 4 || run.Ring[0] != "US" {
					t.Errorf("host %s shows %+v", h.name, run)
				}
			}
		}
		if got := len(a.served()) + len(b.served()); got != 8 {
			t.Errorf("%d passes in two runs of four regions: %q", got, c.log)
		}
		a.stop()
		b.stop()
	})
}

// The same, and the daemon stops before Redis is back: it tells at its next start.
func TestAHostStopsWhileRedisIsAway(t *testing.T) {
	withSimulatedHosts(t, func(c *simulatedHosts) {
		c.job.Stagger = time.Minute
		a, b := c.start("a"), c.start("b")
		c.until("11:01:30")
		c.killRedis()
		c.until("11:30:00")
		a.stop()
		b.stop()
		c.runRedis()
		b = c.start("b")
		a = c.start("a")
		c.until("11:31:00")
		for _, h := range []*host{a, b} {
			if s := h.status(); s.Last == nil || s.Last.State != jobs.RunDone || len(s.Last.Passes) != 4 || s.Cursor != "US" {
				t.Errorf("host %s shows the cursor at %s after %+v", h.name, s.Cursor, s.Last)
			}
		}
		a.stop()
		b.stop()
	})
}

// All hosts were away: one of them makes up for the last slot, and says once how
// many were missed.
func TestAllHostsWereAway(t *testing.T) {
	withSimulatedHosts(t, func(c *simulatedHosts) {
		c.job.Regions = c.job.Regions[:1]
		a, b := c.start("a"), c.start("b")
		c.until("11:30:00")
		c.wants("11:00:00 run running", "11:00:00 US ok", "11:00:00 run done")
		a.stop()
		b.stop()
		c.until("16:30:00")
		a, b = c.start("a"), c.start("b")
		c.wants("16:30:00 run skipped (missed) ×4", "16:30:00 run running", "16:30:00 US ok", "16:30:00 run done")
		a.stop()
		c.until("18:30:00") // what others ran, a has not missed
		c.wants("17:00:00 run running", "17:00:00 US ok", "17:00:00 run done", "18:00:00 run running", "18:00:00 US ok", "18:00:00 run done")
		a = c.start("a")
		c.wants()
		a.stop()
		b.stop()
	})
}

// All hosts were away at the first slot of a job: it is known all the same.
func TestAllHostsWereAwayAtTheFirstSlot(t *testing.T) {
	withSimulatedHosts(t, func(c *simulatedHosts) {
		c.job.Regions = c.job.Regions[:1]
		for _, catchUp := range []bool{true, false} {
			c.job.Name, c.job.CatchUp = fmt.Sprintf("catchup-%v", catchUp), catchUp
			a, b := c.start("a"), c.start("b")
			time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour - time.Second)))
			a.stop()
			b.stop()
			time.Sleep(4 * time.Second)
			a, b = c.start("a"), c.start("b")
			time.Sleep(time.Hour)
			a.stop()
			b.stop()
		}
		c.wants("11:00:03 run running", "11:00:03 US ok", "11:00:03 run done", "12:00:00 run running", "12:00:00 US ok", "12:00:00 run done",
			"13:00:03 run skipped (missed) ×1", "14:00:00 run running", "14:00:00 US ok", "14:00:00 run done")
	})
}

// A Redis that was emptied is told again what the hosts know.
func TestRedisWasEmptied(t *testing.T) {
	withSimulatedHosts(t, func(c *simulatedHosts) {
		a, b := c.start("a"), c.start("b")
		if err := errors.Join(a.SetCursor("trending", "DE"), a.Pause("trending", "root", "", 0)); err != nil {
			t.Fatal(err)
		}
		b.status() // as an operator does who looks
		c.server.Order(t, "FLUSHALL")
		c.until("11:30:00")
		c.wants("11:00:00 run skipped (paused) ×1")
		for _, h := range []*host{a, b} {
			if s := h.status(); s.Pause == nil || s.Cursor != "DE" {
				t.Errorf("host %s has the cursor at %s and the pause %+v", h.name, s.Cursor, s.Pause)
			}
			h.stop()
		}
	})
}

// A host that is cut off in the middle of a run goes on as far as it can, but does
// not move the cursor of those who have gone on without it.
func TestAHostIsCutOff(t *testing.T) {
	withSimulatedHosts(t, func(c *simulatedHosts) {
		a := c.start("a")
		c.until("11:05:00")
		a.setDead(true)
		b := c.start("b")
		c.until("11:08:00")
		if _, err := b.Run("trending", "root", nil, "FR"); err != nil {
			t.Fatal(err)
		}
		c.until("11:09:00")
		a.setDead(false)
		c.until("11:45:00")
		c.wants("11:00:00 run running", "11:00:00 US ok", "11:08:00 run running", "11:08:00 FR ok", "11:08:00 run done",
			"11:09:00 run stopped (overlap)")
		if s := a.status(); s.Cursor != "GB" || s.Last.By != "root" {
			t.Errorf("got the cursor at %s after %+v", s.Cursor, s.Last)
		}
		a.stop()
		b.stop()
	})
}

// On one host the next run may begin as soon as anybody has been told that a run is over.
func TestARunRightAfterARun(t *testing.T) {
	withSimulatedHosts(t, func(c *simulatedHosts) {
		a := c.start("a")
		if err := a.ticks.Stop(); err != nil {
			t.Error(err)
		}
		for range 20 {
			first, err := a.Run("trending", "root", nil, "US")
			if err != nil {
				t.Fatal(err)
			}
			asked := false
			a.told(func(lines string) {
				if asked || !strings.Contains(lines, `"id":"`+first.ID+`","end":`) {
					return
				}
				asked = true
				go func() {
					if _, err := a.Run("trending", "root", nil, "GB"); err != nil {
						t.Errorf("right after a run: %v", err)
					}
				}()
			})
			time.Sleep(time.Minute)
			if a.told(nil); !asked {
				t.Error("nobody was told that the run is over")
			}
		}
		a.stop()
	})
}

// Who is in the way is named where it is another host, and only there.
func TestWhoIsInTheWay(t *testing.T) {
	withSimulatedHosts(t, func(c *simulatedHosts) {
		c.play = func(context.Context, *host, string) jobs.Exit { time.Sleep(time.Minute); return jobs.Exit{} }
		a, b := c.start("a"), c.start("b")
		run, err := a.Run("trending", "root", nil, "US")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for h, want := range map[*host]string{a: "a run of the job is under way: " + run.ID, b: "a run of the job is under way on host a: " + run.ID} {
			if _, err := h.Run("trending", "root", nil, "GB"); !errors.Is(err, jobs.ErrUnderWay) || !strings.Contains(err.Error(), want) {
				t.Errorf("host %s: got %v, want %q", h.name, err, want)
			}
		}
		time.Sleep(time.Hour)
		a.stop()
		b.stop()
	})
}
