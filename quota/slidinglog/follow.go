package slidinglog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"quotad/quota"
)

const (
	// absence is how many times the quiet time it lasts while hosts are missing that are
	// known to have written to the log: one that is frozen or being restarted comes back, one
	// that is gone does not.
	absence = 10
	// mostLate bounds how many entries of an earlier time one record brings.
	mostLate = 256
)

// interval is how often a log is looked at that is decided about: an idle host is to notice
// a loss within a fraction of the quiet time.
func (l *Ledger) interval() time.Duration { return l.quiet / 3 }

// retry is how often a log is tried that is not decided about.
func (l *Ledger) retry() time.Duration { return l.quiet / 12 }

// attention is the longest time between two looks at a quiet period that counts as waiting.
// Over a longer one Redis may have been unreachable for everybody.
func (l *Ledger) attention() time.Duration { return l.quiet / 6 }

// follow reads the log to its end, appends what it lacks, and has the replica serve, or says
// why it does not.
func (r *replica) follow(ctx context.Context) error {
	if err := r.take(ctx); err != nil {
		return err
	}
	defer r.end()
	return r.up(ctx)
}

// up does what follow says. The caller has the turn.
func (r *replica) up(ctx context.Context) error {
	err := r.lead(ctx)
	for lost := (race{losses: 1}); err == errJoining && ctx.Err() == nil; lost.losses++ { // others write, too
		r.fairly(ctx, &lost)
		err = r.lead(ctx)
	}
	if err != nil {
		r.setDown(err)
		return err
	}
	r.setUp()
	return nil
}

// joined returns why the replica does not serve. One that nobody has followed yet, it follows.
// The caller has the turn.
func (r *replica) joined(ctx context.Context) error {
	err := r.serving()
	if err == errJoining {
		err = r.up(ctx)
	}
	return err
}

// lead does one step after the other; each can be begun again.
func (r *replica) lead(ctx context.Context) error {
	clock, err := r.toEnd(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	missing := r.copy.facts.Position.IsZero() || r.copy.facts.Missing > 0 && r.copy.facts.Quiet == nil
	r.mu.Unlock()
	if missing {
		// An empty log may have been flushed before this host knew it.
		if err := r.say(ctx, r.statement(Missing)); err != nil {
			return err
		}
	}
	if err := r.place(ctx); err != nil {
		return err
	}
	if err := r.recovered(ctx); err != nil {
		return err
	}
	return r.greet(ctx, clock)
}

// toEnd reads the log to its end.
func (r *replica) toEnd(ctx context.Context) (clock time.Time, err error) {
	for {
		switch out := r.look(ctx); out.Status {
		case End:
			return time.UnixMilli(out.Clock).UTC(), nil
		case Behind:
			if err := r.catchUp(out.Tail); err != nil {
				return clock, err
			}
		case Lost:
			if err := r.recover(ctx); err != nil {
				return clock, err
			}
		default:
			return clock, out.Err
		}
		if ctx.Err() != nil {
			return clock, fmt.Errorf("%w: %w", quota.ErrUnavailable, ctx.Err())
		}
	}
}

// say appends a statement at the end that the copy knows.
func (r *replica) say(ctx context.Context, s *Statement) error {
	return r.put(ctx, r.newRecord(nil, s))
}

// put appends a record at the end that the copy knows, and takes it into the copy.
func (r *replica) put(ctx context.Context, record *Record) error {
	call := r.newCall(record)
	switch out := r.call(ctx, call); out.Status {
	case Done:
		p := Placed{At: out.At, Body: call.Body}
		return r.enter(p, ownRecord(p))
	case Unknown, Failed:
		return out.Err
	default:
		return errJoining // the log has gone on: from the beginning
	}
}

func ownRecord(p Placed) *Record {
	record, err := decodeRecord(p)
	if err != nil {
		panic(err) // this host wrote it
	}
	return &record
}

// statement returns what this host says of the hosts that it knows.
func (r *replica) statement(kind StatementKind) *Statement {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &Statement{Kind: kind, Waits: r.copy.facts.known(r.copy.oldest())}
}

// place appends the entries that the log lacks, as they are, the oldest first.
func (r *replica) place(ctx context.Context) error {
	for {
		var late []quota.Entry
		r.mu.Lock()
		err := r.copy.with(func() error {
			if r.copy.facts.Unplaced > 0 {
				late = r.copy.unplaced(mostLate)
			}
			return nil
		})
		r.mu.Unlock()
		if err != nil || len(late) == 0 {
			return err
		}
		if err := r.put(ctx, r.newRecord(late, nil)); err != nil {
			return err
		}
		r.mu.Lock()
		for _, e := range late {
			if e.Kind == quota.KindGrant && e.Gen == quota.Unplaced {
				r.booked += quota.Max(e.Charges)
			}
		}
		r.mu.Unlock()
	}
}

// recovered returns nil unless the log is quiet. All that this host knows is in it by now.
func (r *replica) recovered(ctx context.Context) error {
	host, _ := r.ledger.self()
	now := r.ledger.clock()
	r.mu.Lock()
	q := r.copy.facts.Quiet
	here := q != nil && q.Here[host]
	r.mu.Unlock()
	if q == nil {
		r.waitedFor = Tag{}
		return nil
	}
	if !here {
		if err := r.say(ctx, r.statement(Here)); err != nil {
			return err
		}
	}
	r.mu.Lock()
	name, complete := q.Name, q.complete()
	r.mu.Unlock()
	if r.waitedFor != name {
		r.waitedFor, r.waited = name, 0
	} else {
		r.waited += min(max(0, now.Sub(r.looked)), r.ledger.attention())
	}
	r.looked = now
	if r.waited >= absence*r.ledger.quiet || complete && r.waited >= r.ledger.quiet {
		return r.say(ctx, &Statement{Kind: Whole})
	}
	return quota.ErrRecovering
}

// greet appends what the log is still owed, and says how this host counts.
func (r *replica) greet(ctx context.Context, clock time.Time) error {
	if owed := r.owed(clock); len(owed) > 0 {
		if err := r.put(ctx, r.newRecord(owed, nil)); err != nil {
			return err
		}
		r.mu.Lock()
		r.undo = nil
		r.mu.Unlock()
	}
	if hello := r.hello(clock); hello != nil {
		return r.say(ctx, hello)
	}
	return nil
}

// hello returns what this host says of itself: at its start, when how it counts changes and
// before others forget it; nil if it is not due. It is also due where a call may still be
// carried out: behind a hello it is not.
func (r *replica) hello(clock time.Time) *Statement {
	host, run := r.ledger.self()
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.configured
	if c == nil {
		return nil
	}
	said := r.copy.facts.Hosts[host]
	hello := &Statement{Kind: Hello, Label: r.ledger.label, Terms: r.terms, Longest: longestOf(c)}
	fresh := r.maybe == nil && said.Run == run && said.Hello > clock.Add(-r.copy.keep()/2).UnixMilli()
	if fresh && slices.Equal(said.Terms, hello.Terms) && said.Label == hello.Label && said.Longest == hello.Longest {
		return nil
	}
	return hello
}

// owing tells whether grants are to be given back of which nobody was told.
func (r *replica) owing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.undo) > 0
}

// owed returns entries that are due: what gives back grants that nobody was told of and,
// before a hello, which limits are closed, or lent to, so that this outlives the entries that
// say so.
func (r *replica) owed(clock time.Time) []quota.Entry {
	hello := r.hello(clock)
	r.mu.Lock()
	defer r.mu.Unlock()
	owed := slices.Clone(r.undo)
	if hello == nil {
		return owed
	}
	return append(owed, r.copy.standing(clock)...)
}
