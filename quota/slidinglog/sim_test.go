package slidinglog_test

import (
	"fmt"
	"iter"
	"maps"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/seedtest"
)

// TestSimulation plays histories of several hosts on one store: calls are lost, late and in
// races, hosts freeze, die, are cloned and lose their files, the store is flushed, restored
// and fails over, clocks step. Each history ends in peace, in which all that was told must
// have come back.
//
// What it does not play: client limits, which have stores and a suite of their own; limits that are not enforced, the
// reserve, and costs per limit, which ledgertest holds against a model; the goroutines of a ledger, which it takes the
// place of; another store, and a person who removes records from the middle of a log, which have tests of their own;
// and whether a host that is always slower than the others is served, which TestADistantHostGetsItsTurn shows.
func TestSimulation(t *testing.T) {
	seedtest.SkipUnderRace(t)
	n, seed := seedtest.Long(t, 4000), seedtest.Seed(t, 1)
	seeds := func(yield func(uint64) bool) {
		for i := uint64(0); i < uint64(n) && yield(seed+i); i++ {
		}
	}
	bad, failed := playAll(t, seeds, func(seed uint64, idle routines) *world {
		w := oddWorld(seed, idle, false)
		w.play()
		return w
	})
	if failed != "" {
		reportHistory(t, oddWorld, bad, failed)
	}
}

// playAll plays histories, one on each processor at a time, until one fails. It returns that one, and what
// was wrong.
func playAll[H any](t *testing.T, histories iter.Seq[H], play func(H, routines) *world) (bad H, failed string) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // its garbage is much, and lives shortly
	next, stop := iter.Pull(histories)
	defer stop()
	var (
		mu     sync.Mutex // guards next, what is returned, and what follows
		played int
		total  simCounts
	)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			var idle routines
			for {
				mu.Lock()
				h, more := next()
				more = more && failed == ""
				mu.Unlock()
				if !more {
					return
				}
				w := play(h, idle)
				idle = w.routines
				mu.Lock()
				played++
				total.add(w.counts)
				if w.failed != "" {
					bad, failed = h, w.failed
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	t.Logf("%d histories: %s", played, strings.Trim(fmt.Sprintf("%+v", total), "{}"))
	return bad, failed
}

// TestPastHistories plays histories that once showed a defect.
func TestPastHistories(t *testing.T) {
	for _, seed := range []uint64{
		2,    // a host that has not read the whole log grants offline
		7,    // a host counts as missing although it still writes; another host puts back a grant without an answer
		8,    // a call waits for a lock, or loses races, until its deadline, and counts as an outage
		840,  // the store drops the record of a loss, and with it the quiet period, when all that was lost has expired
		1888, // a host whose disk was full in a quiet period grants offline, though the store answers

		920058111,  // a host drops records in a quiet period, which looks like a hole to one with a longer window
		920171412,  // the same, of which one stands later because the clock has stepped
		920260229,  // a host that has started again drops entries, and does not say so
		930005350,  // a host grants though it has just found the store down, beside a grant offline
		950009382,  // a record stands later than its writer thought, so the store drops more than the record says
		960018404,  // a host has a longer window since it was granted a request twice, so it counts both
		1000082838, // a host has forgotten one that was silent for long, and comes back
		940001016,  // a call ends in the middle of reading a lost log, and the host grants before it has declared the loss

		920023771, // entries that are put back stand so much later that the record before them has expired, which looks like a hole
	} {
		w := newWorld(seed, nil, false)
		if w.play(); w.failed != "" {
			reportHistory(t, newWorld, seed, w.failed)
		}
	}
	for _, seed := range []uint64{
		840360204,  // a settlement makes room for a grant in its record, and one of an outage has the greater id
		4177783160, // a closing is made though its caller is gone, a reset voids it, and the caller makes it again
		3800117665, // a reset whose answer is lost is appended again, behind what others were granted, and the clock steps back
	} {
		w := oddWorld(seed, nil, false)
		if w.play(); w.failed != "" {
			reportHistory(t, oddWorld, seed, w.failed)
		}
	}
}

// A distant host whose calls lose each race against a near one asks for its turn, and gets it.
func TestADistantHostGetsItsTurn(t *testing.T) {
	w := newWorld(1, nil, false)
	w.temper, w.mixed, w.peace, w.store.Page, w.oracle = far, false, true, 0, newOracle(w)
	near, distant := w.addHost(ledgertest.NewMemFile()), w.addHost(ledgertest.NewMemFile())
	near.trip, distant.trip = 3, 20
	w.calm()
	grants := 0
	acquire := func(h *simHost) *task {
		asks := []quota.Ask{{Request: quota.Request{Credential: "api", Operation: "one", Count: 1}, Charges: []quota.Charge{{Limit: "window", Units: 1}}}}
		return h.do(func() {
			if d, err := h.ledger.Acquire(h.ctx, h.c, asks); err == nil && d[0].Granted() {
				grants++
			}
		})
	}
	began, of := w.now, acquire(distant)
	for ; of.f != nil && w.now < began+5_000; w.now++ {
		if len(near.does) == 0 {
			acquire(near)
		}
		for _, h := range w.hosts {
			if next := h.next(); next != nil {
				h.goOn(next)
			}
		}
	}
	if took := w.now - began; took > 250 || grants < int(took/10) {
		t.Errorf("a distant host has waited %d ms, and %d units were granted meanwhile", took, grants)
	}
	for _, h := range w.hosts {
		h.end(false)
	}
}

// A beginning is how a history begins: newWorld or oddWorld.
type beginning func(seed uint64, idle routines, traces bool) *world

// reportHistory reports a history that failed, and what it fails with at least.
func reportHistory(t *testing.T, begin beginning, seed uint64, failed string) {
	t.Helper()
	w := begin.shrunk(seed)
	t.Errorf("seed %d: %s\nWith %d of %d faults and calls: %s\n%s",
		seed, failed, w.deeds-len(w.without), w.deeds, w.failed, strings.Join(w.trace, "\n"))
}

// shrunk plays a history that fails, without the faults and calls that it fails without too.
func (begin beginning) shrunk(seed uint64) *world {
	play := func(without map[int]bool, traces bool) *world {
		w := begin(seed, nil, traces)
		w.without = without
		w.play()
		return w
	}
	without, deeds, plays := make(map[int]bool), play(nil, false).deeds, 0
	for size := max(1, deeds/2); size > 0; size /= 2 {
		for from := 1; from <= deeds && plays < 300; from, plays = from+size, plays+1 { // one in which hosts never agree is long
			fewer := maps.Clone(without)
			for i := from; i < from+size; i++ {
				fewer[i] = true
			}
			if w := play(fewer, false); w.failed != "" {
				without, deeds = fewer, w.deeds
			}
		}
	}
	maps.DeleteFunc(without, func(i int, _ bool) bool { return i > deeds })
	return play(without, true)
}
