package ledgertest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
)

// Subjects of the histories.
const alice, bob = "192.0.2.1", "\x00\x80bob"

func clientLog(h *clientHistory) {
	h.limit("minute", 2, time.Minute)
	h.granted(alice, 1, 1)
	h.clock.Add(20 * time.Second)
	h.granted(alice, 1, 0)
	h.next(alice, 40*time.Second, 1)
	h.denied(alice, 1, "minute", 40*time.Second)
	h.denied(alice, 2, "minute", time.Minute)
	h.clock.Add(40 * time.Second)
	h.granted(alice, 1, 0)
	h.denied(alice, 1, "minute", 20*time.Second)
}

// Of the bucket before counts what of it is in the trailing window, rounded up.
func clientCounter(h *clientHistory) {
	for i := range 6 {
		h.granted(alice, 1, quota.Units(5-i))
	}
	h.next(alice, 70*time.Second, 1) // a sixth of the next bucket
	h.denied(alice, 1, "minute", 70*time.Second)
	h.clock.Add(time.Minute)
	h.used(alice, 6)
	h.clock.Add(10*time.Second - tick)
	h.used(alice, 6)
	h.clock.Add(tick)
	h.used(alice, 5)
	h.granted(alice, 1, 0)
	h.next(alice, 10*time.Second, 1)
	h.denied(alice, 1, "minute", 10*time.Second)
	h.denied(alice, 6, "minute", 110*time.Second) // not before the one of this bucket has gone
	h.clock.Add(20 * time.Second)
	h.granted(alice, 2, 0)
	h.clock.Add(time.Minute + 30*time.Second)
	h.used(alice, 0)
}

func clientWindows(h *clientHistory) {
	h.limit("hour", 10, time.Hour)
	h.granted(alice, 6, 0, 4)
	h.clock.Add(2 * time.Minute)
	h.granted(alice, 4, 2, 0)
	d := h.ask(alice, 1)
	if d.Reason != quota.LimitExceeded || d.Limit != "hour" || d.Limits[0].Cost != 1 || d.Limits[1].Cost != 1 {
		h.Fatalf("got %+v, want a denial by the hour", d)
	}
	h.used(alice, 4, 10) // of the minute nothing was taken
	both := h.ask(alice, 5)
	if both.Limit != "hour" {
		h.Fatalf("denied by %q, want the limit that is in the way the longest", both.Limit)
	}
	h.clock.Set(both.RetryAt.Add(-tick))
	h.denied(alice, 5, "hour", tick)
	h.clock.Add(tick)
	h.granted(alice, 5, 1)
}

func clientObserved(h *clientHistory) {
	h.limit("hour", 8, time.Hour)
	h.enforce(false)
	h.granted(alice, 5, 1, 3)
	d := h.granted(alice, 3, 0, 0)
	short := d.WouldDeny(false)
	if len(short) != 1 || short[0].Limit != "minute" || short[0].Missing != 2 {
		h.Fatalf("got %+v, want that the minute is short of 2", short)
	}
	h.used(alice, 8, 8)
	if d := h.ask(alice, 1); d.Limit != "hour" {
		h.Fatalf("got %+v, want a denial by the hour", d)
	}
	h.granted(bob, 7, 0, 1) // more than the minute can have
	h.enforce(true)
	h.used(alice, 8, 8)
	h.clock.Add(3 * time.Minute)
	h.used(alice, 0, 8)
}

func clientIsolation(h *clientHistory) {
	h.granted(alice, 6, 0)
	h.granted(bob, 6, 0)
	h.c.Name = "partners"
	h.configure()
	h.granted(alice, 6, 0)
	if h.c.Algorithm == clientlimit.Log {
		h.c.Algorithm = clientlimit.Counter
	} else {
		h.c.Algorithm = clientlimit.Log
	}
	h.configure()
	h.granted(alice, 6, 0) // another algorithm begins at 0
	h.granted("::ffff:192.0.2.9", 6, 0)
	h.denied("192.0.2.9", 1, "minute", h.ask("192.0.2.9", 1).RetryAfter) // the same one in another notation
}

func clientReset(h *clientHistory) {
	h.reset(alice) // a subject without a record
	h.granted(alice, 6, 0)
	h.granted(bob, 6, 0)
	h.reset(alice)
	h.used(alice, 0)
	h.granted(alice, 6, 0)
	h.used(bob, 6)
}

// A caller waits by the clock that stepped back.
func clientClock(h *clientHistory) {
	h.granted(alice, 1, 5)
	h.clock.Add(30 * time.Second)
	h.granted(alice, 5, 0)
	before := h.ask(alice, 1)
	// The counter knows when its bucket began, the log when its newest entry was made.
	knows := h.clock.Now()
	if h.c.Algorithm == clientlimit.Counter {
		knows = knows.Truncate(time.Minute)
	}
	for _, back := range []time.Duration{tick, 30 * time.Second, time.Hour, 24 * time.Hour} {
		h.clock.Add(-back)
		d := h.ask(alice, 1)
		if d.Reason != quota.LimitExceeded || !d.RetryAt.Equal(before.RetryAt) || d.RetryAfter != before.RetryAt.Sub(h.clock.Now()) {
			h.Fatalf("set back by %v: got %q for %v until %v, want it until %v", back, d.Reason, d.RetryAfter, d.RetryAt, before.RetryAt)
		}
		h.used(alice, 6)
		h.clock.Add(back)
	}
	// What is granted then is as new as the newest.
	h.limit("minute", 7, time.Minute)
	h.clock.Add(-time.Hour)
	h.granted(alice, 1, 0)
	h.clock.Set(knows)
	h.used(alice, 7)
}

// Limits that are not enforced count on, also when the units are many.
func clientGreat(h *clientHistory) {
	h.enforce(false)
	const most = clientlimit.MaxUnits
	for range 3 {
		h.granted(alice, most, 0)
	}
	sum := 3 * most
	if h.c.Algorithm == clientlimit.Counter { // whose sums are bounded
		sum = most
	}
	h.used(alice, sum)
	h.enforce(true)
	if d := h.ask(alice, 1); d.Reason != quota.LimitExceeded {
		h.Errorf("got %+v, want a denial", d)
	}
	h.clock.Add(2 * time.Minute)
	h.granted(alice, 6, 0)
}

// The oldest grants are forgotten once there are more than a log has of limits that are enforced.
func clientBound(h *clientHistory) {
	const most = 100_000
	h.limit("hour", 6, time.Hour)
	h.limit("minute", 0, 0)
	h.enforce(false)
	for range most + 10 {
		h.clock.Add(tick)
		h.ask(alice, 1)
	}
	h.used(alice, most)
}

// Whatever asks at the same time, and at whichever of the daemons: each subject has its units, and no more.
func clientMany(h *clientHistory) {
	services := []*clientlimit.Service{h.service}
	for h.harness.Join != nil && len(services) < 3 {
		services = append(services, serviceOf(h, h.harness.Join(h), h.c))
	}
	const subjects, asks = 8, 20
	var granted [subjects]atomic.Int64
	var wg sync.WaitGroup
	for _, service := range services {
		for n := range asks {
			wg.Go(func() {
				for i := range subjects {
					i = (i + n) % subjects
					request := clientlimit.Request{Subject: fmt.Sprint("user", i), Count: 1}
					d, err := service.Acquire(context.Background(), h.c.Name, request)
					if err != nil {
						h.Error(err)
					} else if d.Granted() {
						granted[i].Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	for i := range granted {
		if n := granted[i].Load(); n != 6 {
			h.Errorf("subject %d was granted %d, want 6", i, n)
		}
	}
}
