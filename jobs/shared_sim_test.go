package jobs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/seedtest"
	"quotad/regions"
)

// A shareWorld is some hosts and a store, in a time of its own. The share of each host runs as it does in
// production, but for the goroutines: what a host does is a coroutine, which stands still while it waits and
// while a call is under way. One seed is one history.
type shareWorld struct {
	rand   *rand.Rand
	now    time.Duration // since worldStart
	queue  []worldEvent  // in their order
	temper worldTemper

	values   map[string][]byte
	copies   []map[string][]byte // older states of the store
	offset   time.Duration       // of the store's clock
	silent   time.Duration       // until then the store answers nobody
	lossless bool                // it has lost nothing yet
	losses   int
	renewed  time.Duration   // when the run that holds the job was renewed last
	landed   map[string]bool // the claims that were written, by their runs
	copied   int             // of them, by an older copy
	cloned   bool            // a state directory was copied
	steps    int             // how often its clock was set

	hosts  []*worldHost
	peace  time.Duration // no trouble begins after this
	over   time.Duration
	drawn  int
	oracle worldOracle
	trace  []string
	traces bool
	failed string
}

var worldStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	worldPeriod = 20 * time.Second
	worldPass   = 2 * time.Second
	worldLease  = worldPeriod / 2
)

// A worldTemper is what kind of trouble a history has.
type worldTemper int

const (
	anything  worldTemper = iota
	silences              // the store cannot be reached at times; nothing else happens
	losses                // the store loses values; each host is up and reaches it
	hostClock             // the clocks of hosts are set
	clones                // state directories are copied, and hosts are killed
	deaths                // hosts are killed, frozen and cut off
	tempers
)

type worldEvent struct {
	at time.Duration
	do func()
}

// after has something happen, later than all else that happens at that time.
func (w *shareWorld) after(wait time.Duration, do func()) {
	at := w.now + max(wait, 0)
	i, _ := slices.BinarySearchFunc(w.queue, at+1, func(e worldEvent, at time.Duration) int { return cmp.Compare(e.at, at) })
	w.queue = slices.Insert(w.queue, i, worldEvent{at, do})
}

func (w *shareWorld) clock() time.Time {
	return worldStart.Add(w.now + w.offset).Truncate(time.Millisecond)
}

func (w *shareWorld) say(format string, args ...any) {
	if w.traces {
		w.trace = append(w.trace, fmt.Sprintf("%9.3f ", w.now.Seconds())+fmt.Sprintf(format, args...))
	}
}

func (w *shareWorld) fail(format string, args ...any) {
	if w.failed == "" {
		w.failed = fmt.Sprintf("at %.3f s: ", w.now.Seconds()) + fmt.Sprintf(format, args...)
		w.say("WRONG %s", w.failed)
	}
}

// chance is true once in n times.
func (w *shareWorld) chance(n int) bool { return w.rand.IntN(n) == 0 }

// between draws a duration.
func (w *shareWorld) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.rand.Int64N(int64(most-least)+1))
}

// A worldFile is what a host has on its disk.
type worldFile struct {
	host  string
	known sharedRecord
	marks map[regions.Region]bookmark
	last  *owed // the run that began last: if it has not ended, a start says that it died
}

// A worldHost is a host; its process may be down.
type worldHost struct {
	w      *shareWorld
	name   string
	file   worldFile
	wall   time.Duration // of its clock against the world's
	frozen time.Duration // until when
	cut    time.Duration // until when it cannot reach the store
	hurt   time.Duration // when it was frozen, cut off or killed last, until
	up     *worldProcess // nil: down
	starts int
}

// A worldProcess is a daemon. What it does stops with it.
type worldProcess struct {
	*worldHost
	share  *share
	stops  []func()
	run    string
	claims map[string]*claim // that are under way, by their runs
}

var errStopped = errors.New("the process was killed")

// goes runs something as a coroutine.
func (p *worldProcess) goes(do func(r *worldRoutine)) {
	r := &worldRoutine{worldProcess: p}
	next, stop := iter.Pull(func(yield func(time.Duration) bool) {
		defer func() {
			if err := recover(); err != nil && err != errStopped {
				panic(err)
			}
		}()
		r.yield = yield
		do(r)
	})
	p.stops = append(p.stops, stop)
	r.next = next
	p.w.after(0, r.resume)
}

type worldRoutine struct {
	*worldProcess
	yield func(time.Duration) bool
	next  func() (time.Duration, bool)
}

// resume goes on with a coroutine until it waits again.
func (r *worldRoutine) resume() {
	if r.up != r.worldProcess {
		return
	}
	if r.frozen > r.w.now {
		r.w.after(r.frozen-r.w.now, r.resume)
		return
	}
	if wait, more := r.next(); more && wait >= 0 {
		r.w.after(wait, r.resume)
	}
}

func (r *worldRoutine) wait(d time.Duration) {
	if !r.yield(d) {
		panic(errStopped)
	}
}

func (r *worldRoutine) sleep(_ context.Context, d time.Duration) bool {
	r.wait(max(d, 0))
	return true
}

// A worldStore is the store as a coroutine reaches it. The coroutine of a call is that in its context.
type worldStore struct{ w *shareWorld }

type routineKey struct{}

func (r *worldRoutine) context() context.Context {
	return context.WithValue(context.Background(), routineKey{}, r)
}

func routineOf(ctx context.Context) *worldRoutine { return ctx.Value(routineKey{}).(*worldRoutine) }

const worldAnswer = 500 * time.Millisecond

// call has the store do something, and waits for its answer.
func (s worldStore) call(ctx context.Context, do func()) error {
	r, w := routineOf(ctx), s.w
	there, back := w.between(0, 20*time.Millisecond), w.between(0, 20*time.Millisecond)
	if w.chance(50) {
		there = w.between(0, 1500*time.Millisecond) // it may be late
	}
	if r.cut > w.now+there {
		if w.chance(2) {
			r.wait(there)
			return fmt.Errorf("%w: cut off", quota.ErrUnavailable)
		}
		r.wait(worldAnswer)
		return fmt.Errorf("%w: cut off", quota.ErrOutcomeUnknown)
	}
	if w.silent > w.now+there { // it waits in the store
		there = w.silent - w.now + w.between(0, 50*time.Millisecond)
	}
	lost := w.temper != silences && w.now < w.peace && w.chance(25)
	answered, over := false, false
	var carry func()
	carry = func() {
		if w.silent > w.now { // again
			w.after(w.silent-w.now, carry)
			return
		}
		do()
		if !lost && !over {
			answered = true
			w.after(back, r.resume)
		}
	}
	w.after(there, carry)
	w.after(worldAnswer, func() {
		if over = true; !answered {
			r.resume()
		}
	})
	r.wait(-1)
	if !answered {
		return fmt.Errorf("%w: no answer", quota.ErrOutcomeUnknown)
	}
	return nil
}

func (s worldStore) ReadRecords(ctx context.Context, keys []string) ([][]byte, []time.Time, error) {
	values, clocks := make([][]byte, len(keys)), make([]time.Time, len(keys))
	err := s.call(ctx, func() {
		for i, key := range keys {
			values[i], clocks[i] = s.w.values[key], s.w.clock()
		}
	})
	if err != nil {
		return make([][]byte, len(keys)), make([]time.Time, len(keys)), fmt.Errorf("%w: %v", quota.ErrUnavailable, err)
	}
	return values, clocks, nil
}

func (s worldStore) SwapRecord(ctx context.Context, keys []string, read []byte, values [][]byte, notAfter time.Time) (swapped bool, found []byte, clock time.Time, err error) {
	r := routineOf(ctx)
	by := r.name
	err = s.call(ctx, func() {
		found, clock = s.w.values[keys[0]], s.w.clock()
		if bytes.Equal(found, read) && !clock.After(notAfter) {
			for i, key := range keys {
				s.w.write(by, key, values[i])
			}
			for run := range r.claims {
				s.w.landed[run] = s.w.landed[run] || bytes.Contains(values[0], []byte(`"run":"`+run+`"`))
			}
			swapped, found = true, nil
		}
	})
	if err != nil {
		return false, nil, time.Time{}, err
	}
	return swapped, found, clock, nil
}

// write replaces a value, and checks what that does to the run that held the job.
func (w *shareWorld) write(by, key string, value []byte) {
	before := w.values[key]
	w.values[key] = value
	if key != worldKey {
		w.say("%s writes %s %s", by, key, value)
		record, _ := decodeShared(w.values[worldKey])
		w.oracle.under[string(value)] = record.Run.Is.ID
		return
	}
	w.say("%s writes %s", by, value)
	if w.lossless && bytes.Contains(value, []byte(`"lost"`)) {
		w.fail("%s records a loss, and nothing is lost", by)
	}
	was, _ := decodeShared(before)
	is, err := decodeShared(value)
	if err == nil && is.Last.Is.Why == Died && w.oracle.died != is.Last.Is.ID {
		w.oracle.died = is.Last.Is.ID
		w.oracle.overtaken(w, is.Last.Is)
		silent := w.now - w.renewed
		if held := was.Run.Is; w.lossless && held.ID == is.Last.Is.ID && (silent < worldLease/3 || w.steps == 0 && w.clock().Before(held.Until)) {
			w.fail("run %s was taken over %v after it was renewed, its lease is over at %v", held.ID, silent, held.Until)
		}
	}
	if is.Run.Is.ID != was.Run.Is.ID || is.Run.Is.Beat != was.Run.Is.Beat {
		w.renewed = w.now
	}
}

const worldKey = "{job:j}"

// start starts the daemon of a host.
func (h *worldHost) start() {
	h.starts++
	p := &worldProcess{worldHost: h, claims: map[string]*claim{}}
	h.up = p
	s := newShare(worldStore{h.w}, "j", func() (string, string) { return h.file.host, h.name })
	s.now = func() time.Time { return worldStart.Add(h.w.now) }
	s.sleep = func(ctx context.Context, d time.Duration) bool { return routineOf(ctx).sleep(ctx, d) }
	s.draw = func() string { h.w.drawn++; return strconv.Itoa(h.w.drawn) }
	s.recall(h.file.known, h.file.marks, h.file.last)
	every, _ := NewEvery(worldPeriod, 0)
	s.define(&Job{Name: "j", Schedule: every, Regions: worldRing})
	p.share = s
	h.w.say("%s starts, last %+v", h.name, h.file.last)
	p.goes(p.idle)
	p.goes(p.ticks)
}

func (h *worldHost) kill() {
	p := h.up
	if p == nil {
		return
	}
	h.up = nil
	for _, c := range p.claims {
		h.w.oracle.excuse(c.Slot)
		h.w.oracle.gap(c.since, c.Slot) // its answer may have been on the way
	}
	for _, stop := range slices.Backward(p.stops) {
		stop()
	}
	h.w.say("%s is killed", h.name)
	h.hurt = max(h.hurt, h.w.now)
}

// save writes down what has changed.
func (p *worldProcess) save() {
	record, marks, died := p.share.changed()
	if record != nil {
		p.file.known = *record
	}
	if len(marks) > 0 { // a clone has the map, too
		all := maps.Clone(marks)
		for region, mark := range p.file.marks {
			if _, found := all[region]; !found {
				all[region] = mark
			}
		}
		p.file.marks = all
	}
	for _, run := range died {
		p.w.oracle.name(run.Slot)
	}
}

func (p *worldProcess) idle(r *worldRoutine) {
	for {
		lookAll(r.context(), p.share.store, []*share{p.share})
		p.save()
		r.wait(idleTime)
	}
}

// ticks is the scheduler: it goes by the host's clock.
func (p *worldProcess) ticks(r *worldRoutine) {
	every := p.share.schedule
	wall := func() time.Time { return worldStart.Add(p.w.now + p.wall) }
	r.wait(p.w.between(0, time.Second))
	if slot := Latest(every, wall()); p.w.chance(2) { // what was missed
		p.goes(func(r *worldRoutine) { p.tick(r, slot) })
	}
	for next := every.Next(wall()); ; {
		r.wait(min(max(next.Sub(wall()), 0), time.Second))
		switch now := wall(); {
		case !now.Before(next):
			slot := Latest(every, now)
			p.goes(func(r *worldRoutine) { p.tick(r, slot) })
			next = every.Next(now)
		default:
			next = every.Next(now)
		}
	}
}

// tick claims a slot, and runs it.
func (p *worldProcess) tick(r *worldRoutine, slot time.Time) {
	w := p.w
	w.drawn++
	c := &claim{Run: fmt.Sprintf("r%d@%s", w.drawn, p.name), Slot: slot}
	if slot.IsZero() {
		c.Paused = true
	}
	for tries := 0; ; tries++ {
		p.claims[c.Run] = c
		before := w.oracle
		result, err := p.share.claim(r.context(), c)
		p.save()
		delete(p.claims, c.Run)
		switch {
		case errors.Is(err, errClaimed):
			if w.landed[c.Run] { // its answer was lost, and a later slot has been claimed since
				w.oracle.excuse(c.Slot)
			}
			return
		case errors.Is(err, ErrUnderWay):
			if !slot.IsZero() {
				w.fail("a slot is refused: %v", err)
			}
			return
		case err != nil:
			w.say("%s cannot claim %v: %v", p.name, c.Slot.Format(time.TimeOnly), err)
			w.oracle.name(c.Slot)
			w.oracle.gap(c.since, c.Slot)
			if slot.IsZero() || tries == 3 || !w.lossless && !errors.Is(err, quota.ErrUnavailable) && !errors.Is(err, quota.ErrOutcomeUnknown) {
				return
			}
			r.wait(time.Second << tries)
			if Latest(p.share.schedule, worldStart.Add(w.now+p.wall)).After(slot) {
				return
			}
			continue
		}
		w.say("%s claims %v for %s: skipped %q, since %v", p.name, result.Slot.Format(time.TimeOnly), c.Run, result.Skipped, result.Since.Format(time.TimeOnly))
		w.oracle.gap(result.Since, result.Slot)
		if result.Skipped != "" {
			w.oracle.name(result.Slot)
			return
		}
		w.oracle.begins(w, &before, p, c, result)
		p.serve(r, c.Run, result.Turn)
		return
	}
}

var worldRing = regions.Ring{"A", "B", "C"}

// serve is a run: some passes, and a coroutine that renews the lease.
func (p *worldProcess) serve(r *worldRoutine, run string, at turn) {
	w := p.w
	p.run, p.file.last = run, &owed{sharedProgress{Turn: at}, sharedRun{ID: run, Why: Died}, false}
	progress, taken, over := sharedProgress{Turn: at}, false, false
	p.goes(func(r *worldRoutine) {
		for wait := p.share.renewTime(); ; {
			if r.wait(wait); over {
				return
			}
			now := progress
			now.Done = nil // a host renews one after the other: what a pass ends with is written once
			err := p.share.renew(r.context(), run, now)
			p.save()
			if wait = p.share.renewTime(); err != nil {
				wait = p.share.again()
			}
			taken = taken || errors.Is(err, errTakenOver)
		}
	})
	served := 0
	ring := worldRing.From(at.Cursor)
	for _, region := range ring[:1+w.rand.IntN(len(ring))] {
		for !taken && !p.share.mayLaunch(run) {
			r.wait(time.Second / 2)
		}
		if taken {
			break
		}
		before := *w.oracle.mark(region)
		marks, err := p.share.readMarks(r.context(), region)
		p.save()
		if err == nil {
			w.oracle.reads(w, before, region, marks[region])
		}
		if !p.share.mayLaunch(run) {
			continue
		}
		w.oracle.launches(w, p, run)
		w.say("%s serves %s", p.name, region)
		r.wait(w.between(0, 2*worldPass))
		if w.chance(3) {
			p.leave(r, region, run)
		}
		if w.chance(12) && w.now < w.peace { // a pass that takes long
			r.wait(w.between(0, 2*worldPeriod))
		}
		served++
		progress.Turn = turn{Cursor: regions.Cursor(ring[served%len(ring)])}
		p.file.last = &owed{progress, sharedRun{ID: run, Why: Died}, false}
		w.oracle.moves()
		if w.chance(3) {
			progress.Done = append(progress.Done, region)
			w.oracle.mark(region).begins()
		}
		err = p.share.renew(r.context(), run, progress)
		p.save()
		taken = errors.Is(err, errTakenOver) || taken
		if err == nil {
			w.oracle.drops(progress.Done)
			progress.Done = nil
		}
	}
	last := sharedRun{ID: run, State: RunDone, OK: served, Of: len(ring)}
	over, p.run, p.file.last = true, "", &owed{progress, last, !taken}
	well := w.lossless || w.now-p.hurt > 2*longestHold // else the end of an older run may have replaced it
	if record, _ := decodeShared(w.values[worldKey]); taken && well && w.steps == 0 && w.oracle.last == run && w.oracle.died != run && (record.Run.Is.ID == "" || record.Run.Is.ID == run) {
		w.fail("%s stops %s: nobody has taken the job", p.name, run)
	}
	w.oracle.ended[run] = p
	err := p.share.end(r.context(), progress, last, !taken)
	for ; err != nil; err = p.share.settle(r.context()) {
		r.wait(p.share.again())
	}
	p.save()
	if record, _ := decodeShared(w.values[worldKey]); !taken && record.Last.Is.ID == run && record.Last.Is.Why != Died {
		w.oracle.drops(progress.Done)
	}
	w.say("%s ends %s: %v, taken over %v", p.name, run, err, taken)
}

// leave leaves a bookmark.
func (p *worldProcess) leave(r *worldRoutine, region regions.Region, run string) {
	p.w.drawn++
	text := "m" + strconv.Itoa(p.w.drawn)
	p.w.oracle.mark(region).begins()
	err := p.share.setMark(r.context(), region, run, text)
	p.save()
	p.w.say("%s leaves %s in %s for %q: %v", p.name, text, region, run, err)
	p.w.oracle.mark(region).ends(text, err)
	for value, held := range p.w.oracle.under {
		if run != "" && err == nil && held != run && p.w.lossless && strings.Contains(value, `"`+text+`"`) {
			p.w.fail("%s leaves a bookmark for %s, the job is held by %q", p.name, run, held)
		}
	}
}

// operate is what an operator does at a host.
func (p *worldProcess) operate(r *worldRoutine) {
	w := p.w
	switch w.rand.IntN(5) {
	case 0:
		w.oracle.pausing()
		err := p.share.pause(r.context(), "root", "", 0)
		p.save()
		w.oracle.paused(true, err)
		w.say("%s pauses: %v", p.name, err)
	case 1:
		w.oracle.pausing()
		err := p.share.resume(r.context())
		p.save()
		w.oracle.paused(false, err)
		w.say("%s resumes: %v", p.name, err)
	case 2:
		cursor := regions.Cursor(worldRing[w.rand.IntN(3)])
		w.oracle.cursor.begins()
		err := p.share.move(r.context(), cursor)
		p.save()
		w.oracle.cursor.ends(string(cursor), err)
		w.say("%s sets the cursor to %s: %v", p.name, cursor, err)
	case 3:
		p.leave(r, worldRing[w.rand.IntN(3)], "")
	case 4:
		p.tick(r, time.Time{})
	}
}

// A worldOracle knows what was promised.
type worldOracle struct {
	begun          map[time.Time]int
	named, excused map[time.Time]bool
	first          time.Time
	lostAt         time.Duration

	pause, cursor toldValue
	marks         map[regions.Region]*toldValue
	overtakes     int
	died, last    string                   // the run that died last, and that began last
	under         map[string]string        // which run held the job when a bookmark was written
	ran           map[string]bool          // the runs that began
	ended         map[string]*worldProcess // the runs that ended in order
}

// A toldValue is what an operator or a pass was told that the hosts know.
type toldValue struct {
	known   bool
	value   string
	changes int  // begun
	open    int  // under way
	unsure  bool // several were under way at a time
}

func (v *toldValue) begins() {
	v.known, v.changes, v.unsure, v.open = false, v.changes+1, v.open > 0, v.open+1
}

// ends records what became of a change; the value is known if no other change was under way.
func (v *toldValue) ends(value string, err error) {
	v.open--
	v.known, v.value = !v.unsure && v.open == 0 && err == nil, value
	v.unsure = v.unsure && v.open > 0 || v.open > 0
}

func (o *worldOracle) excuse(slot time.Time) { o.excused[slot] = true }
func (o *worldOracle) name(slot time.Time)   { o.named[slot] = true }

func (o *worldOracle) gap(since, slot time.Time) {
	if since.IsZero() || slot.IsZero() || slot.Sub(since) > 24*time.Hour {
		return
	}
	for at := since.Add(worldPeriod); at.Before(slot); at = at.Add(worldPeriod) {
		o.name(at)
	}
}

func (o *worldOracle) pausing()                  { o.pause.begins() }
func (o *worldOracle) paused(is bool, err error) { o.pause.ends(strconv.FormatBool(is), err) }

// moves records that a run moves the cursor.
func (o *worldOracle) moves() { o.cursor.known, o.cursor.changes = false, o.cursor.changes+1 }

func (o *worldOracle) mark(region regions.Region) *toldValue {
	if o.marks[region] == nil {
		o.marks[region] = &toldValue{}
	}
	return o.marks[region]
}

// drops records that the hosts know whose bookmarks are dropped. Until then, what is set may be dropped, too.
func (o *worldOracle) drops(list []regions.Region) {
	for _, region := range list {
		o.mark(region).ends("", nil)
	}
}

// holds returns whether what a host was told is still promised: the hosts have had time to put back what was lost,
// and all of them are there.
func (w *shareWorld) holds() bool {
	return w.lossless || w.temper == losses && w.steps == 0 && w.now-w.oracle.lostAt > 30*time.Second
}

func (o *worldOracle) reads(w *shareWorld, before toldValue, region regions.Region, mark bookmark) {
	now := o.mark(region)
	if w.holds() && before.known && before.changes == now.changes && mark.Text != before.value {
		w.fail("the bookmark of %s is %q, want %q", region, mark.Text, before.value)
	}
}

func (o *worldOracle) begins(w *shareWorld, before *worldOracle, p *worldProcess, c *claim, result claimed) {
	slot := result.Slot
	if p.run != "" {
		w.fail("%s begins %s beside %s", p.name, c.Run, p.run)
	}
	o.last, o.ran[c.Run] = c.Run, true
	if before.cursor.known && o.cursor.changes == before.cursor.changes && w.holds() && string(result.Turn.Cursor) != before.cursor.value {
		w.fail("run %s begins at %q, the cursor was set to %q", c.Run, result.Turn.Cursor, before.cursor.value)
	}
	if slot.IsZero() {
		return
	}
	if before.pause.known && before.pause.value == "true" && o.pause.changes == before.pause.changes && w.holds() {
		w.fail("run %s begins in slot %v though the job is paused", c.Run, slot)
	}
	if age := w.clock().Sub(slot); w.steps == 0 && (age < 0 || age > worldPeriod+5*time.Second && w.now-p.hurt > worldPeriod) {
		w.fail("run %s begins in slot %v by a clock of %v", c.Run, slot, w.clock())
	}
	if o.begun[slot]++; o.first.IsZero() {
		o.first = slot
	}
	most := 1 + w.steps
	if w.temper != losses {
		most += w.losses
	}
	if w.temper == losses && w.copied > 0 { // a host that knows no more than the copy does not see that there was a loss
		most += w.copied
	}
	if o.begun[slot] > most {
		w.fail("slot %v has %d runs", slot, o.begun[slot])
	}
}

func (o *worldOracle) launches(w *shareWorld, p *worldProcess, run string) {
	record, _ := decodeShared(w.values[worldKey])
	if w.lossless && w.steps == 0 && !w.cloned && record.Run.Is.ID != run {
		w.fail("%s launches a pass of %s, the job is held by %q", p.name, run, record.Run.Is.ID)
	}
}

// overtaken checks that a run that is said to have died has no host that is well.
func (o *worldOracle) overtaken(w *shareWorld, last sharedRun) {
	o.overtakes++
	if p := o.ended[last.ID]; p != nil && p.up == p && w.lossless && w.now-p.hurt > 2*longestHold {
		w.fail("run %s is said to have died, it ended in order", last.ID)
	}
	for _, h := range w.hosts {
		if h.up != nil && h.name == last.Name && !o.ran[last.ID] && w.lossless && w.now-h.hurt > 2*longestHold && w.now-w.silent > 2*idleTime {
			w.fail("run %s of host %s is said to have died, it has given it up", last.ID, h.name)
		}
		if p := h.up; p != nil && p.run == last.ID && w.now-h.hurt > 2*longestHold && (w.lossless || w.now-o.lostAt > worldPeriod) {
			w.fail("run %s of host %s was taken over, which is well", last.ID, h.name)
		}
	}
}

// check looks at what became of the slots.
func (o *worldOracle) check(w *shareWorld) {
	end := worldStart.Add(w.over - 2*worldPeriod).Truncate(worldPeriod)
	begun := false
	for slot := end.Add(-2 * worldPeriod); !slot.After(end); slot = slot.Add(worldPeriod) {
		begun = begun || o.begun[slot] > 0
	}
	if record, _ := decodeShared(w.values[worldKey]); !begun && record.Paused.Is == nil {
		w.fail("no slot is run at the end")
	}
	if !w.lossless || w.steps > 0 || o.first.IsZero() {
		return
	}
	for slot := o.first; !slot.After(end); slot = slot.Add(worldPeriod) {
		if o.begun[slot] == 0 && !o.named[slot] && !o.excused[slot] {
			w.fail("nobody names slot %v, which had no run", slot.Format(time.TimeOnly))
		}
	}
}

// trouble is one thing that goes wrong.
func (w *shareWorld) trouble() {
	h := w.hosts[w.rand.IntN(len(w.hosts))]
	long := w.between(time.Second, 50*time.Second)
	choices := map[worldTemper][]int{
		anything: {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, silences: {0}, losses: {1, 2, 8, 9}, hostClock: {3, 0}, clones: {4, 5, 8}, deaths: {5, 6, 7, 0},
	}[w.temper]
	switch choices[w.rand.IntN(len(choices))] {
	case 0:
		w.silent = max(w.silent, w.now+long)
		w.say("the store is silent for %v", long)
	case 1:
		w.lose(map[string][]byte{})
		w.say("the store is flushed")
	case 2:
		if len(w.copies) > 0 {
			w.copied++
			w.lose(w.copies[w.rand.IntN(len(w.copies))])
			w.say("the store is an older copy")
		}
	case 3:
		by := w.step()
		h.wall = by
		w.say("the clock of %s is set by %v", h.name, by)
	case 4:
		w.clone(h)
	case 5:
		h.kill()
		w.after(long, func() { w.restart(h) })
	case 6:
		h.frozen = max(h.frozen, w.now+long)
		h.hurt = max(h.hurt, h.frozen)
		w.say("%s is frozen for %v", h.name, long)
	case 7:
		h.cut = max(h.cut, w.now+long)
		h.hurt = max(h.hurt, h.cut)
		w.say("%s is cut off for %v", h.name, long)
	case 8:
		h.kill()
		w.restart(h)
	case 9:
		w.offset, w.steps = w.step(), w.steps+1
		w.say("the clock of the store is set by %v", w.offset)
	}
}

// step is by how much a clock is wrong.
func (w *shareWorld) step() time.Duration {
	by := []time.Duration{10 * time.Second, 5 * time.Minute, time.Hour, 24 * time.Hour, 365 * 24 * time.Hour}[w.rand.IntN(5)]
	if w.chance(2) {
		by = -by
	}
	return by
}

func (w *shareWorld) restart(h *worldHost) {
	if h.up == nil {
		h.start()
	}
}

func (w *shareWorld) lose(values map[string][]byte) {
	w.values = maps.Clone(values)
	w.lossless, w.losses, w.oracle.lostAt = false, w.losses+1, w.now
}

// clone starts another host with a copy of the state directory.
func (w *shareWorld) clone(h *worldHost) {
	if len(w.hosts) < 5 {
		c := &worldHost{w: w, name: h.name + "'" + strconv.Itoa(len(w.hosts)), file: h.file, hurt: -time.Hour}
		w.hosts, w.cloned = append(w.hosts, c), true
		w.after(w.between(0, 5*time.Second), func() { w.restart(c) })
		w.say("%s is a clone of %s", c.name, h.name)
	}
}

// simulateShares plays one history, and returns what was wrong with it.
func simulateShares(seed uint64, traces bool) *shareWorld {
	w := &shareWorld{
		rand: rand.New(rand.NewPCG(seed, 42)), temper: worldTemper(seed % uint64(tempers)), traces: traces,
		values: map[string][]byte{}, landed: map[string]bool{}, lossless: true, peace: 100 * time.Second,
		oracle: worldOracle{begun: map[time.Time]int{}, named: map[time.Time]bool{}, excused: map[time.Time]bool{}, marks: map[regions.Region]*toldValue{}, under: map[string]string{}, ran: map[string]bool{}, ended: map[string]*worldProcess{}},
	}
	w.over = w.peace + 6*worldPeriod
	for i := range 2 + int(seed/uint64(tempers))%2 {
		h := &worldHost{w: w, name: string(rune('a' + i)), hurt: -time.Hour}
		h.file.host = h.name
		w.hosts = append(w.hosts, h)
		w.after(w.between(0, 3*time.Second), h.start)
	}
	var next func()
	next = func() {
		if w.now > w.peace {
			return
		}
		switch {
		case w.chance(3):
			w.trouble()
		case w.chance(4):
			w.copies = append(w.copies, maps.Clone(w.values))
		default:
			if p := w.hosts[w.rand.IntN(len(w.hosts))].up; p != nil && p.frozen < w.now {
				p.goes(p.operate)
			}
		}
		w.after(w.between(0, 8*time.Second), next)
	}
	w.after(w.between(15*time.Second, 30*time.Second), next)
	w.after(w.peace, w.heal)
	for len(w.queue) > 0 && w.failed == "" && w.now < w.over {
		event := w.queue[0]
		w.now, w.queue = event.at, w.queue[1:]
		event.do()
	}
	if w.failed == "" {
		w.oracle.check(w)
	}
	for _, h := range w.hosts {
		h.kill()
	}
	return w
}

// heal ends all trouble, in one order or another.
func (w *shareWorld) heal() {
	w.offset, w.silent = 0, min(w.silent, w.now)
	for _, i := range w.rand.Perm(len(w.hosts)) {
		h := w.hosts[i]
		h.wall = 0
		w.after(w.between(0, worldPeriod), func() { h.frozen, h.cut = 0, 0; w.restart(h) })
	}
	w.after(worldPeriod, func() {
		for _, h := range w.hosts {
			if h.up != nil {
				h.up.goes(func(r *worldRoutine) {
					w.oracle.pausing()
					err := r.share.resume(r.context())
					r.save()
					w.oracle.paused(false, err)
				})
				break
			}
		}
	})
	w.say("peace")
}

const temperVariable = "QUOTAD_CHILD_TEMPER"

// Each history is checked while it is played. QUOTAD_CHILD_TEMPER says that they have one kind of trouble,
// seedtest.Variable which is the first one, and alone shows that.
func TestSharesInSimulation(t *testing.T) {
	seedtest.SkipUnderRace(t)
	first, _ := strconv.ParseUint(cmp.Or(os.Getenv(seedtest.Variable), "0"), 10, 64)
	if first > 0 && os.Getenv(seedtest.LongVariable) == "" {
		w := simulateShares(first, true)
		t.Logf("%s\n%s", strings.Join(w.trace, "\n"), w.failed)
		return
	}
	n := seedtest.Long(t, 300)
	step := uint64(1)
	if text := os.Getenv(temperVariable); text != "" {
		first, _ = strconv.ParseUint(text, 10, 64)
		step = uint64(tempers)
	}
	begun, overtakes, failed := 0, 0, 0
	for i := range uint64(n) {
		seed := first + i*step
		w := simulateShares(seed, false)
		begun += len(w.oracle.begun)
		overtakes += w.oracle.overtakes
		if w.failed != "" {
			t.Errorf("seed %d (temper %d): %s", seed, w.temper, w.failed)
			if failed++; failed == 5 {
				break
			}
		}
	}
	t.Logf("%d histories: %d slots with a run, %d takeovers", n, begun, overtakes)
}
