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
// in production, but for the goroutines: each thing that a host does is a coroutine, which stands
// still at each call of the store, and where it waits for another one, until the scheduler goes on
// with it. One seed is one history.
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
	can   []*simHost // those that can go on

	deeds   int          // faults, and calls of clients
	without map[int]bool // those of them that are left out

	afterwards func() // what follows; nil: peace, in which the hosts agree
	warTime    int64  // how long there are faults and clients
	temper     temper
	mixed      bool       // hosts have different windows
	odd        *rand.Rand // what the oddities draw from; nil: there are none
	roomy      bool       // little is denied
	grain      int64      // ms of the store's clock that are one
	beside     bool       // the hosts share another credential, too
	damaged    bool       // the log ends with a record that no host can read
	repairAt   int64      // when an operator removes that log
	trip       int64      // ms that a call of the store takes at most, one way, of a host that is far from it
	still      bool       // answers are lost, or late, only where a host is cut off
	nextFault  int64
	peace      bool // nothing is lost any more
	oracle     oracle
	counts     simCounts
	trace      []string // what happened, if it is wanted
	traces     bool
	failed     string // what was found wrong; the first thing
}

// simCounts say what a history was made of.
type simCounts struct {
	grants, away, denials, refusals, replays, settles, resets   int
	losses, races, freezes, kills, crashes, cuts, clocks        int
	newHosts, clones, lostFiles, fullDisks, reloads, lost, late int
	olderFiles, waits, expired, corrections, retries            int
	faults                                                      int
	slack                                                       int // appends behind grants of other hosts
	frozen                                                      int // calls that were made again after a freeze
}

func (c *simCounts) add(o simCounts) {
	c.grants += o.grants
	c.away += o.away
	c.denials += o.denials
	c.refusals += o.refusals
	c.replays += o.replays
	c.settles += o.settles
	c.resets += o.resets
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
	c.olderFiles += o.olderFiles
	c.waits += o.waits
	c.expired += o.expired
	c.corrections += o.corrections
	c.retries += o.retries
	c.faults += o.faults
	c.slack += o.slack
	c.frozen += o.frozen
}

// A lateCall is carried out after its caller was told that nobody knows.
type lateCall struct {
	at    int64
	calls []slidinglog.Call
	by    *simHost
	c     *quota.Credential // as its caller counted
}

// A task is one thing that a host does. Several go on at once.
type task struct {
	*routine
	wake    int64             // it does not go on before this time
	c       *quota.Credential // as the host counted when it began
	trouble bool              // the host has had trouble since then
	decided chan struct{}     // closed when another call has decided what this one waits for
}

// A simHost is a host, with what it does now.
type simHost struct {
	w      *world
	name   string
	file   *ledgertest.MemFile
	ledger *slidinglog.Ledger
	rand   *rand.Rand // of its process
	trip   int64      // ms that a call of the store takes at most, one way
	c      *quota.Credential
	had    []*quota.Credential // what c was before
	cancel context.CancelFunc
	ctx    context.Context

	does       []*task
	at         *task   // of does, what goes on now; nil: none
	asks       *asking // in TestLiveness
	follows    bool    // one of does follows the logs
	older      *ledgertest.MemFile
	olderAt    int64 // when that was its file
	olderSaved int64 // what saved was then
	olderRead  bool  // what hasRead was then
	cutUntil   int64 // it cannot reach the store
	frozen     int64 // until when
	late       bool  // so its next record will be
	followed   int64
	folded     int64
	saved      int64 // when that was done last, with success: all before is in the tables
	fullUntil  int64
	gone       bool // its file is lost, or it left for good

	trouble bool // a call of the store has failed, or has got no answer, since the host served last
	atStart bool // its last call was at the beginning of the log
	readAll bool // it has read the log to its end since it began to
	hasRead bool // so does its file say, or may
}

const (
	simAllow = 15 // units of an outage
	healTime = 120_000
	simTasks = 4 // that a host does at once

	absentPeriods = 10 // quiet times, until a host that writes nothing is missing
)

// A temper is what kind of trouble a history has most of.
type temper int

const (
	anything temper = iota
	outages         // the store loses nothing, and cannot be reached at times
	resets          // operators forget what was spent
	ages            // half a minute passes now and then, and the windows are longer
	windows         // hosts have different windows, and change them
	far             // a call takes long, and pages are short, so a log is put back for longer than hosts wait
	small           // the hosts share three units: see TestSmallWorlds
)

// farShare is how many histories there are for one that is far, which takes as long as twenty others.
const farShare = 20

var errCut = fmt.Errorf("%w: cut off", quota.ErrUnavailable)

// credential is what hosts count: a sliding limit, a share of it, and a limit of the
// hour; where ages pass, only the first two, for longer.
func (w *world) credential() *quota.Credential {
	c := &quota.Credential{
		Name: "api",
		Limits: []quota.Limit{
			{Name: "window", Units: 60, Reserve: 10, Window: quota.Sliding(w.window())},
			{Name: "share", Units: 30, Window: quota.Sliding(w.window() / 2), Jobs: []string{"backfill"}},
			{Name: "hour", Units: 45, Window: quota.Calendar(quota.Hour, time.UTC)},
		},
		Operations: map[string]quota.Cost{"one": {Every: 1}, "seven": {Every: 7}, "twenty": {Every: 20}, "closed": {Every: 2}},
	}
	switch w.temper {
	case outages, resets: // at most one call of many fits
		c.Limits[2].Units = 15
	case ages:
		c.Limits = c.Limits[:2]
	case small:
		c.Limits = []quota.Limit{{Name: "window", Units: 3, Window: c.Limits[0].Window}}
	case far: // many small grants
		c.Limits[0].Units, c.Limits[1].Units = 600, 400
		c.Limits = c.Limits[:2]
	}
	for i := range c.Limits {
		if w.roomy {
			c.Limits[i].Units *= 10
		}
	}
	return c.Prepared()
}

// besideCredential is the other one that hosts may share.
func besideCredential() *quota.Credential {
	c := &quota.Credential{Name: "beside", Limits: []quota.Limit{{Name: "window", Units: 1000, Window: quota.Sliding(time.Hour)}},
		Operations: map[string]quota.Cost{"one": {Every: 1}}}
	return c.Prepared()
}

// pace is how many times a host has nothing to do for each call of a client.
func (w *world) pace() int {
	if w.temper == far {
		return 4
	}
	return 12
}

// quiet is the quiet period after a loss.
func (w *world) quiet() time.Duration {
	if w.temper == far {
		return 150 * time.Millisecond
	}
	return 600 * time.Millisecond
}

// window is that of the sliding limit.
func (w *world) window() time.Duration {
	switch w.temper {
	case ages:
		return 70 * time.Second
	case far:
		return 120 * time.Second
	}
	return 8 * time.Second
}

// configured is the credential as a host counts it.
func (w *world) configured() *quota.Credential {
	c := w.credential()
	if w.mixed {
		c.Limits[0].Window = quota.Sliding(w.window() * time.Duration(2+w.rand.IntN(3)) / 2)
		c = c.Prepared()
	}
	return c
}

func simPolicies() map[string]slidinglog.Policy {
	return map[string]slidinglog.Policy{"api": {Open: map[string]bool{"one": true, "seven": true}, Units: simAllow}}
}

func newWorld(seed uint64, idle routines, traces bool) *world {
	w := &world{routines: idle, rand: rand.New(rand.NewPCG(seed, 1)), traces: traces}
	w.now = time.Date(2026, 11, 22, 10, 59, 48, 0, time.UTC).UnixMilli() + w.rand.Int64N(10_000)
	w.store, w.grain = &ledgertest.SimStore{Clock: func() int64 { return (w.now + w.offset) / w.grain * w.grain }}, 1
	w.temper, w.warTime = temper(w.rand.IntN(int(far))), 9000
	if w.rand.IntN(farShare) == 0 {
		w.temper = far
	}
	if w.rand.IntN(5) > 0 {
		w.warTime = 3000
	}
	w.mixed = w.temper == windows || w.temper == ages && w.rand.IntN(2) == 0
	w.trip, w.still = 3, w.rand.IntN(3) == 0
	if w.temper == far {
		w.trip, w.warTime = 10+w.rand.Int64N(90), 7_000
	}
	if w.rand.IntN(2) == 0 {
		w.store.Page = 1 + w.rand.IntN(5)
	}
	w.nextFault = w.now + w.warTime/6
	if w.temper == far { // first a long log
		w.nextFault = w.now + w.warTime/2
	}
	return w
}

// oddWorld returns a world in which rare things happen more often than in newWorld.
func oddWorld(seed uint64, idle routines, traces bool) *world {
	w := newWorld(seed, idle, traces)
	w.odd = rand.New(rand.NewPCG(seed, 2))
	w.roomy = w.odd.IntN(4) == 0
	w.beside = w.odd.IntN(8) == 0 && w.temper != far // which is busy with one log all the time
	if w.odd.IntN(8) == 0 {                          // so logs that have fallen back get the same ids again
		w.grain = 40
	}
	return w
}

// people adds the hosts that are there at the beginning.
func (w *world) people() {
	w.oracle = newOracle(w)
	n := 3 + w.rand.IntN(2)
	if w.temper == far {
		n = 1 + w.rand.IntN(2)
	}
	for range n {
		w.addHost(ledgertest.NewMemFile())
	}
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
	h := &simHost{w: w, name: string(rune('A'+(w.names-1)%26)) + strings.Repeat("'", (w.names-1)/26), file: file, c: w.configured(), trip: w.trip}
	w.hosts = append(w.hosts, h)
	h.begin()
	return h
}

// begin starts the host's process.
func (h *simHost) begin() {
	h.rand = rand.New(rand.NewPCG(h.w.rand.Uint64(), 1))
	h.ctx, h.cancel = context.WithCancel(context.Background())
	ledger, err := slidinglog.Open(slidinglog.Config{
		File: h.file, Store: hostStore{h.w.store, h}, Label: h.name, Quiet: h.w.quiet(), Manual: true, Random: h,
		Credentials: h.creds(), Policies: simPolicies(),
		Clock: func() time.Time { return time.UnixMilli(h.w.now) },
		Pause: func(_ context.Context, d time.Duration) { h.rest(d.Milliseconds()) },
	})
	if err != nil {
		h.w.fail("host %s does not start: %v", h.name, err)
		return
	}
	h.ledger, h.followed, h.folded, h.follows = ledger, 0, h.w.now, false
	h.trouble, h.readAll, h.atStart = false, h.hasRead, true // its file may have read an empty log
	few := 1000
	switch {
	case h.w.temper == far:
		few = 1
	case h.rand.IntN(2) == 0:
		few = 1 + h.rand.IntN(3)
	}
	ledger.SetMaxUnfolded(10 * few)
	ledger.SetMaxLate(few)
	ledger.SetWithin(func(_ context.Context, d time.Duration) (context.Context, context.CancelFunc) {
		h.w.counts.frozen++
		return deadline{h.ctx, h, h.w.now + d.Milliseconds()}, func() {}
	})
	ledger.SetAwait(func(ctx context.Context, lock, decided chan struct{}) (locked, ends bool) {
		for h.w.counts.waits++; ctx.Err() == nil; {
			select {
			case <-decided:
				return false, false
			default:
			}
			select {
			case lock <- struct{}{}:
				return true, false
			default:
			}
			t := h.at
			if t.decided = decided; !h.rest(1) { // the call that decides this one ends with the process
				t.yield(struct{}{})
			}
			t.decided = nil
		}
		return false, true
	})
}

// end ends the host's process, wherever it is.
func (h *simHost) end(machine bool) {
	h.file = h.file.Crash(machine, h.w.rand.IntN(3))
	h.cancel()
	for n := 0; len(h.does) > 0; n++ { // in turns: one may wait for another
		h.goOn(h.does[n%len(h.does)])
	}
	h.ledger = nil
}

// do begins something, which goes on as the scheduler has it.
func (h *simHost) do(f func()) *task {
	t := &task{wake: h.w.now, trouble: h.trouble}
	t.routine = h.w.routines.take(func() {
		t.c = h.c
		f()
	})
	h.does = append(h.does, t)
	return t
}

// goOn lets the host do one thing up to where it stands still next.
func (h *simHost) goOn(t *task) {
	h.at = t
	t.goOn()
	h.at = nil
	if h.trouble && h.ctx.Err() == nil && h.ledger.Serves(h.c) {
		h.trouble = false
	}
	if t.f == nil {
		h.w.routines.put(t.routine)
		h.does = slices.DeleteFunc(h.does, func(other *task) bool { return other == t })
	}
	for _, other := range slices.Clone(h.does) { // each call ends as soon as it is decided, whichever did it
		select {
		case <-other.decided:
			h.goOn(other)
		default:
		}
	}
}

// rest stands still for some ms. It reports whether the process lives on.
func (h *simHost) rest(ms int64) bool {
	if h.ctx.Err() != nil {
		return false
	}
	h.at.wake = h.w.now + ms
	h.at.yield(struct{}{})
	return h.ctx.Err() == nil
}

// A deadline is a context that ends at a time of the world, or with the process.
type deadline struct {
	context.Context
	h  *simHost
	at int64
}

// Err implements context.Context.
func (d deadline) Err() error {
	if d.Context.Err() == nil && d.h.w.now >= d.at {
		return context.DeadlineExceeded
	}
	return d.Context.Err()
}

// Deadline implements context.Context, as far as a ledger needs it: has it passed long ago? The process was frozen then.
func (d deadline) Deadline() (time.Time, bool) {
	if d.h.w.now-d.at > 62 {
		return time.Now().Add(-time.Hour), true
	}
	return time.Now().Add(time.Hour), true
}

// call returns a context for a client's call.
func (h *simHost) call() context.Context {
	w := h.w
	patience := int64(1_000_000)
	if w.temper == small {
		patience = 250
	} else if w.rand.IntN(2) == 0 {
		patience = 2*h.trip + w.rand.Int64N(250)
	}
	return deadline{h.ctx, h, w.now + patience}
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

// Append implements slidinglog.Store: the call takes its time, and its answer may be lost, or come after the
// caller's deadline.
func (s hostStore) Append(ctx context.Context, calls []slidinglog.Call) []slidinglog.Outcome {
	h, w := s.h, s.h.w
	unknown := func(status slidinglog.Result) []slidinglog.Outcome {
		h.trouble = true
		for _, t := range h.does {
			t.trouble = true
		}
		outcomes := make([]slidinglog.Outcome, len(calls))
		for i := range outcomes {
			outcomes[i] = slidinglog.Outcome{Result: status, Err: errCut}
		}
		return outcomes
	}
	c := h.at.c
	for _, call := range calls {
		if call.Credential != "api" {
			continue
		}
		begins := call.At.IsZero()
		h.readAll, h.atStart = h.readAll && (h.atStart || !begins), begins
	}
	if h.ctx.Err() != nil || !h.rest(w.rand.Int64N(h.trip)) {
		return unknown(slidinglog.Unknown)
	}
	if w.now < h.cutUntil {
		h.rest(20)
		return unknown(slidinglog.Failed)
	}
	for _, call := range calls {
		if len(call.Body) > 0 && !w.peace && (h.late || !w.still && w.rand.IntN(33) == 0) {
			h.late = false
			w.late = append(w.late, lateCall{w.now + w.rand.Int64N(3000), slices.Clone(calls), h, c})
			w.counts.late++
			h.rest(20)
			return unknown(slidinglog.Unknown)
		}
	}
	outcomes := w.carryOut(h, c, calls)
	lost := !w.peace && !w.still && w.rand.IntN(20) == 0
	if !h.rest(w.rand.Int64N(h.trip)) || lost || ctx.Err() != nil {
		if ctx.Err() != nil {
			w.counts.expired++
		} else {
			w.counts.lost++
			h.rest(20)
		}
		return unknown(slidinglog.Unknown)
	}
	for i, outcome := range outcomes {
		if calls[i].Credential != "api" {
			continue
		}
		if outcome.Result == slidinglog.Done {
			w.oracle.answered(h, slidinglog.Placed{At: outcome.At, Body: calls[i].Body})
		}
		read := outcome.Result == slidinglog.Done || outcome.Result == slidinglog.End || outcome.Result == slidinglog.Behind && !outcome.More
		h.readAll, h.hasRead = h.readAll || read, h.hasRead || read
	}
	return outcomes
}

// carryOut has the store carry out calls of a host that counts c, and the oracle look at them. h is nil
// where the caller does not wait any more.
func (w *world) carryOut(h *simHost, c *quota.Credential, calls []slidinglog.Call) []slidinglog.Outcome {
	outcomes := make([]slidinglog.Outcome, len(calls))
	for i := range calls {
		before := w.store.Records(calls[i].Credential)
		outcomes[i] = w.store.Do(&calls[i])
		if calls[i].Credential != "api" {
			continue
		}
		switch outcomes[i].Result {
		case slidinglog.Done:
			w.counts.slack += min(1, len(outcomes[i].Tail))
			if after := w.store.Records(calls[i].Credential); calls[i].Wipe {
				w.oracle.trimmed = nil
			} else {
				w.oracle.trimmed = append(w.oracle.trimmed, before[:len(before)+1-len(after)]...)
			}
			w.oracle.appended(h, c, before, slidinglog.Placed{At: outcomes[i].At, Body: calls[i].Body}, &calls[i])
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
	w.people()
	for start := w.now; w.now < start+w.warTime && w.failed == ""; {
		w.step(true)
	}
	if w.afterwards != nil {
		w.afterwards()
		return
	}
	w.end()
}

// calm goes on until the hosts agree.
func (w *world) calm() {
	for start := w.now; w.failed == "" && !w.agreed(); {
		w.step(false)
		if w.now > start+healTime {
			w.oracle.end() // which may say why
			w.fail("the hosts do not agree")
		}
	}
}

// end ends a history in peace.
func (w *world) end() {
	w.heal()
	w.calm()
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
	for _, h := range w.hosts {
		busy := len(h.does)
		if h.follows { // which distant hosts always do
			busy--
		}
		if !h.gone && busy > 0 {
			return false
		}
	}
	end := w.store.End("api")
	for _, h := range w.hosts {
		if !h.gone && !h.ledger.Settled(h.c, end) {
			return false
		}
		if !h.gone && w.beside && !h.ledger.Settled(besideCredential(), w.store.End("beside")) {
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
	if war && w.now >= w.nextFault {
		w.nextFault = w.now + w.rand.Int64N(w.warTime/4)
		if w.happens() {
			w.strike()
		}
		if w.rand.IntN(3) == 0 && w.happens() {
			w.strike()
		}
	}
	if w.damaged && w.now >= w.repairAt {
		w.repair()
	}
	for len(w.late) > 0 && w.late[0].at <= w.now {
		call := w.late[0]
		w.late = w.late[1:]
		w.say("late call of %s", call.by.name)
		w.carryOut(nil, call.c, call.calls)
	}
	can := w.can[:0]
	for _, h := range w.hosts {
		if !h.gone && h.ledger != nil && w.now >= h.frozen && (len(h.does) < simTasks || h.next() != nil) {
			can = append(can, h)
		}
	}
	if w.can = can; len(can) == 0 {
		w.now++
		return
	}
	h := can[w.rand.IntN(len(can))]
	if t := h.next(); t != nil && (len(h.does) == simTasks || w.rand.IntN(4) > 0) {
		h.goOn(t)
		return
	}
	if len(h.does) < simTasks {
		h.begins(war)
	}
	if w.rand.IntN(2) == 0 {
		w.now += w.rand.Int64N(25)
	}
}

// next returns something that the host does and that can go on; nil if there is nothing.
func (h *simHost) next() *task {
	if len(h.does) == 0 {
		return nil
	}
	from := h.w.rand.IntN(len(h.does))
	for i := range h.does {
		if t := h.does[(from+i)%len(h.does)]; h.w.now >= t.wake {
			return t
		}
	}
	return nil
}

// begins has a host do what is due, or what a client asks for.
func (h *simHost) begins(war bool) {
	w := h.w
	h.file.Full = w.now < h.fullUntil
	switch {
	case !h.follows && w.now-h.followed >= (w.quiet()/12).Milliseconds():
		h.follow()
	case w.now-h.folded >= 1000:
		h.fold()
	case war && w.rand.IntN(w.pace()) == 0 && w.happens():
		h.do(func() { h.client() })
	case len(h.does) == 0:
		w.now += 2
	}
}

// follow has the host follow its logs.
func (h *simHost) follow() {
	h.followed, h.follows = h.w.now, true
	h.do(func() {
		h.ledger.Follow(h.ctx)
		h.follows = false
	})
}

// fold has the host fold.
func (h *simHost) fold() {
	h.folded = h.w.now
	if err := h.ledger.Fold(); err == nil {
		h.saved = h.w.now
	} else if !errors.Is(err, quota.ErrUnavailable) {
		h.w.fail("host %s cannot fold: %v", h.name, err)
	}
}
