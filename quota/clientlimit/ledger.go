package clientlimit

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"quotad/quota"
)

// A Ledger decides by the records of a store. Which limits the clients have comes with each call:
// changed units apply at once to the records, and a changed window counts what they hold. Hosts whose
// windows differ keep for each other what those count. Another algorithm starts with empty records.
// A record expires when nothing in it can count any more.
type Ledger struct{ Store }

// An Ask is what one subject asks for.
type Ask struct {
	Subject Key
	Units   quota.Units // in every limit, at least 1
	Rotation
}

// A Rotation says where to find a subject whose key changes. The zero value is a key that does not.
//
// If Subject has no record, that of Former counts. A grant writes it to Subject, and so the record
// moves. Until SealMs a host may not know Subject yet. Therefore the record of Former is sealed
// before one of Subject is written, even if there is none: a host that finds the seal moves to
// Subject, or gets ErrMoved and reads the head again.
type Rotation struct {
	Former Key   // empty: none
	SealMs int64 // by the ledger's clock
	// UntilMs is when these keys may have changed again, by the ledger's clock; 0: never.
	UntilMs int64
}

// ErrMoved is the error of an ask whose subject has another key by now. Nothing was debited.
var ErrMoved = fmt.Errorf("%w: the keys of subjects have changed", quota.ErrContended)

// Decide decides the asks of each subject one after the other and returns one decision for each: it
// reads the records, decides, and replaces each that no other caller has replaced meanwhile. The
// others it decides again. A denial moves nothing; a grant debits every limit, or none. Decisions
// hold the state of every limit, and no grant id.
//
// A decision's Err is one of the store; a quota.ErrContended if others decided about the same
// subject each time until ctx ended; or ErrMoved.
func (l Ledger) Decide(ctx context.Context, c *Clients, asks []Ask) []quota.Decision {
	decisions := make([]quota.Decision, len(asks))
	open := turnsOf(c, asks)
	for len(open) > 0 {
		swaps := make([]*Swap, len(open))
		for i, t := range open {
			swaps[i] = &t.swap
		}
		l.Swap(ctx, swaps)
		open = slices.DeleteFunc(open, func(t *turn) bool {
			over, err := t.answered(c, asks, decisions)
			if !over && t.lost && ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", quota.ErrContended, ctx.Err())
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
func (l Ledger) Usage(ctx context.Context, c *Clients, of Ask) (quota.Usage, error) {
	t := turnOf(c, of)
	for over := false; !over; {
		l.Swap(ctx, []*Swap{&t.swap})
		var err error
		if over, err = t.answered(c, nil, nil); err != nil {
			return quota.Usage{}, err
		}
	}
	return c.Usage(t.record(), t.swap.ReadMs), nil
}

// Reset deletes what a subject has used. Of an ask it needs no units.
func (l Ledger) Reset(ctx context.Context, c *Clients, of Ask) error {
	if of.Former != "" { // or its record would be that of the subject again
		err := l.replace(ctx, c.place(of.Former), func(found []byte, nowMs int64) ([]byte, int64, error) {
			if len(found) == 0 && nowMs >= of.SealMs {
				return nil, 0, nil
			}
			return Seal(nil), max(of.SealMs, nowMs), nil
		})
		if err != nil {
			return err
		}
	}
	return l.replace(ctx, c.place(of.Subject), func(_ []byte, nowMs int64) ([]byte, int64, error) { return nil, nowMs, nil })
}

// replace replaces what is at a place by what f makes of it.
func (l Ledger) replace(ctx context.Context, at Place, f func(found []byte, nowMs int64) (next []byte, endsMs int64, err error)) error {
	for {
		s := &Swap{Place: at}
		if l.Swap(ctx, []*Swap{s}); s.Err != nil {
			return s.Err
		}
		next, endsMs, err := f(s.Found, s.NowMs)
		if err != nil || bytes.Equal(next, s.Found) {
			return err
		}
		s.ReadMs = s.NowMs
		s.write(at, s.Found, next, endsMs)
		if l.Swap(ctx, []*Swap{s}); s.Err != nil || s.Swapped {
			return s.Err
		}
	}
}

// A turn decides what is asked for one subject.
type turn struct {
	swap     Swap // the next one
	subject  Key
	rotation Rotation
	asks     []int // which of those that were asked together

	// The records as they were found: the subject's, and the one of its former key, without a seal.
	own, former []byte
	after       []byte // what is decided to be the subject's
	endsMs      int64
	lost        bool // another caller was the first to replace a record
}

func turnOf(c *Clients, ask Ask) turn {
	return turn{swap: Swap{Place: c.place(ask.Subject)}, subject: ask.Subject, rotation: ask.Rotation}
}

// turnsOf groups asks by subject, in their order.
func turnsOf(c *Clients, asks []Ask) []*turn {
	all, turns, of := make([]turn, len(asks)), make([]*turn, 0, len(asks)), make(map[Key]*turn, len(asks))
	for i, ask := range asks {
		t := of[ask.Subject]
		if t == nil {
			t = &all[i]
			*t = turnOf(c, ask)
			of[ask.Subject], turns = t, append(turns, t)
		}
		t.asks = append(t.asks, i)
	}
	return turns
}

// answered reads what became of the last swap, and sets the next one, unless the turn is over.
func (t *turn) answered(c *Clients, asks []Ask, decisions []quota.Decision) (over bool, err error) {
	s := &t.swap
	ofFormer := s.Subject != t.subject
	if s.Err != nil || s.Swapped && !ofFormer {
		return true, s.Err
	}
	if s.Swapped { // it is sealed
		s.write(c.place(t.subject), nil, t.after, t.endsMs)
		return false, nil
	}
	record, sealed := Unseal(s.Found)
	switch {
	case t.rotation.UntilMs > 0 && s.NowMs > t.rotation.UntilMs, sealed && !ofFormer:
		return true, ErrMoved
	case ofFormer:
		t.former = record
	case len(record) == 0 && t.rotation.Former != "" && !s.Writes:
		*s = Swap{Place: c.place(t.rotation.Former)}
		return false, nil
	default:
		t.own = record
	}
	s.ReadMs, t.lost = s.NowMs, t.lost || s.Writes
	t.decide(c, asks, decisions)
	switch {
	case t.after == nil:
		return true, nil
	case ofFormer && !sealed && s.ReadMs < t.rotation.SealMs:
		// The seal holds the record: so nothing is lost if no further swap follows.
		s.write(s.Place, record, Seal(record), max(t.rotation.SealMs, t.endsMs))
	default:
		s.write(c.place(t.subject), t.own, t.after, t.endsMs)
	}
	return false, nil
}

// record is the one to decide by.
func (t *turn) record() []byte {
	if len(t.own) > 0 {
		return t.own
	}
	return t.former
}

// decide decides by the record as it was found.
func (t *turn) decide(c *Clients, asks []Ask, decisions []quota.Decision) {
	record := t.record()
	t.after = nil
	for _, i := range t.asks {
		after, endsMs, d := c.Decide(record, t.swap.ReadMs, asks[i].Units)
		if after != nil {
			record, t.after, t.endsMs = after, after, endsMs
		}
		decisions[i] = d
	}
}

func (c *Clients) place(subject Key) Place { return Place{c.Name, c.Algorithm, subject} }
