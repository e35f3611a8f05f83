package clientlimit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"quotad/quota"
)

// A Decider decides by the records of a store. Which limits the clients have comes with each call:
// changed units apply at once to the records. Another algorithm and other windows have other records.
// A record expires when nothing in it can count any more.
type Decider struct {
	Store
	Kept *Cache // nil: each decision reads its record first
}

// An Ask is what one subject asks for.
type Ask struct {
	Subject Key
	Units   quota.Units // in every limit, at least 1
	Period
}

// A Period is the time in which a subject has its key. The zero value is a key that it has for ever.
//
// No record is written after its period, so the one of the period before is final. A subject without
// a record has what that one counts: its first grant in a period writes both.
type Period struct {
	Before       Key   // the key in the period before
	BeforeEndsMs int64 // when nothing of that counts any more
	EndsMs       int64 // of the period
}

// A movedError is the error of an ask whose period is over. Nothing was debited.
type movedError struct{ clockMs int64 }

func (movedError) Error() string {
	return quota.ErrContended.Error() + ": the keys of subjects have changed"
}

func (movedError) Unwrap() error { return quota.ErrContended }

// over returns an error if a period is over.
func (p Period) over(clockMs int64) error {
	if p.EndsMs > 0 && clockMs >= p.EndsMs {
		return movedError{clockMs}
	}
	return nil
}

// notAfterMs is when a record of the period is written last; 0: it has no end.
func (p Period) notAfterMs() int64 { return max(0, p.EndsMs-1) }

// counts reports whether a record of the period before may count.
func (p Period) counts(clockMs int64) bool { return p.Before != "" && clockMs < p.BeforeEndsMs }

// Decide decides the asks of each subject one after the other and returns one decision for each: it
// reads the records, decides, and replaces each that no other caller has replaced meanwhile. The
// others it decides again. A denial changes nothing; a grant debits every limit, or none. Decisions
// hold the state of every limit, and no grant id.
//
// A decision's Err is one of the store; or a quota.ErrContended if others decided about the same
// subject each time until ctx ended, or if the period of the ask is over.
func (l Decider) Decide(ctx context.Context, c *Clients, asks []Ask) []quota.Decision {
	decisions := make([]quota.Decision, len(asks))
	open := turnsOf(c, asks)
	for _, t := range open {
		t.guess(l.Kept, c, asks, decisions)
	}
	for len(open) > 0 {
		swaps := make([]*Swap, len(open))
		for i, t := range open {
			swaps[i] = &t.swap
		}
		l.Swap(ctx, swaps)
		open = slices.DeleteFunc(open, func(t *turn) bool {
			over, err := t.answered(c, asks, decisions)
			if t.swap.Swapped {
				l.Kept.put(t.swap.Place, t.swap.Next, t.swap.NowMs)
			}
			if t.lost && ctx.Err() != nil && (err != nil || !over) { // the store has answered this call
				err = fmt.Errorf("%w: %w", quota.ErrContended, cmp.Or(err, ctx.Err()))
			}
			for _, i := range t.asks {
				if err != nil {
					decisions[i] = quota.Decision{Err: err}
				}
			}
			return over || err != nil
		})
	}
	return decisions
}

// Usage returns the state of every limit for one subject, and changes nothing. Of an ask it needs no
// units.
func (l Decider) Usage(ctx context.Context, c *Clients, of Ask) (quota.Usage, error) {
	t := turn{swap: Swap{Place: c.Place(of.Subject)}, of: of}
	for over := false; !over; {
		l.Swap(ctx, []*Swap{&t.swap})
		var err error
		if over, err = t.answered(c, nil, nil); err != nil {
			return quota.Usage{}, err
		}
	}
	return c.Usage(t.record(), t.clockMs), nil
}

// Reset deletes what a subject has used. Of an ask it needs no units. While the record of the period
// before may count, an empty one takes its place.
func (l Decider) Reset(ctx context.Context, c *Clients, of Ask) error {
	return l.replace(ctx, c.Place(of.Subject), of.notAfterMs(), func(_ []byte, nowMs int64) (next []byte, endsMs int64, err error) {
		if of.counts(nowMs) {
			next, _ = c.read(nil, 0).encode() // at no time: the clock may step back
			return next, of.BeforeEndsMs, of.over(nowMs)
		}
		return nil, nowMs, of.over(nowMs)
	})
}

// replace replaces what is at a place by what f makes of it, not after a time if that is not 0.
func (l Decider) replace(ctx context.Context, at Place, notAfterMs int64, f func(found []byte, nowMs int64) (next []byte, endsMs int64, err error)) error {
	for {
		s := &Swap{Place: at}
		if l.Swap(ctx, []*Swap{s}); s.Err != nil {
			return s.Err
		}
		next, endsMs, err := f(s.Found, s.NowMs)
		if err != nil || bytes.Equal(next, s.Found) {
			return err
		}
		*s = Swap{Place: at, Writes: true, Read: s.Found, ReadMs: s.NowMs, Next: next, EndsMs: endsMs, NotAfterMs: notAfterMs}
		if l.Swap(ctx, []*Swap{s}); s.Err != nil || s.Swapped {
			return s.Err
		}
	}
}

// A turn decides what is asked for one subject.
type turn struct {
	swap Swap // the next one
	of   Ask
	asks []int // which of those that were asked together

	own     []byte // the subject's record as it was found at clockMs
	clockMs int64
	before  []byte // the record of the period before
	looked  bool   // it was read
	blind   bool   // the next swap writes where no record is known, and there may be one
	lost    bool   // another caller was the first to replace the record
}

// turnsOf groups asks by subject, in their order.
func turnsOf(c *Clients, asks []Ask) []*turn {
	all, turns, of := make([]turn, len(asks)), make([]*turn, 0, len(asks)), make(map[Key]*turn, len(asks))
	group := c.group()
	for i, ask := range asks {
		t := of[ask.Subject]
		if t == nil {
			t = &all[i]
			*t = turn{swap: Swap{Place: Place{group, ask.Subject}}, of: ask}
			of[ask.Subject], turns = t, append(turns, t)
		}
		t.asks = append(t.asks, i)
	}
	return turns
}

// guess decides by the record that is kept of the subject, or by none if none is. If anything is granted, the first
// swap writes: that it does so shows that the record is the one that is there.
func (t *turn) guess(kept *Cache, c *Clients, asks []Ask, decisions []quota.Decision) {
	text, clockMs := kept.get(t.swap.Place)
	if clockMs == 0 || t.of.over(clockMs) != nil || len(text) == 0 && t.of.counts(clockMs) {
		return
	}
	t.own, t.clockMs = text, clockMs
	next, endsMs := t.decide(c, asks, decisions)
	if next == nil {
		t.own = nil
		return
	}
	t.write(next, endsMs)
	t.blind = len(text) == 0
	t.swap.NotAfterMs = clockMs + keptMs
	if ends := t.of.notAfterMs(); ends > 0 {
		t.swap.NotAfterMs = min(t.swap.NotAfterMs, ends)
	}
}

// write has the next swap write.
func (t *turn) write(next []byte, endsMs int64) {
	if t.of.counts(t.clockMs) { // with the clock set back, that may be after all that the record counts
		endsMs = max(endsMs, t.of.BeforeEndsMs)
	}
	t.swap = Swap{
		Place: Place{t.swap.Group, t.of.Subject}, Writes: true, Read: t.own, ReadMs: t.clockMs, Next: next, EndsMs: endsMs,
		NotAfterMs: t.of.notAfterMs(),
	}
}

// answered reads what became of the last swap, and sets the next one, unless the turn is over.
func (t *turn) answered(c *Clients, asks []Ask, decisions []quota.Decision) (over bool, err error) {
	s := &t.swap
	if s.Err != nil || s.Swapped {
		return true, s.Err
	}
	if s.Subject == t.of.Subject {
		t.lost = t.lost || s.Writes && !t.blind
		t.blind = false
		t.own, t.clockMs = s.Found, s.NowMs
		if err := t.of.over(t.clockMs); err != nil {
			return true, err
		}
		if len(t.own) == 0 && !t.looked && t.of.counts(t.clockMs) {
			*s = Swap{Place: Place{s.Group, t.of.Before}}
			return false, nil
		}
	} else {
		t.before, t.looked = s.Found, true
	}
	next, endsMs := t.decide(c, asks, decisions)
	if next == nil {
		return true, nil
	}
	t.write(next, endsMs)
	return false, nil
}

// record is the one to decide by.
func (t *turn) record() []byte {
	if len(t.own) > 0 {
		return t.own
	}
	return t.before
}

// decide decides by the record, and returns the next one, or nil if no ask is granted.
func (t *turn) decide(c *Clients, asks []Ask, decisions []quota.Decision) (next []byte, endsMs int64) {
	record := t.record()
	for _, i := range t.asks {
		after, afterEndsMs, d := c.Decide(record, t.clockMs, asks[i].Units)
		if after != nil {
			record, next, endsMs = after, after, afterEndsMs
		}
		decisions[i] = d
	}
	return next, endsMs
}

// movedTo returns the clock of a movedError, or 0.
func movedTo(err error) (clockMs int64) {
	var moved movedError
	if errors.As(err, &moved) {
		return moved.clockMs
	}
	return 0
}

// Place returns the place of a subject's record.
func (c *Clients) Place(subject Key) Place { return Place{c.group(), subject} }
