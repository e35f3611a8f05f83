package slidinglog_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/seedtest"
)

// TestSmallWorlds plays all histories of a few deeds in which two hosts share a limit of three units,
// of which two are used: every order of calls with and without a request id, of faults, and of the
// points at which a host stands still while the store does not. Like those of the simulation, each
// ends in peace, and the same oracle looks at it. Of histories that are the same but for the names of the
// hosts, the order of deeds that do not touch each other, and deeds that change nothing, one is played.
func TestSmallWorlds(t *testing.T) {
	seedtest.SkipUnderRace(t)
	most := seedtest.Long(t, 4)
	if most > 8 {
		t.Fatalf("%s=%d: a host that is frozen or cut off would come back", seedtest.LongVariable, most)
	}
	bad, failed := playAll(t, histories(most), func(deeds history, idle routines) *world {
		w := smallWorld(idle, false)
		w.playDeeds(deeds)
		return w
	})
	if failed != "" {
		w := smallWorld(nil, true)
		w.playDeeds(bad)
		t.Errorf("%v: %s\n%s", bad, failed, strings.Join(w.trace, "\n"))
	}
	all, n := 0, 1
	for range most {
		n *= int(allDeeds)
		all += n
	}
	t.Logf("they stand for all %d histories of up to %d deeds", all, most)
}

// Pruned histories are like ones that are played: each history of three deeds has a normal form, which is kept.
func TestPrunedHistories(t *testing.T) {
	kept := make(map[string]bool)
	for h := range histories(3) {
		kept[fmt.Sprint(h)] = true
	}
	for n := range int(allDeeds * allDeeds * allDeeds) {
		h := history{deed(n) / (allDeeds * allDeeds), deed(n) / allDeeds % allDeeds, deed(n) % allDeeds}
		if one := normalForm(h); len(one) > 0 && !kept[fmt.Sprint(one)] {
			t.Errorf("%v is not played, nor is %v, which is like it", h, one)
		}
	}
}

// normalForm returns the history that is played in place of another one.
func normalForm(h history) history {
	for changed := true; changed; {
		changed = false
		for i := range h {
			if !h[:i+1].changes() || h.idle(i) {
				h, changed = slices.Delete(h, i, i+1), true
				break
			}
			if i > 0 && independent(h[i-1], h[i]) && h[i].rank() < h[i-1].rank() {
				h[i-1], h[i], changed = h[i], h[i-1], true
			}
		}
	}
	if at := slices.IndexFunc(h, func(d deed) bool { return d.host() >= 0 }); at >= 0 && h[at].host() == 1 {
		for i, d := range h {
			switch d.host() {
			case 0:
				h[i] = d + hostDeeds
			case 1:
				h[i] = d - hostDeeds
			}
		}
		return normalForm(h)
	}
	return h
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
	return fmt.Sprintf("%c %s", 'A'+rune(d.host()), names[d.kind()])
}

// A history is deeds, one after the other.
type history []deed

// histories yields all histories of at least one deed and at most that number, without those that are like another
// one of them.
func histories(most int) iter.Seq[history] {
	return func(yield func(history) bool) { history{}.longer(most, yield) }
}

// longer yields the histories that begin with one, and reports whether more are wanted.
func (h history) longer(most int, yield func(history) bool) bool {
	if len(h) > 0 && !h.anyIdle() && !yield(slices.Clone(h)) {
		return false
	}
	for d := deed(0); d < allDeeds && len(h) < most; d++ {
		next := append(h, d)
		if next.first() && next.changes() && !next.longer(most, yield) {
			return false
		}
	}
	return true
}

// first reports whether no history that is like this one comes before it, if that holds without the last deed. The
// hosts differ by their names alone, so the first one acts first. Deeds that do not touch each other are ordered.
func (h history) first() bool {
	last := len(h) - 1
	d := h[last]
	if d.host() == 1 && !slices.ContainsFunc(h, func(d deed) bool { return d.host() == 0 }) {
		return false
	}
	for i := last - 1; i >= 0 && independent(h[i], d); i-- {
		if d.rank() < h[i].rank() {
			return false
		}
	}
	return true
}

// host is the number of the host that does it; -1: none.
func (d deed) host() int {
	if d < goesOn {
		return -1
	}
	return int(d-goesOn) / int(hostDeeds)
}

// kind is the deed as the first host would do it.
func (d deed) kind() deed {
	if d < goesOn {
		return d
	}
	return goesOn + (d-goesOn)%hostDeeds
}

// touches reports whether a deed may read or change the store. A client's call stands still before its first call
// of the store.
func (d deed) touches() bool { return d == flushes || d == restores || d.kind() == goesOn }

// independent reports whether two deeds may change places. All see the time. What the oracle makes of a host's
// death depends on what others were told before.
func independent(x, y deed) bool {
	dies := x.kind() == dies && y.kind() == goesOn || y.kind() == dies && x.kind() == goesOn
	return x != waits && y != waits && (x.host() != y.host() || x.host() < 0) && !(x.touches() && y.touches()) && !dies
}

// rank orders deeds that may change places.
func (d deed) rank() deed {
	if d.touches() {
		return d
	}
	return d + allDeeds
}

// changes reports whether the last deed of a history changes something. A host is frozen or cut off until peace: so
// many deeds take less time.
func (h history) changes() bool {
	last := len(h) - 1
	d := h[last]
	for i := last - 1; i >= 0; i-- {
		was := h[i].kind()
		switch {
		case d == flushes || d == restores:
			if h[i].touches() || was == waits {
				return h[i] != d
			}
		case d.host() < 0 || h[i].host() != d.host():
		case was == freezes && (d.kind() == goesOn || d.kind() >= freezes), was == isCut && d.kind() >= isCut:
			return false
		case d.kind() == isLate && was == goesOn:
			return true
		case d.kind() == isLate && was == isLate, d.kind() == dies && was == dies && i == last-1:
			return false
		}
	}
	return true
}

func (h history) anyIdle() bool {
	for i := range h {
		if h.idle(i) {
			return true
		}
	}
	return false
}

// idle reports whether a deed changes nothing because of those that follow.
func (h history) idle(i int) bool {
	d := h[i]
	for _, next := range h[i+1:] {
		switch d.kind() {
		case freezes: // it holds up clients' calls
			if next.host() == d.host() && next.kind() >= takesOne && next.kind() <= settles {
				return false
			}
		case isCut, isLate:
			if next.host() == d.host() && next.kind() == goesOn {
				return false
			}
		case flushes, restores: // another one takes its place
			if next == flushes || next == restores {
				return true
			}
			if next == waits || next.kind() == goesOn {
				return false
			}
		}
	}
	return d.kind() >= freezes
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
func (w *world) playDeeds(deeds history) {
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
	h := w.hosts[d.host()]
	switch d.kind() {
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
		h.acquireAll(h.call(), []quota.Ask{{Request: r, Charges: []quota.Charge{{Limit: "window", Units: units}}}})
	})
}

// ask has a client ask a host for something, and the host go on up to its first call of the store.
func (w *world) ask(h *simHost, f func()) {
	if t := h.do(f); w.now >= h.frozen {
		h.goOn(t)
	}
}
