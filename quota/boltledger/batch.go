package boltledger

import (
	"iter"
	"slices"
	"time"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// A batch is what one call decides: its entries stand behind those of the file
// until they are written.
type batch struct {
	credential *quota.Credential
	state      *slidinglog.Account // the account's own; a copy where nothing is to be written
	clock, now time.Time           // the host's, and the account's
	file       buckets             // of the reading transaction
	last       quota.ID            // of the file

	entries []quota.Entry
	changed []slidinglog.Change     // entries that a correction writes over
	keys    map[string]int          // request keys of entries
	closed  map[string]quota.Closed // what was closed before
	closes  bool                    // one of the entries closes or opens a limit
	emptied bool                    // what the file has of the credential is to go
	trimmed quota.ID                // entries up to here were deleted with the batch
	err     error                   // of reading the log, which After cannot return
}

// begin brings the batch's account up to what the host's clock shows.
func (b *batch) begin(state *slidinglog.Account, clock time.Time) error {
	b.state, b.last, b.closed, b.clock = state, state.Last, state.Closed, clock
	b.now = b.state.Advance(b.credential, b.clock, b)
	return b.err
}

func (b *batch) isEmpty() bool { return len(b.entries) == 0 && len(b.changed) == 0 && !b.emptied }

// undo has the account count what it did before the batch.
func (b *batch) undo() {
	for i, e := range slices.Backward(b.entries) {
		last := b.last
		if i > 0 {
			last = b.entries[i-1].ID
		}
		b.state.Remove(&e, last)
	}
	for _, c := range slices.Backward(b.changed) {
		b.state.Undo(c)
	}
	b.state.Closed = b.closed
}

// After implements slidinglog.Entries: the file's entries, then the batch's own.
func (b *batch) After(id quota.ID) iter.Seq[quota.Entry] {
	return func(yield func(quota.Entry) bool) {
		file := b.file
		if b.emptied {
			file = buckets{}
		}
		for e, err := range file.entries(id, false) {
			if err != nil {
				b.err = err
				return
			}
			if !yield(e) {
				return
			}
		}
		for _, e := range b.entries {
			if id.Less(e.ID) && !yield(e) {
				return
			}
		}
	}
}

func (b *batch) decide(ask quota.Ask) (quota.Decision, error) {
	if key := ask.Key(); key != "" {
		e, found, err := b.granted(key)
		if err != nil {
			return quota.Decision{}, err
		}
		if found {
			return b.replay(ask, e), nil
		}
	}
	if ask.AtMost {
		ask = ask.Fewer(b.takes(ask))
	}
	d := b.state.Decide(b.credential, ask.Charges, ask.UseReserve, b.clock, b)
	if d.Granted() {
		d.GrantID = quota.GrantID(b.credential.Name, b.append(quota.NewEntry(ask, quota.ID{})))
		d.Limits = b.state.States(b.credential, ask.Charges, b.now)
		d.Count = ask.Granted()
	}
	return d, b.err
}

// takes returns how many of its calls an ask is decided for: those that fit, or one.
func (b *batch) takes(ask quota.Ask) quota.Units {
	most := max(1, b.state.Most(b.credential, ask, b.now))
	if most > 1 && !b.state.Decide(b.credential, ask.Fewer(most).Charges, ask.UseReserve, b.clock, b).Granted() {
		return 1 // a limit is closed
	}
	return most
}

// granted finds the grant that a request key stands for, while it counts anywhere.
func (b *batch) granted(key string) (quota.Entry, bool, error) {
	if i, ok := b.keys[key]; ok {
		return b.entries[i], true, nil
	}
	id, ok := b.file.granted(key)
	if !ok || !b.state.Counted(id) {
		return quota.Entry{}, false, nil
	}
	return b.file.entry(id)
}

func (b *batch) replay(ask quota.Ask, e quota.Entry) quota.Decision {
	if !ask.Repeats(e.Operation, e.Count) {
		return quota.Conflict(e.Operation, e.Count)
	}
	ask = ask.Fewer(e.Count)
	return quota.Decision{
		Count:    ask.Granted(),
		GrantID:  quota.GrantID(b.credential.Name, e.ID),
		Replayed: true,
		Units:    quota.Max(ask.Charges),
		Limits:   b.state.States(b.credential, ask.Charges, b.now),
	}
}

// append writes an entry at now, and returns its id.
func (b *batch) append(e quota.Entry) quota.ID {
	e.ID = b.state.Next(b.now)
	e.At = e.ID.Time()
	if e.Key != "" {
		b.keys[e.Key] = len(b.entries)
	}
	b.entries = append(b.entries, e)
	b.state.Append(&e)
	return e.ID
}

// correct appends the entry of a correction, and says in it who made it.
func (b *batch) correct(e quota.Entry, by quota.Caller) {
	e.By, e.Region = by.By(), by.Region
	b.append(e)
}

func (b *batch) settle(s quota.Settlement) (quota.Decision, error) {
	was, found, err := b.file.entry(s.Grant)
	if err != nil {
		return quota.Decision{}, err
	}
	if !found || was.Kind != quota.KindGrant || !b.state.Counted(was.ID) {
		return quota.Gone(quota.GrantID(b.credential.Name, s.Grant)), nil
	}
	if !was.Settled || was.SettledTo != s.Units {
		trace := quota.Entry{Kind: quota.KindSettlement, Grant: was.ID, SettledTo: s.Units}
		changed := slidinglog.Change{Was: was, Is: was}
		trace.Before, trace.After = changed.Is.Settle(s.Units)
		if err := b.state.Change(changed); err != nil {
			return quota.Decision{Reason: quota.BadRequest, Detail: err.Error()}, nil
		}
		b.changed = append(b.changed, changed)
		b.correct(trace, s.Caller)
	}
	return quota.Decision{GrantID: quota.GrantID(b.credential.Name, was.ID), Units: s.Units, Limits: b.states(was)}, nil
}

// states returns the limits that an entry was charged in.
func (b *batch) states(e quota.Entry) []quota.LimitState {
	var charges []quota.Charge
	for _, limit := range b.credential.Limits {
		if units, charged := quota.ChargeIn(e.Charges, limit.Name); charged {
			charges = append(charges, quota.Charge{Limit: limit.Name, Units: units})
		}
	}
	return b.state.States(b.credential, charges, b.now)
}

// giveBackStep bounds how many entries one transaction changes, so that whoever
// decides is not kept waiting for long.
const giveBackStep = 10_000

// adjust books an adjustment, and reports whether there is more of it to book.
func (b *batch) adjust(a quota.Adjustment) (d quota.Decision, more bool) {
	i := b.credential.Index(a.Limit)
	if i < 0 {
		return quota.Decision{Reason: quota.BadRequest, Detail: "unknown limit " + a.Limit}, false
	}
	booked := quota.Units(a.Units)
	if a.Units > 0 {
		if err := b.state.Room(i, booked); err != nil {
			return quota.Decision{Reason: quota.BadRequest, Detail: err.Error()}, false
		}
	} else {
		b.changed, booked = b.state.GiveBack(i, -booked, giveBackStep, b)
		booked = -booked
		more = len(b.changed) == giveBackStep && b.state.Used(i) > 0 && int64(booked) > a.Units
	}
	b.correct(quota.Entry{
		Kind: quota.KindAdjustment, Note: a.Note, Asked: a.Units,
		Charges: []quota.Charge{{Limit: a.Limit, Units: booked}},
	}, a.Caller)
	limits := b.state.States(b.credential, []quota.Charge{{Limit: a.Limit}}, b.now)
	return quota.Decision{Units: max(booked, -booked), Limits: limits}, more
}

// closeLimit closes or opens a limit, and reports whether that changes anything.
func (b *batch) closeLimit(k quota.Closing) bool {
	e, changes := k.Closes(b.state.Closed[k.Limit].At(b.now), b.now)
	if !changes {
		return false
	}
	e.ID = b.append(e)
	b.state.CloseLimit(&e, b.now)
	b.closes = true
	return true
}

// reset drops what there is. Where the newest entry is ahead of the clock, the log
// begins at the clock again.
func (b *batch) reset(by quota.Caller, note string) {
	b.emptied = true
	b.state = &slidinglog.Account{Last: b.last}
	if b.last.Ms > b.clock.UnixMilli() {
		b.state.Last = quota.ID{}
	}
	b.now = b.state.Advance(b.credential, b.clock, b)
	b.correct(quota.Entry{Kind: quota.KindReset, Note: note}, by)
}
