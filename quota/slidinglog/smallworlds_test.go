package slidinglog_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/seedtest"
)

// deedsVariable says how many deeds the histories of TestSmallWorlds have.
const deedsVariable = "QUOTAD_TEST_DEEDS"

// TestSmallWorlds plays all histories of a few deeds in which two hosts share a limit of three units,
// of which two are used: every order of calls with and without a request id, of faults, and of the
// points at which a host stands still while the store does not. Like those of the simulation, each
// ends in peace, and the same oracle looks at it.
func TestSmallWorlds(t *testing.T) {
	bad, failed := playAll(t, histories(seedtest.Number(t, deedsVariable, 3)), func(deeds []deed, idle routines) *world {
		w := smallWorld(idle, false)
		w.playDeeds(deeds)
		return w
	})
	if failed != "" {
		w := smallWorld(nil, true)
		w.playDeeds(bad)
		t.Errorf("%v: %s\n%s", bad, failed, strings.Join(w.trace, "\n"))
	}
}

// A deed is what happens next in a small world. Those below host are of no host, the others of the first one,
// and behind them those of the second one.
type deed int

const (
	flushes deed = iota
	restores
	waits // for longer than a quiet period

	goesOn // up to the next call or answer of the store; a host that does nothing reads the log
	takesOne
	takesTwo
	repeatsOne // with a request id, which both hosts use
	repeatsTwo
	settles // what is used already, to nothing
	dies
	freezes
	isCut
	isLate // its next record: nobody knows whether it is in the log, until it is

	hostDeeds = isLate + 1 - goesOn
	allDeeds  = isLate + 1 + hostDeeds
)

func (d deed) String() string {
	names := []string{"flush", "older copy", "wait", "goes on", "takes 1", "takes 2", "repeats 1", "repeats 2", "settles", "dies", "freezes", "is cut off", "is late"}
	if d < goesOn {
		return names[d]
	}
	return fmt.Sprintf("%c %s", 'A'+rune(d-goesOn)/rune(hostDeeds), names[goesOn+(d-goesOn)%hostDeeds])
}

// histories yields all histories of some deeds, except mirrored ones.
func histories(steps int) iter.Seq[[]deed] {
	return func(yield func([]deed) bool) {
		for n := 0; ; n++ {
			deeds, rest := make([]deed, steps), n
			for i := range deeds {
				deeds[i], rest = deed(rest%int(allDeeds)), rest/int(allDeeds)
			}
			if rest > 0 || !mirrored(deeds) && !yield(deeds) {
				return
			}
		}
	}
}

// mirrored reports whether another history differs by the names of the hosts alone.
func mirrored(deeds []deed) bool {
	for _, d := range deeds {
		if d >= goesOn {
			return d > isLate
		}
	}
	return false
}

// smallWorld returns a world of two hosts that agree.
func smallWorld(idle routines, traces bool) *world {
	w := &world{routines: idle, rand: rand.New(rand.NewPCG(1, 1)), traces: traces, temper: small, trip: 1, still: true}
	w.now = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC).UnixMilli()
	w.store = &ledgertest.SimStore{Clock: func() int64 { return w.now }}
	w.oracle = newOracle(w)
	w.addHost(ledgertest.NewMemFile())
	w.addHost(ledgertest.NewMemFile())
	w.past = append(w.past, w.store.Snapshot())
	w.calm()
	w.take(w.hosts[0], 2, "")
	w.calm()
	return w
}

// playDeeds plays a history.
func (w *world) playDeeds(deeds []deed) {
	for _, d := range deeds {
		w.say("%v", d)
		w.happen(d)
	}
	w.end()
}

func (w *world) happen(d deed) {
	switch d {
	case flushes:
		w.losing()
		w.store.Flush("api")
		return
	case restores:
		w.losing()
		w.store.Restore(w.past[0])
		return
	case waits:
		w.now += w.quiet().Milliseconds() + 10
		return
	}
	h := w.hosts[(d-goesOn)/hostDeeds]
	switch goesOn + (d-goesOn)%hostDeeds {
	case goesOn:
		switch {
		case w.now < h.frozen:
		case len(h.does) == 0:
			h.do(func() { h.ledger.Follow(h.ctx) })
			fallthrough
		default:
			if t := h.next(); t != nil {
				h.goOn(t)
			}
		}
	case takesOne:
		w.take(h, 1, "")
	case takesTwo:
		w.take(h, 2, "")
	case repeatsOne:
		w.take(h, 1, "r")
	case repeatsTwo:
		w.take(h, 2, "r")
	case settles:
		w.ask(h, func() { h.settleTo(w.oracle.told[0].id, 0) })
	case dies:
		w.oracle.killed(h)
		h.end(false)
		h.begin()
	case freezes:
		h.frozen = w.now + 5_000
	case isCut:
		h.cutUntil = w.now + 5_000
	case isLate:
		h.late = true
	}
}

// take has a client ask a host for units.
func (w *world) take(h *simHost, units quota.Units, id string) {
	r := quota.Request{Credential: "api", Operation: "one", Count: units, RequestID: id}
	w.ask(h, func() {
		h.acquireAll([]quota.Ask{{Request: r, Charges: []quota.Charge{{Limit: "window", Units: units}}}})
	})
}

// ask has a client ask a host for something, and the host go on up to its first call of the store.
func (w *world) ask(h *simHost, f func()) {
	if t := h.do(f); w.now >= h.frozen {
		h.goOn(t)
	}
}
