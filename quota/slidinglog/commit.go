package slidinglog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"quotad/quota"
)

const (
	// maxGives bounds the entries that an adjustment names.
	maxGives = 1000
	// lateTime is how long after its decision a record may be appended. After that, the outcome
	// of an unanswered call is known. What the record says of the one before it holds until then.
	lateTime = 5 * time.Second
	// yieldAfter is how long a host loses races before it asks for its turn. The others then wait until it has
	// written, for half of their deadline at most, and poll at each yieldPause.
	yieldAfter = 80 * time.Millisecond
	yieldPause = 5 * time.Millisecond
	// yieldRecords is to how many records it loses meanwhile, at least: a turn is a record, and so makes
	// others lose. Distant hosts that ask for it at each second try would only do that.
	yieldRecords = 16
)

// A draft is the decision of one call, before it is in the log.
type draft struct {
	*replica
	credential *quota.Credential
	clock, now time.Time // the store's, and the log's
	down       error     // why the decision is made offline; nil: it is not
	entries    []quota.Entry
	// unsure means that an answer may not hold at a later clock, because something is not granted.
	unsure  bool
	termSum [4]byte // what its record says of it
	most    uint32
	slack   int64               // what others may take meanwhile; 0: nothing
	same    map[int]quota.Entry // by index of an entry: what another host granted the same request meanwhile
	gen     int64               // the generation that a reset begins; 0: the log's own
	wipe    bool                // empties the log first
	// corrected are the grants that it settles, as they are then. full means that it takes no further call, and
	// denies that it takes no further entry.
	corrected    []quota.Entry
	full, denies bool
	used         []quota.Units // of each limit, with the draft
	sent         []*bool       // are set as soon as the log may have it
	// done complete the answers once the entries are in the copy. left are the units of each limit that have
	// left its window since.
	done []func(now time.Time, left []quota.Units)
}

// A waiter is a call that waits to be decided. One that has the lock decides for all that wait, in one draft, by its
// own deadline. The others go away at theirs.
type waiter struct {
	credential *quota.Credential
	entries    int       // that it adds, at most
	after      int       // 0: a correction; 1: an acquire, which is decided after those
	end        time.Time // its deadline; zero: none
	// draft drafts the decision. It returns false, and does nothing, if that depends on what the draft has already.
	draft func(*draft) bool

	ended   bool // it has its answer, and err; guarded by the lock
	err     error
	wrote   [2]int        // its entries in the draft: from one index to before another; guarded by the lock
	left    bool          // its caller is gone; guarded by mu
	leads   bool          // it was given the lock
	decided chan struct{} // closed once it has ended, or leads; nil: it has the lock
}

// states returns the limits that charges count against, as they are at now.
func (d *draft) states(charges []quota.Charge, now time.Time) []quota.LimitState {
	return d.copy.account.States(d.credential, charges, now)
}

// add adds an entry to the draft.
func (d *draft) add(e quota.Entry, by quota.Caller) {
	e.Gen, e.By, e.Region = quota.Unplaced, by.By(), by.Region
	d.entries = append(d.entries, e)
}

// commit lets a call draft its decision, and writes it to the log, or, while the store cannot be
// reached and offline is set, to the file.
func (l *Ledger) commit(ctx context.Context, c *quota.Credential, offline bool, w *waiter) error {
	defer quota.EndOnPanic()
	w.credential = c
	r, err := l.replica(c.Name)
	if err != nil {
		return err
	}
	err = r.commit(ctx, w)
	if err != nil && l.overslept(ctx) {
		again, cancel := l.within(context.WithoutCancel(ctx), l.config.Deadline)
		defer cancel()
		r.refresh(again) // the answer may be there already
		err = r.commit(again, w)
	}
	if offline && r.outage(err) {
		return r.commitOffline(w, err)
	}
	return err
}

// overslept reports whether a deadline was noticed late: this process or its machine stood still, and
// the store may have answered meanwhile.
func (l *Ledger) overslept(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ok && l.config.Store != nil && time.Since(end) > l.config.Deadline/4
}

// commit has a call decided: by itself, or by another one that has the lock.
func (r *replica) commit(ctx context.Context, call *waiter) error {
	if err := r.serving(); err != nil && !errors.Is(err, errJoining) {
		return err
	}
	copied, waits, locked := *call, ctx, r.tryLock() // others may still have it when its caller is gone
	own := &copied
	own.end, _ = ctx.Deadline()
	if !locked {
		own.decided = make(chan struct{})
	}
	r.mu.Lock()
	r.waiting = append(r.waiting, own)
	r.mu.Unlock()
	for {
		if !locked {
			got, err := r.await(waits, own.decided)
			if err != nil {
				if err = r.leave(own, err); err != nil {
					return err
				}
				waits = context.WithoutCancel(ctx)
				continue // it has not the lock
			}
			locked = got || own.leads
		}
		if own.ended {
			break
		}
		if locked = !r.handOver(own); locked {
			r.commitWaiting(ctx, own)
		}
	}
	if locked {
		r.unlock()
	}
	return own.err
}

// leave has a call end without an answer, and returns the error; nil: it has one, or is to decide for others, or waits
// for the file, which has no deadline.
func (r *replica) leave(own *waiter, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.waiting)
	select {
	case <-own.decided:
		return nil
	default:
		r.waiting = slices.DeleteFunc(r.waiting, func(w *waiter) bool { return w == own })
	}
	switch {
	case len(r.waiting) < n:
		return err
	case r.ledger.config.Store == nil:
		return nil
	}
	own.left = true
	return fmt.Errorf("%w: %w", err, quota.ErrOutcomeUnknown)
}

// handOver gives the lock to the call that has most time left, if little is left of the call's own: what it decides ends
// with it for all.
func (r *replica) handOver(own *waiter) bool {
	if own.end.IsZero() || time.Until(own.end) > r.ledger.config.Deadline/2 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last := slices.MaxFunc(r.waiting, func(x, y *waiter) int { return x.end.Compare(y.end) })
	if last == own {
		return false
	}
	own.leads, own.decided = false, make(chan struct{})
	last.leads = true
	close(last.decided)
	return true
}

// take takes the calls of a credential that have waited longest, as many as may share a draft, corrections first: a
// denial must know each of its record.
func (r *replica) take(c *quota.Credential) (calls []*waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	entries := 0
	r.waiting = slices.DeleteFunc(r.waiting, func(w *waiter) bool {
		if w.credential != c || len(calls) > 0 && entries+w.entries > quota.MaxAsks { // a record has ids for no more
			return false
		}
		entries, calls = entries+w.entries, append(calls, w)
		return true
	})
	slices.SortStableFunc(calls, func(x, y *waiter) int { return cmp.Compare(x.after, y.after) })
	return calls
}

// commitWaiting decides the calls that have waited longest, in one draft. Those that do not go into it wait on. What is
// granted to one that has left is revoked.
func (r *replica) commitWaiting(ctx context.Context, own *waiter) {
	calls := r.take(own.credential)
	if len(calls) > 1 || calls[0] != own { // whichever of the callers goes away
		var cancel context.CancelFunc
		if ctx = context.WithoutCancel(ctx); !own.end.IsZero() {
			ctx, cancel = context.WithDeadline(ctx, own.end)
			defer cancel()
		}
	}
	var last *draft
	var drafted []*waiter
	err := r.decide(ctx, own.credential, func(d *draft) {
		last, drafted = d, drafted[:0]
		for _, w := range calls {
			n := len(d.entries)
			if w.left || !d.full && w.draft(d) {
				drafted = append(drafted, w)
			}
			w.wrote = [2]int{n, len(d.entries)}
		}
	})
	if len(drafted) == 0 {
		drafted = calls
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range drafted {
		if w.left && err == nil {
			r.revoke(last.entries[w.wrote[0]:w.wrote[1]])
		}
		if w.ended, w.err = true, err; w.decided != nil && w != own {
			close(w.decided)
		}
	}
	r.waiting = append(slices.DeleteFunc(calls, func(w *waiter) bool { return w.ended || w.left }), r.waiting...)
}

// decide calls f until its draft holds. A draft with entries holds once it is appended, which
// works only if no other host has written since. A draft without entries holds once the end of
// the log is known. The caller holds the lock.
func (r *replica) decide(ctx context.Context, c *quota.Credential, f func(*draft)) error {
	if err := r.join(ctx); err != nil {
		return err
	}
	known, clock := r.ledger.config.Store == nil, r.estimate()
	for lost := (race{}); ; {
		if err := r.yield(ctx); err != nil {
			return err
		}
		r.mu.Lock()
		d, err := r.draft(c, clock, nil, f)
		r.mu.Unlock()
		if errors.Is(err, quota.ErrRecovering) {
			r.setDown(err)
		}
		switch {
		case err != nil, len(d.entries) == 0 && known:
			return err
		case r.ledger.config.Store == nil:
			return r.write(d)
		}
		var out Outcome
		sends := len(d.entries) > 0 && (known || !d.unsure)
		if !sends {
			out = r.poll(ctx)
		} else {
			var done bool
			if out, done, err = r.append(ctx, d); done {
				return err
			}
			lost.records += len(out.Tail)
		}
		if known, err = r.update(ctx, out); err != nil {
			if sends && out.Result == Unknown && !errors.Is(err, quota.ErrOutcomeUnknown) {
				err = fmt.Errorf("%w: %w", quota.ErrOutcomeUnknown, err)
			}
			return err
		}
		clock = time.UnixMilli(out.Clock).UTC()
		switch {
		case ctx.Err() == nil:
		case lost.records == 0: // no other host was first: the store is slow
			return fmt.Errorf("credential %q: %w", r.name, ctx.Err())
		default:
			return r.contended()
		}
		r.backOff(ctx, &lost)
	}
}

// draft lets f decide on the copy as of a clock. down is the reason if it decides offline. Open
// attempts count as granted. mu is held.
func (r *replica) draft(c *quota.Credential, clock time.Time, down error, f func(*draft)) (*draft, error) {
	if err := r.ready(); err != nil && (down == nil || isQuiet(err)) {
		return nil, err
	}
	d := &draft{replica: r, credential: c, clock: clock, down: down, most: barrier, slack: maxSlack}
	r.copy.credential = c
	err := r.copy.view(func() {
		d.now = r.copy.advance(clock)
		defer r.copy.account.Release()
		for _, a := range r.maybe {
			for _, e := range a.entries {
				r.copy.account.Hold(c, e.Charges)
			}
		}
		f(d)
		d.used = r.copy.account.Used()
		d.sumUp()
	})
	return d, r.unavailable(err)
}

// update applies the outcome of a call to the copy, unless the call was carried out. known
// reports that the copy has the whole log.
func (r *replica) update(ctx context.Context, out Outcome) (known bool, err error) {
	switch out.Result {
	case Behind:
		if known, err = !out.More, r.catchUp(out.Tail); err == nil {
			err = r.foldMany(servingFolds)
		}
	case End:
		known = true
		r.mu.Lock()
		r.giveUp(func(a *attempt) bool { return !a.slack && out.Clock > a.notAfter })
		r.mu.Unlock()
	case Lost: // or wiped by a reset
		return false, r.follow(ctx)
	case Unknown, Failed:
		return false, r.fail(ctx, out.Err)
	}
	if err != nil {
		r.setDown(err)
	}
	return known, err
}

// fail records why the replica does not serve, unless the caller did not wait, or its deadline ended
// while the store answered, or long before this host noticed.
func (r *replica) fail(ctx context.Context, err error) error {
	r.mu.Lock()
	answered := r.ledger.config.Clock().Sub(r.storeClockAt)
	r.mu.Unlock()
	switch {
	case errors.Is(err, context.Canceled):
	case ctx.Err() != nil && (answered < r.ledger.config.Deadline || r.ledger.overslept(ctx)):
		if errors.Is(r.serving(), errJoining) {
			return errJoining
		}
		return r.contended()
	default:
		r.setDown(err)
	}
	return err
}

// record returns the record of the draft. A reset leaves nothing that the log lacks.
func (d *draft) record() *Record {
	record := d.newRecord(d.entries, nil)
	record.Terms, record.Most, record.draft = d.termSum, d.most, d
	if d.gen > 0 {
		record.Gen, record.Since = d.gen, 0
	}
	if d.wipe {
		record.after(Position{}, false)
	}
	return record
}

// append appends a draft. done reports that its outcome is known, and err is the outcome.
func (r *replica) append(ctx context.Context, d *draft) (out Outcome, done bool, err error) {
	record := d.record()
	call := r.newCall(record)
	call.NotAfter, call.Wipe, call.Slack = d.notAfter(), d.wipe, d.slack
	if !d.wipe {
		call.NotBefore = d.now.UnixMilli()
	}
	if err := r.ledger.config.File.Room(r.name, frameRoom+len(call.Body)); err != nil {
		return out, true, r.unavailable(err)
	}
	out, tags, unknown := r.tries(ctx, &call)
	tail := out.Tail
	if out.Result == Done {
		tail = append(slices.Clip(tail), Placed{At: out.At, Body: call.Body})
	}
	i := slices.IndexFunc(tail, func(p Placed) bool {
		return slices.ContainsFunc(tags, func(t Tag) bool { return bytes.HasPrefix(p.Body, t[:]) })
	})
	if i >= 0 || unknown || out.Result == Unknown {
		for _, sent := range d.sent {
			*sent = true
		}
	}
	own := &attempt{tags: tags, notAfter: call.NotAfter, entries: d.entries, slack: call.Slack > 0}
	if i < 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		if out.Result == Unknown { // it counts as granted until its outcome is known
			r.maybe = append(r.maybe, own)
		} else if unknown {
			r.remember(own)
		}
		return out, false, nil
	}
	if err = r.catchUp(tail[:i]); err == nil && i > 0 {
		err = d.findSame()
	}
	if record.place(tail[i]); err == nil {
		err = r.applyOwn(record)
	}
	if err == nil {
		err = r.catchUp(tail[i+1:])
	}
	r.mu.Lock()
	if err != nil {
		r.revoke(record.Entries)
	}
	if err != nil || unknown { // the log may have lost a record of an earlier try, and this one stands elsewhere
		r.remember(own)
	}
	r.mu.Unlock()
	if err == nil {
		err = r.finish(d, tail[i].At.Time())
	} else if slices.ContainsFunc(record.Entries, func(e quota.Entry) bool { return e.Kind() != quota.KindGrant }) {
		err = fmt.Errorf("%w: %w", quota.ErrOutcomeUnknown, err) // the log has it, and nothing revokes a correction
	}
	return out, true, r.unavailable(err)
}

// write writes a draft to the file, which is the log if there is no store.
func (r *replica) write(d *draft) error {
	record, at := d.record(), d.place()
	record.place(Placed{At: at, Body: record.Body()})
	if err := r.applyOwn(record); err != nil {
		return r.unavailable(err)
	}
	return r.finish(d, at.Time())
}

// finish completes the answers of a draft whose entries are in the copy.
func (r *replica) finish(d *draft, clock time.Time) error {
	if len(d.done) == 0 {
		return nil
	}
	return r.onCopy(func(c *Copy) {
		c.credential = d.credential // a reload may have set another one meanwhile
		now := c.advance(clock)
		left := c.account.Used()
		for i := range left {
			left[i] = d.used[i] - left[i]
		}
		for _, done := range d.done {
			done(now, left)
		}
	})
}

// notAfter returns the time, in ms, until which the draft holds.
func (d *draft) notAfter() int64 { return d.now.Add(lateTime).UnixMilli() }

// yield waits while a host that asked for its turn may go first.
func (r *replica) yield(ctx context.Context) error {
	for {
		r.mu.Lock()
		waits := r.yieldTo != HostID{} && r.yieldTo != r.ledger.Host() && r.ledger.config.Clock().Before(r.yieldUntil)
		r.mu.Unlock()
		switch {
		case !waits:
			return nil
		case ctx.Err() != nil:
			return r.contended()
		}
		r.ledger.config.Pause(ctx, yieldPause)
		if _, err := r.update(ctx, r.poll(ctx)); err != nil {
			return err
		}
	}
}

// A race counts what a call lost to other hosts.
type race struct {
	records int       // that were appended before its own
	yieldAt time.Time // when the call asks for its turn
	turnAt  int       // at how many records, at least
}

// backOff asks for the turn after a long time of losing. Time counts more than races, because a slow host
// loses few of them and needs its turn as much. It does not pause: the winner, whose copy is current, would win
// again.
func (r *replica) backOff(ctx context.Context, lost *race) {
	if lost.records == 0 {
		return
	}
	now := r.ledger.config.Clock()
	if lost.yieldAt.IsZero() {
		lost.yieldAt, lost.turnAt = now.Add(yieldAfter), yieldRecords
	}
	if now.Before(lost.yieldAt) || lost.records < lost.turnAt {
		return
	}
	lost.yieldAt, lost.turnAt = now.Add(yieldAfter), lost.records+yieldRecords
	call := r.newCall(r.newRecord(nil, &Statement{Kind: Yield}))
	call.Blind = true
	r.call(ctx, call) // this host reads it like any other record
}
