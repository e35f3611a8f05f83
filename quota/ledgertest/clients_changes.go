package ledgertest

import (
	"time"

	"quotad/quota"
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

// A limit by another name counts on. Where one is added, one goes or a window
// changes, a subject begins at 0, and what it had is there when the windows are as before.
func clientLimits(h *clientHistory) {
	h.limit("hour", 10, time.Hour)
	h.granted(alice, 6, 0, 4)
	h.limit("minute", 0, 0)
	h.used(alice, 0)
	h.limit("short", 6, time.Minute) // the minute by another name
	h.used(alice, 6, 6)
	h.limit("day", 20, 24*time.Hour)
	h.used(alice, 0, 0, 0)
	h.granted(alice, 6, 0, 4, 14)
	h.limit("day", 0, 0)
	h.clock.Add(2 * time.Minute)
	h.granted(alice, 2, 4, 2)
	h.used(alice, 2, 8)
	h.limit("hour", 10, 2*time.Hour)
	h.granted(alice, 6, 0, 4)
}
