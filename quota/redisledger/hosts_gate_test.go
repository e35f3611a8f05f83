package redisledger

import (
	"context"
	"testing"
	"time"

	"quotad/jobs"
	"quotad/quota"
)

// withTwoJobs has two jobs that expect four calls of each pass, of a limit that has units left.
// Each pass makes them in eight seconds.
func withTwoJobs(c *simulatedHosts, left quota.Units) {
	c.job.Regions, c.job.Expects = c.job.Regions[:1], map[string]quota.Units{"list": 4}
	other := c.job
	other.Name = "channels"
	c.others, c.left = []*jobs.Job{&other}, left
	c.play = func(ctx context.Context, h *host, _ string) jobs.Exit {
		for range 4 {
			h.spend(ctx.Value(tokenKey{}).(string))
			time.Sleep(2 * time.Second)
		}
		return jobs.Exit{}
	}
}

// Two hosts tick two jobs at the same instant, and the units are enough for one of them: one is
// launched, whichever came to the gate first.
func TestTheGateSeesAllHosts(t *testing.T) {
	withSimulatedHosts(t, func(c *simulatedHosts) {
		withTwoJobs(c, 5)
		a, b := c.start("a"), c.start("b")
		now := time.Now().UTC()
		a.Tick("trending", now)
		b.Tick("channels", now)
		c.until("10:51:00")
		c.wants("10:50:00 run running", "10:50:00 run running", "10:50:00 US skipped", "10:50:00 run stopped (unaffordable)",
			"10:50:08 US ok", "10:50:08 run done")
		a.stop()
		b.stop()
	})
}

// What a pass on another host has spent it is not expected to spend any more.
func TestTheGateSeesWhatIsLeftOnAllHosts(t *testing.T) {
	withSimulatedHosts(t, func(c *simulatedHosts) {
		withTwoJobs(c, 8)
		c.left = 9
		a, b := c.start("a"), c.start("b")
		a.Tick("trending", time.Now().UTC())
		time.Sleep(5 * time.Second) // it has made three calls, and said so
		b.Tick("channels", time.Now().UTC())
		c.until("10:51:00")
		c.wants("10:50:00 run running", "10:50:05 run running", "10:50:08 US ok", "10:50:08 run done", "10:50:13 US ok", "10:50:13 run done")
		a.stop()
		b.stop()
	})
}

// A host that has died holds nothing back any more.
func TestTheGateForgetsAHostThatDied(t *testing.T) {
	withSimulatedHosts(t, func(c *simulatedHosts) {
		withTwoJobs(c, 5)
		a := c.start("a")
		a.Tick("trending", time.Now().UTC())
		time.Sleep(time.Second)
		a.kill()
		c.left = 5
		b := c.start("b")
		c.until("10:51:00")
		b.Tick("channels", time.Now().UTC())
		c.until("10:52:00")
		c.wants("10:50:00 run running", "10:51:00 run running", "10:51:08 US ok", "10:51:08 run done")
		b.stop()
	})
}

// A host dies while its run waits for a limit that comes back soon: the next slot begins at the
// region that waited, on another host.
func TestAHostDiesWaitingForAPace(t *testing.T) {
	withSimulatedHosts(t, func(c *simulatedHosts) {
		c.job.Expects, c.job.Stagger, c.job.MaxWait = map[string]quota.Units{"list": 1}, 0, time.Minute
		c.play = func(context.Context, *host, string) jobs.Exit {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.back = time.Now().Add(40 * time.Second)
			return jobs.Exit{}
		}
		a := c.start("a")
		c.until("11:00:50") // US and GB are served, DE waits
		if got := a.status().Last.Waits; got == nil || got.Limit != "pace" {
			t.Errorf("it waits for %+v", got)
		}
		a.kill()
		b := c.start("b")
		c.until("12:03:00")
		c.wants("11:00:00 run running", "11:00:00 US ok", "11:00:40 GB ok",
			"12:00:00 run running", "12:00:00 DE ok", "12:00:40 FR ok", "12:01:20 US ok", "12:02:00 GB ok", "12:02:00 run done")
		b.stop()
	})
}
