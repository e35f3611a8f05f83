package slidinglog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quotad/quota"
)

const (
	// mostGrants bounds the grants of a record, and mostGives what one adjustment names.
	mostGrants = 64
	mostGives  = 1000
	// lateTime is how long after its decision a record may be appended: what became of a
	// call that was not answered is known then.
	lateTime = 5 * time.Second
	// patience is for how long a host loses races before it writes that it wants its turn, and
	// turnTime for how long the others let it go first.
	patience = 80 * time.Millisecond
	turnTime = 50 * time.Millisecond
)

// A draft is what one call decides, before it is in the log.
type draft struct {
	*replica
	credential *quota.Credential
	clock, now time.Time // the store's, and the log's
	entries    []quota.Entry
	keys       map[string]int // request keys of entries
	replays    map[int]int    // which asks are answered by which of the entries
	// sure says that the answer holds although the clock may be later than it was drafted
	// for: all is granted.
	sure bool
	gen  int64 // the generation that the entries begin; 0: they are of the log's
	wipe bool  // the log goes first
	// done completes the answer once the entries are in the copy, at a time.
	done func(now time.Time)
}

// account returns the account that the draft decides on.
func (d *draft) account() *Account { return &d.copy.account }

// states returns the limits that charges count against, as they stand at a time.
func (d *draft) states(charges []quota.Charge, now time.Time) []quota.LimitState {
	return d.copy.account.States(d.credential, charges, now)
}

// add drafts an entry.
func (d *draft) add(e quota.Entry, by quota.Caller) {
	e.ID, e.Gen = quota.ID{}, quota.Unplaced
	e.By, e.Region = by.By(), by.Region
	d.entries = append(d.entries, e)
}

// carry has f draft what a call decides, as often as it takes: a draft that writes is
// appended if nobody has written since; one that writes nothing holds once the log has been
// looked at, and its end is known. It returns the draft that holds.
func (r *replica) carry(ctx context.Context, c *quota.Credential, f func(*draft) error) error {
	if err := r.serving(); err != nil && err != errJoining {
		return err
	}
	if err := r.take(ctx); err != nil {
		return err
	}
	defer r.end()
	if err := r.joined(ctx); err != nil { // since then
		return err
	}
	known, clock := r.ledger.store == nil, r.estimate()
	for lost := (race{}); ; {
		r.yield(ctx)
		d, err := r.drafted(c, clock, f)
		if err != nil {
			if errors.Is(err, quota.ErrRecovering) || errors.Is(err, errReplaying) {
				r.setDown(err)
			}
			return err
		}
		if len(d.entries) == 0 && known {
			return nil
		}
		if r.ledger.store == nil {
			return r.write(d)
		}
		if len(d.entries) == 0 || !d.sure && !known {
			clock, known, err = r.learn(ctx, r.look(ctx))
		} else {
			var done bool
			if clock, known, done, err = r.append(ctx, d); done {
				return err
			}
			lost.losses++
		}
		if err != nil {
			return err
		}
		switch {
		case ctx.Err() == nil:
		case lost.losses == 0: // nobody was first: it took too long
			return fmt.Errorf("credential %q: %w", r.name, ctx.Err())
		default:
			return fmt.Errorf("credential %q: %w", r.name, quota.ErrContended)
		}
		r.fairly(ctx, &lost)
	}
}

// drafted has f draft on the copy as of a clock. What may have been granted already counts.
func (r *replica) drafted(c *quota.Credential, clock time.Time, f func(*draft) error) (*draft, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.ready(); err != nil {
		return nil, err
	}
	d := &draft{replica: r, credential: c, clock: clock, keys: make(map[string]int), replays: make(map[int]int)}
	r.copy.credential = c
	err := r.copy.with(func() error {
		d.now = r.copy.advance(clock)
		defer d.account().Release()
		if r.maybe != nil {
			d.account().Hold(c, r.maybe.charges)
		}
		return errors.Join(f(d), r.copy.err)
	})
	return d, r.unavailable(err)
}

// learn takes what a call answered into the copy, unless it was carried out. Known says that
// the copy ends where the log does.
func (r *replica) learn(ctx context.Context, out Outcome) (clock time.Time, known bool, err error) {
	switch out.Status {
	case Behind:
		err = r.catchUp(out.Tail)
		known = !out.More
	case End:
		known = true
		r.forget(out.Clock)
	case Lost: // or a reset has wiped it
		return time.UnixMilli(out.Clock).UTC(), false, r.up(ctx)
	case Unknown, Failed:
		return clock, false, r.fail(ctx, out.Err)
	}
	if err != nil {
		r.setDown(err)
	}
	return time.UnixMilli(out.Clock).UTC(), known, err
}

// forget drops an attempt that cannot be carried out any more.
func (r *replica) forget(clock int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.maybe != nil && clock > r.maybe.notAfter {
		r.maybe = nil
	}
}

// fail records that the store was not reached: not where it was the caller who did not wait,
// nor where the time went by while other hosts were first.
func (r *replica) fail(ctx context.Context, err error) error {
	r.mu.Lock()
	answered := r.ledger.clock().Sub(r.heardAt)
	r.mu.Unlock()
	switch {
	case errors.Is(err, context.Canceled):
	case ctx.Err() != nil && answered < r.ledger.deadline/2:
		return fmt.Errorf("credential %q: %w", r.name, quota.ErrContended)
	default:
		r.setDown(err)
	}
	return err
}

// append appends a draft. Done says that the answer is known: the draft was carried out, or
// the error says otherwise.
func (r *replica) append(ctx context.Context, d *draft) (clock time.Time, known, done bool, err error) {
	record := d.record(d.entries, nil)
	if d.gen > 0 {
		record.Gen = d.gen
	}
	call := r.newCall(record)
	call.NotBefore, call.NotAfter, call.Wipe = d.now.UnixMilli(), d.notAfter(), d.wipe
	if d.wipe {
		call.NotBefore = 0
	}
	if err := r.ledger.file.Room(r.name, frameRoom+len(call.Body)); err != nil {
		return clock, false, true, err
	}
	out := r.call(ctx, call)
	at, found := out.At, out.Status == Done
	if found {
		err = r.keepOwn(at, call.Body)
	} else if at, found = find(out.Tail, record.Tag); found { // its first answer was lost
		err = r.catchUp(out.Tail)
	}
	if found {
		if err == nil {
			err = r.complete(d, at, record.Tag)
		} else {
			r.mu.Lock()
			r.give(ownRecord(at, call.Body))
			r.mu.Unlock()
		}
		return clock, false, true, r.unavailable(err)
	}
	if out.Status == Unknown {
		r.remember(d, record.Tag, call.NotAfter)
	}
	clock, known, err = r.learn(ctx, out)
	return clock, known, false, err
}

// remember has what may have been granted count until that is known.
func (r *replica) remember(d *draft, tag Tag, notAfter int64) {
	a := &attempt{tag: tag, notAfter: notAfter, keys: make(map[string]bool)}
	for _, e := range d.entries {
		a.charges = append(a.charges, e.Charges...)
		if e.Key != "" {
			a.keys[e.Key] = true
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.maybe = a
}

// frameRoom is what a frame takes beside its record.
const frameRoom = 64

// find returns where a record stands in a tail.
func find(tail []Placed, tag Tag) (at quota.ID, found bool) {
	for _, p := range tail {
		if tagOf(p.Body) == tag {
			return p.At, true
		}
	}
	return at, false
}

// write writes a draft into the file, which is the log where there is no store.
func (r *replica) write(d *draft) error {
	record := r.record(d.entries, nil)
	r.mu.Lock()
	last := r.copy.facts.Position.ID
	r.mu.Unlock()
	if d.gen > 0 {
		record.Gen = d.gen
	}
	at := quota.ID{Ms: d.now.UnixMilli()}
	if d.wipe {
		at.Ms = d.clock.UnixMilli()
	} else if at.Ms <= last.Ms {
		at = quota.ID{Ms: last.Ms, Seq: last.Seq + 1}
	}
	if err := r.keepOwn(at, record.Body()); err != nil {
		return r.unavailable(err)
	}
	return r.complete(d, at, record.Tag)
}

func (r *replica) complete(d *draft, at quota.ID, tag Tag) error {
	for i := range d.entries {
		d.entries[i].ID = newID(at, i, tag)
	}
	if d.done == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unavailable(r.copy.with(func() error {
		d.done(r.copy.advance(at.Time()))
		return nil
	}))
}

// notAfter returns the time, in ms, until which the draft holds: a limit that is lifted
// refuses again when its period ends, and one that is lent to when a loan does.
func (d *draft) notAfter() int64 {
	until := d.now.Add(lateTime)
	for _, limit := range d.credential.Limits {
		if limit.LiftedAt(d.now) {
			if _, end := limit.Window.Bounds(d.now); end.Before(until) {
				until = end.Add(-time.Millisecond)
			}
		}
		for _, l := range quota.Lending(d.account().Lent[limit.Name], d.now) {
			if !until.Before(l.Until) {
				until = l.Until.Add(-time.Millisecond)
			}
		}
	}
	return until.UnixMilli()
}

// yield lets a host go first that has lost too many races.
func (r *replica) yield(ctx context.Context) {
	for {
		r.mu.Lock()
		waits := r.yieldTo != HostID{} && r.ledger.clock().Before(r.yieldUntil)
		r.mu.Unlock()
		if !waits || ctx.Err() != nil {
			return
		}
		r.ledger.pause(ctx, turnTime/10)
		if _, _, err := r.learn(ctx, r.look(ctx)); err != nil {
			return
		}
	}
}

// A race is how a call fares among hosts that write to the same log.
type race struct {
	losses int
	turn   time.Time // when it asks for its turn
}

// fairly waits a little after lost races, and asks for the turn when it has lost them for long: a
// host that is slow loses few, and needs it as much as one that loses many.
func (r *replica) fairly(ctx context.Context, of *race) {
	if of.losses == 0 {
		return
	}
	if of.losses > 1 {
		var b [1]byte
		r.ledger.draw(b[:]) // so that two hosts do not go on at the same time
		r.ledger.pause(ctx, time.Duration(of.losses)*time.Duration(b[0])*time.Microsecond/2)
	}
	now := r.ledger.clock()
	if of.turn.IsZero() {
		of.turn = now.Add(patience)
	}
	if now.Before(of.turn) {
		return
	}
	of.turn = now.Add(patience)
	call := r.newCall(r.record(nil, &Statement{Kind: Turn}))
	call.Blind = true
	r.call(ctx, call) // it is read like any other record
}
