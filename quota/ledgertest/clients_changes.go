package ledgertest

import (
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
)

func clientUnits(h *clientHistory) {
	h.granted(alice, 6, 0)
	h.limit("minute", 8, time.Minute)
	h.granted(alice, 1, 1)
	h.limit("minute", 3, time.Minute)
	h.used(alice, 7)
	d := h.ask(alice, 1)
	if d.Remaining() != 0 || d.Reason != quota.LimitExceeded {
		h.Fatalf("got %+v, want a denial", d)
	}
	h.denied(alice, 1, "minute", d.RetryAfter)
	h.clock.Set(d.RetryAt)
	h.granted(alice, 1)
}

func clientLimits(h *clientHistory) {
	h.limit("hour", 10, time.Hour)
	h.granted(alice, 6, 0, 4)
	h.limit("minute", 0, 0)
	h.limit("short", 6, time.Minute) // the minute by another name, behind the hour
	h.used(alice, 6, 6)
	h.limit("day", 20, 24*time.Hour)
	counts := quota.Units(6) // of what is known
	if h.c.Algorithm == clientlimit.Counter {
		counts = 0
	}
	h.used(alice, 6, 6, counts)
	h.clock.Add(2 * time.Minute)
	h.granted(alice, 2)
	h.used(alice, 8, 2, counts+2)
	h.limit("short", 0, 0)
	h.used(alice, 8, counts+2)
	h.granted(alice, 1)
	h.used(alice, 9, counts+3)
	h.limit("short", 5, time.Minute)
	if h.c.Algorithm == clientlimit.Log {
		h.used(alice, 9, 9, 3)
	} else {
		h.used(alice, 9, 3, 0)
	}
}

func clientLogWindows(h *clientHistory) {
	h.granted(alice, 3, 3)
	h.clock.Add(50 * time.Second)
	h.granted(alice, 3, 0)
	h.limit("minute", 6, 2*time.Minute) // longer: what is still known counts as long as it should
	h.denied(alice, 1, "minute", 70*time.Second)
	h.clock.Add(70 * time.Second)
	h.granted(alice, 3, 0)
	h.limit("minute", 6, time.Minute)
	h.used(alice, 3)
	h.granted(alice, 3, 0)
}

// What was counted in a window that is gone counts in the new one as if it had just been
// used: once, however often it is asked for meanwhile.
func clientCounterWindows(h *clientHistory) {
	h.limit("minute", 100, 24*time.Hour)
	h.granted(alice, 90, 10)
	h.clock.Add(time.Hour)
	h.limit("minute", 60, time.Minute)
	h.used(alice, 90)
	h.denied(alice, 1, "minute", 80667*time.Millisecond) // when 59 of 90 count
	h.clock.Add(80667 * time.Millisecond)
	h.granted(alice, 1, 0)
	h.limit("minute", 60, 2*time.Minute)
	h.granted(bob, 60, 0)
	h.used(alice, 60)
	h.limit("minute", 60, time.Hour) // of alice nothing was counted in the two minutes
	h.used(alice, 60)
	h.used(bob, 60)
	h.denied(bob, 60, "minute", 118*time.Minute+39333*time.Millisecond) // until twelve
}
