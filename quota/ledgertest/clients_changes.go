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
	h.used(alice, 6, 6, 6) // what is known
	h.clock.Add(2 * time.Minute)
	h.granted(alice, 2)
	h.used(alice, 8, 2, 8)
	h.limit("short", 0, 0)
	h.used(alice, 8, 8)
	h.granted(alice, 1)
	h.used(alice, 9, 9)
	h.limit("short", 5, time.Minute)
	h.used(alice, 9, 9, 3)
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

// A window that the record lacks counts what is known, as if each sum of it had been granted as
// late as it can have been: once, however often it is asked for meanwhile. One that is gone, or
// that another host has, counts on.
func clientCounterWindows(h *clientHistory) {
	h.limit("minute", 100, 24*time.Hour)
	h.granted(alice, 90, 10)
	h.clock.Add(time.Hour)
	h.limit("minute", 60, time.Minute)
	h.used(alice, 90)
	h.denied(alice, 1, "minute", 80667*time.Millisecond) // when 59 of 90 count
	h.clock.Add(80667 * time.Millisecond)
	h.granted(alice, 1, 0)
	h.limit("minute", 100, 24*time.Hour)
	h.used(alice, 91)
	h.limit("minute", 60, 2*time.Minute)
	h.used(alice, 91) // the day knows all, and not when in it
	h.granted(bob, 60, 0)
	h.clock.Set(h.clock.Now().Truncate(time.Hour).Add(59*time.Minute + 59*time.Second)) // bob's are of the bucket of 9:20
	h.used(bob, 0)
}

// A window gets longer: what is known counts on, though it is not enough of it any more for the
// window that was there before.
func clientCounterLonger(h *clientHistory) {
	h.clock.Add(50 * time.Second)
	h.granted(alice, 6, 0)
	h.clock.Add(59 * time.Second) // 9:01:49: a sixth of the window has 1 of the 6
	h.used(alice, 2)
	h.granted(alice, 4, 0)
	h.limit("minute", 10, time.Hour)
	h.used(alice, 10)
	h.denied(alice, 1, "minute", time.Hour-109*time.Second+6*time.Minute) // a tenth of ten o'clock's
	h.clock.Add(30 * time.Minute)
	h.used(alice, 10)
	h.limit("minute", 20, 2*time.Hour)
	h.used(alice, 10)
	h.granted(alice, 10, 0)
	h.limit("minute", 6, time.Minute) // gone for more than two minutes: the hours know what there was
	h.used(alice, 20)
}

// Hosts whose windows differ count what all of them grant, no matter which of them wrote last.
func clientHosts(h *clientHistory) {
	short := h.c
	h.limit("minute", 30, time.Hour)
	long := h.c
	granted := quota.Units(0)
	for range 120 {
		for _, h.c = range []*clientlimit.Clients{long, short} {
			before := granted
			if h.ask(alice, 1).Granted() {
				granted++
			}
			if h.c == long && granted > before && granted > 30 {
				h.Fatalf("the host of an hour makes grant %d", granted)
			}
		}
		h.clock.Add(5 * time.Second)
	}
	if h.c = long; granted < 60 {
		h.Fatalf("the host of a minute grants %d in ten minutes", granted)
	}
	h.used(alice, granted)
}

// A window that another host is known to have is kept from the first grant on.
func clientKept(h *clientHistory) {
	kept := *h.c
	kept.Kept = []time.Duration{time.Hour}
	long := kept
	h.c = &kept
	for range 10 {
		h.granted(alice, 6, 0)
		h.clock.Add(2 * time.Minute)
	}
	h.used(alice, 0)
	long.Limits = []quota.Limit{{Name: "hour", Units: 100, Window: quota.Sliding(time.Hour)}}
	h.c = &long
	h.used(alice, 60)
	h.granted(alice, 40, 0)
}
