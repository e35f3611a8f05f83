package slidinglog_test

import (
	"math"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/seedtest"
)

// TestLiveness plays short histories of the simulation. After the last fault one host is dead for ever, and
// the store is there, or away for ever. Every caller of the other hosts is answered by its deadline. If the store
// is there, each host decides within the time that a quiet period may take with a host that is absent.
func TestLiveness(t *testing.T) {
	seedtest.SkipUnderRace(t)
	n, seed := seedtest.Long(t, 2500), seedtest.Seed(t, 1)
	seeds := func(yield func(uint64) bool) {
		for i := uint64(0); i < uint64(n) && yield(seed+i); i++ {
		}
	}
	play := func(seed uint64, idle routines, traces bool) *world {
		w := oddWorld(seed, idle, traces)
		w.warTime, w.nextFault, w.afterwards = 600, w.now+100, w.live
		if w.temper == far { // a turn lasts for two round trips, and a page has more records than others write meanwhile
			w.trip, w.store.Page = min(w.trip, 12), 0
		}
		return w
	}
	bad, failed := playAll(t, seeds, func(seed uint64, idle routines) *world {
		w := play(seed, idle, false)
		w.play()
		return w
	})
	if failed != "" {
		reportHistory(t, play, bad, failed)
	}
}

const (
	liveTime     = 10_000 // ms until each host decides
	callDeadline = 250    // ms of a call
)

// live goes on after the last fault.
func (w *world) live() {
	away := w.odd.IntN(2) == 0
	w.heal()
	if len(w.hosts) > 1 {
		dead := w.hosts[w.odd.IntN(len(w.hosts))]
		w.say("%s is dead for ever", dead.name)
		w.oracle.lostFile(dead)
		dead.end(false)
		dead.gone = true
	}
	if away {
		w.say("the store is away for ever")
		for _, h := range w.alive() {
			h.cutUntil = math.MaxInt64
		}
	}
	for _, h := range w.alive() {
		h.asks, h.file.Full = &asking{}, false
	}
	for began := w.now; w.failed == "" && !w.allDecided(); w.now = w.nextEvent() {
		if took := w.now - began; took > liveTime && !away {
			w.fail("a host does not decide, %d ms after the last fault", took)
		} else if took > 2000 && away {
			break
		}
		for _, h := range w.alive() {
			h.live()
		}
	}
	for _, h := range w.alive() {
		h.end(false)
	}
}

// An asking is what a host's callers have asked for after the last fault.
type asking struct {
	under   bool  // a call is under way
	since   int64 // when that, or the last one, began
	decided bool
}

// live has a host do all that is due.
func (h *simHost) live() {
	w := h.w
	switch {
	case h.asks.under && w.now > h.asks.since+callDeadline+2*h.trip+25:
		w.fail("a caller of host %s is not answered after %d ms", h.name, w.now-h.asks.since)
	case !h.asks.under && w.now >= h.asks.since+100:
		*h.asks = asking{under: true, since: w.now, decided: h.asks.decided}
		h.do(func() {
			r := quota.Request{Credential: "api", Operation: "one", Count: 1}
			charges, _ := h.c.Charges("one", 1, "")
			decided := h.acquireAll(deadline{h.ctx, h, w.now + callDeadline}, []quota.Ask{{Request: r, Charges: charges}})
			h.asks.under, h.asks.decided = false, h.asks.decided || decided
		})
	}
	if !h.follows && w.now-h.followed >= (w.quiet()/7).Milliseconds() {
		h.follow()
	}
	if w.now-h.folded >= time.Second.Milliseconds() {
		h.fold()
	}
	for t := h.next(); t != nil; t = h.next() {
		h.goOn(t)
	}
}

// allDecided tells whether each host has decided what a caller asked for.
func (w *world) allDecided() bool {
	for _, h := range w.alive() {
		if h.cutUntil > w.now || !h.asks.decided {
			return false
		}
	}
	return true
}

// nextEvent returns when something is due next.
func (w *world) nextEvent() int64 {
	next := w.now + 50
	for _, h := range w.alive() {
		for _, t := range h.does {
			next = min(next, t.wake)
		}
		if !h.follows {
			next = min(next, h.followed+(w.quiet()/7).Milliseconds())
		}
	}
	return max(next, w.now+1)
}
