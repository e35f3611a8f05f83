package slidinglog_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

// A world is several hosts on one store, in a time of its own. It runs the ledger as it runs
// in production, but for the goroutines: what a host does is a coroutine, which stands still
// at each call of the store until the scheduler goes on with it. One seed is one history.
type world struct {
	rand   *rand.Rand
	now    int64 // in ms since the Unix epoch, as it is
	offset int64 // of the store's clock
	store  *ledgertest.SimStore
	past   []ledgertest.SimSnapshot // older copies of the store
	hosts  []*simHost
	routines
	late  []lateCall
	names int
	steps int

	deeds   int          // faults, and calls of clients
	without map[int]bool // those of them that are left out

	warTime   int64 // how long there are faults and clients
	temper    temper
	nextFault int64
	peace     bool // nothing is lost any more
	oracle    oracle
	counts    simCounts
	trace     []string // what happened, if it is wanted
	traces    bool
	failed    string // what was found wrong; the first thing
}

// simCounts say what a history was made of.
type simCounts struct {
	grants, away, denials, refusals, replays, settles, resets   int
	loans, underLoans                                           int
	losses, races, freezes, kills, crashes, cuts, clocks        int
	newHosts, clones, lostFiles, fullDisks, reloads, lost, late int
	faults                                                      int
}

func (c *simCounts) add(o simCounts) {
	c.grants += o.grants
	c.away += o.away
	c.denials += o.denials
	c.refusals += o.refusals
	c.replays += o.replays
	c.settles += o.settles
	c.resets += o.resets
	c.loans += o.loans
	c.underLoans += o.underLoans
	c.losses += o.losses
	c.races += o.races
	c.freezes += o.freezes
	c.kills += o.kills
	c.crashes += o.crashes
	c.cuts += o.cuts
	c.clocks += o.clocks
	c.newHosts += o.newHosts
	c.clones += o.clones
	c.lostFiles += o.lostFiles
	c.fullDisks += o.fullDisks
	c.reloads += o.reloads
	c.lost += o.lost
	c.late += o.late
	c.faults += o.faults
}

// A lateCall is carried out after its caller was told that nobody knows.
type lateCall struct {
	at    int64
	calls []slidinglog.Call
	by    *simHost
}

// A simHost is a host, with what it does now.
type simHost struct {
	w      *world
	name   string
	file   *ledgertest.MemFile
	ledger *slidinglog.Ledger
	rand   *rand.Rand // of its process
	c      *quota.Credential
	cancel context.CancelFunc
	ctx    context.Context

	does      *routine // what it does now; nil: nothing
	wake      int64    // it does not go on before this time
	cutUntil  int64    // it cannot reach the store
	frozen    int64    // until when
	followed  int64
	folded    int64
	saved     int64 // when that was done last, with success: all before is in the tables
	fullUntil int64
	gone      bool // its file is lost, or it left for good
}

const (
	simQuiet = 600 * time.Millisecond
	simAllow = 15 // units of an outage
	healTime = 16_000
)

// A temper is what kind of trouble a history has most of.
type temper int

const (
	anything temper = iota
	outages         // the store loses nothing, and cannot be reached at times
	resets          // operators forget what was spent
	ages            // half a minute passes now and then, and the windows are longer
	mostTemper
)

var errCut = fmt.Errorf("%w: cut off", quota.ErrUnavailable)

// credential is what hosts count: a sliding limit, a share of it, and a limit of the hour
// that refuses nothing in its last seconds; where ages pass, only the first two, for longer.
func (w *world) credential() *quota.Credential {
	c := &quota.Credential{
		Name: "api",
		Limits: []quota.Limit{
			{Name: "window", Units: 60, Reserve: 10, Window: quota.Sliding(w.window())},
			{Name: "share", Units: 30, Window: quota.Sliding(w.window() / 2), Jobs: []string{"backfill"}},
			{Name: "hour", Units: 45, Window: quota.Calendar(quota.Hour, time.UTC), Lift: 4 * time.Second},
		},
		Operations: map[string]quota.Cost{"one": {Every: 1}, "seven": {Every: 7}, "twenty": {Every: 20}},
	}
	switch w.temper {
	case outages:
		c.Limits[2].Units = 25
	case ages:
		c.Limits = c.Limits[:2]
	}
	return c.Prepared()
}

// window is that of the sliding limit.
func (w *world) window() time.Duration {
	if w.temper == ages {
		return 70 * time.Second
	}
	return 8 * time.Second
}

func simPolicies() map[string]slidinglog.Policy {
	return map[string]slidinglog.Policy{"api": {Open: map[string]bool{"one": true, "seven": true}, Units: simAllow}}
}

func newWorld(seed uint64, idle routines, traces bool) *world {
	w := &world{routines: idle, rand: rand.New(rand.NewPCG(seed, 1)), traces: traces}
	w.now = time.Date(2026, 11, 22, 10, 59, 48, 0, time.UTC).UnixMilli() + w.rand.Int64N(10_000)
	w.store = &ledgertest.SimStore{Clock: func() int64 { return w.now + w.offset }}
	w.temper, w.warTime = temper(w.rand.IntN(int(mostTemper))), 9000
	if w.rand.IntN(5) > 0 {
		w.warTime = 3000
	}
	w.nextFault = w.now + w.warTime/6
	w.oracle = newOracle(w)
	for range 3 + w.rand.IntN(2) {
		w.addHost(ledgertest.NewMemFile())
	}
	return w
}

// Read draws what the host's process draws. What one draws that has been killed changes nothing
// else.
func (h *simHost) Read(b []byte) (int, error) {
	var word [8]byte
	for i := range b {
		if i%8 == 0 {
			binary.LittleEndian.PutUint64(word[:], h.rand.Uint64())
		}
		b[i] = word[i%8]
	}
	return len(b), nil
}

func (w *world) say(format string, args ...any) {
	if w.traces {
		w.trace = append(w.trace, fmt.Sprintf("%7.3f ", float64(w.now%1_000_000)/1000)+fmt.Sprintf(format, args...))
	}
}

func (w *world) fail(format string, args ...any) {
	if w.failed == "" {
		w.failed = fmt.Sprintf(format, args...)
		w.say("WRONG: %s", w.failed)
	}
}

func (w *world) addHost(file *ledgertest.MemFile) *simHost {
	w.names++
	h := &simHost{w: w, name: string(rune('A'+(w.names-1)%26)) + strings.Repeat("'", (w.names-1)/26), file: file, c: w.credential()}
	w.hosts = append(w.hosts, h)
	h.begin()
	return h
}

// begin starts the host's process.
func (h *simHost) begin() {
	h.rand = rand.New(rand.NewPCG(h.w.rand.Uint64(), 1))
	h.ctx, h.cancel = context.WithCancel(context.Background())
	ledger, err := slidinglog.Open(slidinglog.Config{
		File: h.file, Store: hostStore{h.w.store, h}, Label: h.name, Quiet: simQuiet, Manual: true, Random: h,
		Credentials: h.creds(), Policies: simPolicies(),
		Clock: func() time.Time { return time.UnixMilli(h.w.now) },
		Pause: func(_ context.Context, d time.Duration) { h.rest(d.Milliseconds()) },
	})
	if err != nil {
		h.w.fail("host %s does not start: %v", h.name, err)
		return
	}
	h.ledger, h.followed, h.folded = ledger, 0, h.w.now
}

// end ends the host's process, wherever it is.
func (h *simHost) end(machine bool) {
	h.file = h.file.Crash(machine, h.w.rand.IntN(3))
	h.cancel()
	for h.does != nil {
		h.goOn()
	}
	h.ledger = nil
}

// do begins something, which goes on as the scheduler has it.
func (h *simHost) do(f func()) {
	h.does, h.wake = h.w.routines.take(f), h.w.now
}

// goOn lets the host do what it does up to where it stands still next.
func (h *simHost) goOn() {
	if h.does.goOn(); h.does.f == nil {
		h.w.routines.put(h.does)
		h.does = nil
	}
}

// rest stands still for some ms. It reports whether the process lives on.
func (h *simHost) rest(ms int64) bool {
	if h.ctx.Err() != nil {
		return false
	}
	h.wake = h.w.now + ms
	h.does.yield(struct{}{})
	return h.ctx.Err() == nil
}

// A routine does one thing after the other. It stands still in the middle of them, and its
// stack, once grown, serves all histories.
type routine struct {
	f     func() // nil: it has done all
	next  func() (struct{}, bool)
	yield func(struct{}) bool
}

func (r *routine) goOn() { r.next() }

// routines are those that do nothing.
type routines []*routine

func (l *routines) take(f func()) *routine {
	if n := len(*l); n > 0 {
		r := (*l)[n-1]
		*l, r.f = (*l)[:n-1], f
		return r
	}
	r := &routine{f: f}
	r.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		for r.yield = yield; ; yield(struct{}{}) {
			r.f()
			r.f = nil
		}
	})
	return r
}

func (l *routines) put(r *routine) { *l = append(*l, r) }

// A hostStore is the store as one host reaches it.
type hostStore struct {
	*ledgertest.SimStore
	h *simHost
}

// Append implements slidinglog.Store: the call takes its time, and its answer may be lost.
func (s hostStore) Append(_ context.Context, calls []slidinglog.Call) []slidinglog.Outcome {
	h, w := s.h, s.h.w
	unknown := func(status slidinglog.Status) []slidinglog.Outcome {
		outcomes := make([]slidinglog.Outcome, len(calls))
		for i := range outcomes {
			outcomes[i] = slidinglog.Outcome{Status: status, Err: errCut}
		}
		return outcomes
	}
	if h.ctx.Err() != nil || !h.rest(w.rand.Int64N(3)) {
		return unknown(slidinglog.Unknown)
	}
	if w.now < h.cutUntil {
		h.rest(20)
		return unknown(slidinglog.Failed)
	}
	for _, c := range calls {
		if len(c.Body) > 0 && !w.peace && w.rand.IntN(33) == 0 {
			w.late = append(w.late, lateCall{w.now + w.rand.Int64N(3000), slices.Clone(calls), h})
			w.counts.late++
			h.rest(20)
			return unknown(slidinglog.Unknown)
		}
	}
	outcomes := w.carryOut(h, calls)
	lost := !w.peace && w.rand.IntN(20) == 0
	if !h.rest(w.rand.Int64N(3)) || lost {
		w.counts.lost++
		h.rest(20)
		return unknown(slidinglog.Unknown)
	}
	for i, outcome := range outcomes {
		if outcome.Status == slidinglog.Done {
			w.oracle.answered(h, slidinglog.Placed{At: outcome.At, Body: calls[i].Body})
		}
	}
	return outcomes
}

// carryOut has the store carry out calls, and the oracle look at them. h is nil where the
// caller does not wait any more.
func (w *world) carryOut(h *simHost, calls []slidinglog.Call) []slidinglog.Outcome {
	outcomes := make([]slidinglog.Outcome, len(calls))
	for i := range calls {
		before := w.store.Records(calls[i].Credential)
		outcomes[i] = w.store.Do(&calls[i])
		switch outcomes[i].Status {
		case slidinglog.Done:
			w.oracle.appended(h, before, slidinglog.Placed{At: outcomes[i].At, Body: calls[i].Body}, calls[i].Wipe)
		case slidinglog.Behind:
			if len(calls[i].Body) > 0 {
				w.counts.races++
			}
		}
	}
	return outcomes
}

// play plays a history: faults and clients, then peace.
func (w *world) play() {
	start := w.now
	for w.now < start+w.warTime && w.failed == "" {
		w.step(true)
	}
	w.heal()
	start = w.now
	for w.now < start+healTime && w.failed == "" && !w.agreed() {
		w.step(false)
	}
	if w.failed == "" {
		w.oracle.end()
	}
	for _, h := range w.hosts {
		if h.ledger != nil {
			h.end(false)
		}
	}
}

// agreed tells whether every host serves, and knows all of the log.
func (w *world) agreed() bool {
	end := w.store.End("api")
	for _, h := range w.hosts {
		if !h.gone && (h.does != nil || !h.ledger.Settled(h.c, end)) {
			return false
		}
	}
	return true
}

// happens tells whether the next fault, or the next call of a client, is not left out.
func (w *world) happens() bool {
	w.deeds++
	return !w.without[w.deeds]
}

// step lets one host go on, or time pass.
func (w *world) step(war bool) {
	w.steps++
	if war && w.now >= w.nextFault {
		w.nextFault = w.now + w.rand.Int64N(w.warTime/4)
		if w.happens() {
			w.strike()
		}
		if w.rand.IntN(3) == 0 && w.happens() {
			w.strike()
		}
	}
	for len(w.late) > 0 && w.late[0].at <= w.now {
		call := w.late[0]
		w.late = w.late[1:]
		w.say("late call of %s", call.by.name)
		w.carryOut(nil, call.calls)
	}
	var can []*simHost
	for _, h := range w.hosts {
		if !h.gone && h.ledger != nil && w.now >= h.frozen && (h.does == nil || w.now >= h.wake) {
			can = append(can, h)
		}
	}
	if len(can) == 0 {
		w.now++
		return
	}
	h := can[w.rand.IntN(len(can))]
	if h.does != nil {
		h.goOn()
		return
	}
	h.begins(war)
	if w.rand.IntN(2) == 0 {
		w.now += w.rand.Int64N(25)
	}
}

// begins has an idle host do what is due, or what a client asks for.
func (h *simHost) begins(war bool) {
	w := h.w
	h.file.Full = w.now < h.fullUntil
	switch {
	case w.now-h.followed >= (simQuiet / 12).Milliseconds():
		h.followed = w.now
		h.do(func() { h.ledger.Follow(h.ctx) })
	case w.now-h.folded >= 1000:
		h.folded = w.now
		if err := h.ledger.Fold(); err == nil {
			h.saved = w.now
		} else if !errors.Is(err, quota.ErrUnavailable) {
			w.fail("host %s cannot fold: %v", h.name, err)
		}
	case war && w.rand.IntN(12) == 0 && w.happens():
		h.do(func() { h.client() })
	default:
		w.now += 2
	}
}
