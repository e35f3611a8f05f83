package slidinglog

import (
	"context"
	"errors"
	"slices"
	"time"

	"quotad/quota"
)

// work follows all logs until Close, and folds about once a second.
func (l *Ledger) work() {
	timer := time.NewTicker(min(time.Second, l.retry()))
	defer timer.Stop()
	folded := time.Now()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.wakeup:
		case <-timer.C:
		}
		if l.config.Store != nil {
			l.pollAll()
		}
		if time.Since(folded) >= time.Second {
			folded = time.Now()
			l.Fold() // Health reports its error
		}
	}
}

// pollAll polls the logs that are due, all in one call, and follows each log with news.
func (l *Ledger) pollAll() {
	ctx, cancel := context.WithTimeout(l.ctx, l.config.Deadline)
	defer cancel()
	var calls []Call
	idle := make(map[string]*replica)
	for _, r := range l.due() {
		if !r.tryLock() {
			continue // a call is under way
		}
		if !r.idle() {
			l.goFollow(r)
			continue
		}
		look := r.newCall(nil)
		look.Probe = true
		calls = append(calls, look)
		idle[r.name] = r
	}
	if len(calls) == 0 {
		return
	}
	for i, out := range l.config.Store.Append(ctx, calls) {
		r := idle[calls[i].Credential]
		r.recordOutcome(ctx, &calls[i], out)
		known, err := false, error(nil)
		if out.Result != Lost { // recovery takes too long for the others to wait
			known, err = r.update(ctx, out)
		}
		if err == nil && !(known && r.idle()) {
			l.goFollow(r)
		} else {
			r.unlock()
		}
	}
}

// idle reports whether the replica serves and has nothing to append: not even that this host is here, if
// another one has declared a loss.
func (r *replica) idle() bool {
	entries, hello := r.pending()
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(entries) == 0 && hello == nil && r.refused == nil && r.ready() == nil
}

// goFollow follows a log in a goroutine, so that a long one does not delay the others, and unlocks the
// replica.
func (l *Ledger) goFollow(r *replica) {
	l.workers.Go(func() {
		defer r.unlock()
		r.follow(l.ctx)
	})
}

// due returns the replicas whose logs are to be polled now.
func (l *Ledger) due() []*replica {
	now := l.config.Clock()
	return slices.DeleteFunc(l.all(), func(r *replica) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.refused != nil || r.ready() != nil {
			return now.Sub(r.followedAt) < l.retry()
		}
		return now.Sub(r.storeClockAt) < l.config.Quiet/3
	})
}

// bye declares in each log that it has everything that this host knows.
func (l *Ledger) bye() {
	if l.config.Store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.config.Deadline)
	defer cancel()
	for _, r := range l.all() {
		if r.serving() == nil && r.lock(ctx) == nil {
			r.declare(ctx, &Statement{Kind: Leaving}) // without it, the others wait for this host
			r.unlock()
		}
	}
}

const (
	// absentPeriods is how many quiet times the hosts wait for the next record of a host that has
	// written to the log. A frozen or restarting host comes back in that time.
	absentPeriods = 10
	// maxLate bounds the entries of an earlier time in a record.
	maxLate = 256
)

// retry is how often a log is tried that does not serve.
func (l *Ledger) retry() time.Duration { return l.config.Quiet / 12 }

// follow reads the log to its end and appends what it lacks. Then the replica serves, or records
// why it does not. The caller holds the lock.
func (r *replica) follow(ctx context.Context) error {
	err := r.followOnce(ctx)
	r.outrun = 0
	for lost := (race{}); errors.Is(err, errJoining) && ctx.Err() == nil; { // another host was first
		lost.records = r.outrun
		r.backOff(ctx, &lost)
		err = r.followOnce(ctx)
	}
	r.mu.Lock()
	r.followedAt = r.ledger.config.Clock()
	r.mu.Unlock()
	if err != nil {
		return r.fail(ctx, err)
	}
	r.setUp()
	return nil
}

// join returns why the replica does not serve, and follows a log that was not followed yet. The
// caller holds the lock.
func (r *replica) join(ctx context.Context) error {
	err := r.serving()
	if errors.Is(err, errJoining) {
		err = r.follow(ctx)
	}
	return err
}

// followOnce does all steps once. Each step can be repeated.
func (r *replica) followOnce(ctx context.Context) error {
	if err := r.readToEnd(ctx); err != nil {
		return err
	}
	if err := r.declareMissing(ctx); err != nil {
		return err
	}
	if err := r.replayUnplaced(ctx); err != nil {
		return err
	}
	if err := r.awaitWhole(ctx); err != nil {
		return err
	}
	return r.announce(ctx)
}

// readToEnd reads the log to its end.
func (r *replica) readToEnd(ctx context.Context) error {
	r.mu.Lock()
	fell := r.copy.facts.Loss != nil
	r.mu.Unlock()
	if fell { // it may have been in another store, before a restart
		if err := r.checkStore(); err != nil {
			return err
		}
	}
	for {
		if err := r.foldMany(1); err != nil { // or each try would read one more page
			return err
		}
		out := r.poll(ctx)
		err, ends := out.Err, out.Result == End
		switch out.Result {
		case Behind: // while others write, no look finds the end itself
			err, ends = r.catchUp(out.Tail), !out.More
		case Lost:
			err = r.startOver(out.Clock)
		}
		switch {
		case err != nil:
			return err
		case ends:
			r.mu.Lock()
			r.judgeBeginning()
			r.copy.complete()
			r.mu.Unlock()
			return nil
		}
	}
}

// declare appends a statement at the copy's position.
func (r *replica) declare(ctx context.Context, s *Statement) error {
	return r.appendRecord(ctx, r.newRecord(nil, s))
}

// appendRecord appends a record at the copy's position, and applies it to the copy.
func (r *replica) appendRecord(ctx context.Context, record *Record) error {
	call := r.newCall(record)
	switch out := r.call(ctx, call); out.Result {
	case Done:
		return r.apply([]*Record{ownRecord(Placed{At: out.At, Body: call.Body})})
	case Unknown, Failed:
		return out.Err
	default:
		r.outrun += len(out.Tail)
		return errJoining // the log has a later end: follow it again
	}
}

// ownRecord decodes a record that this host wrote.
func ownRecord(p Placed) *Record {
	record, err := decodeRecord(p)
	if err != nil {
		panic(err)
	}
	return &record
}

// statement returns a statement that names the hosts to wait for.
func (r *replica) statement(kind StatementKind) *Statement {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &Statement{Kind: kind, Hosts: r.copy.facts.known(r.needed())}
}

// replayUnplaced appends the entries that the log lacks, unchanged, oldest first.
func (r *replica) replayUnplaced(ctx context.Context) error {
	for after := (quota.ID{}); ; {
		var late []quota.Entry
		err := r.onCopy(func(c *Copy) {
			if c.facts.Unplaced > 0 {
				late = c.unplaced(after, r.ledger.maxLate)
			}
		})
		if err == nil {
			err = r.foldMany(1)
		}
		switch {
		case err != nil, len(late) == 0 && after.IsZero():
			return err
		case len(late) == 0: // what came meanwhile may be older
			after = quota.ID{}
			continue
		}
		if err := r.appendRecord(ctx, r.newRecord(late, nil)); err != nil {
			return err
		}
		after = late[len(late)-1].ID
		r.mu.Lock()
		for _, e := range late {
			if e.Kind() == quota.KindGrant && e.Gen == quota.Unplaced {
				r.booked += quota.Max(e.Charges)
			}
		}
		r.mu.Unlock()
	}
}

// awaitWhole returns nil unless the log is in a quiet period, which it ends in time. The log has
// everything that this host knows by now.
func (r *replica) awaitWhole(ctx context.Context) error {
	host, _ := r.ledger.self()
	now := r.ledger.config.Clock()
	r.mu.Lock()
	q := r.copy.facts.Quiet
	here := q != nil && q.Done[host]
	r.mu.Unlock()
	if q == nil {
		r.waitedFor = Tag{}
		return nil
	}
	if !here {
		// A host that is here grants nothing until Recovered, not even offline after a restart.
		if err := r.unavailable(r.ledger.Fold()); err != nil {
			return err
		}
		if err := r.declare(ctx, r.statement(PutBack)); err != nil {
			return err
		}
	}
	r.mu.Lock()
	ends := r.waitedEnough(q, now)
	r.mu.Unlock()
	if ends {
		return r.declare(ctx, &Statement{Kind: Recovered})
	}
	return quota.ErrRecovering
}

// waitedEnough counts how long this host waits in a quiet period, and reports whether that can end: each
// host has put back its entries, or has written nothing for absentPeriods. One that still writes puts
// entries back. mu is held.
func (r *replica) waitedEnough(q *quiet, now time.Time) bool {
	if r.waitedFor != q.Name {
		r.waitedFor, r.waited = q.Name, 0
		clear(r.written)
	} else {
		// More of a gap does not count: the store may have been unreachable for every host.
		r.waited += min(max(0, now.Sub(r.polledAt)), r.ledger.config.Quiet/6)
	}
	r.polledAt = now
	ends := r.waited >= r.ledger.config.Quiet
	for host := range q.Awaited {
		ends = ends && (q.Done[host] || r.waited-r.written[host] >= absentPeriods*r.ledger.config.Quiet)
	}
	return ends
}

// announce appends the pending entries and the hello.
func (r *replica) announce(ctx context.Context) error {
	entries, hello := r.pending()
	for some := range slices.Chunk(entries, quota.MaxAsks) { // a record has ids for no more
		if err := r.appendRecord(ctx, r.newRecord(some, nil)); err != nil {
			return err
		}
		r.mu.Lock()
		r.revoked = r.revoked[min(len(some), len(r.revoked)):] // they come first
		r.mu.Unlock()
	}
	if len(entries) > 0 {
		_, hello = r.pending()
	}
	if hello == nil {
		return nil
	}
	return r.declare(ctx, hello)
}

// pending returns the entries that the log should get: revocations and, before a hello, the
// entries that stand, so that these do not expire. A hello is due at the
// start of a host, when its configuration changes, before other hosts forget it, and after the log
// may have lost it. It is also due while an attempt is open, which cannot be carried out after another
// record, and after the store did not take a record: only one that it takes ends such an outage.
func (r *replica) pending() (entries []quota.Entry, hello *Statement) {
	host, run := r.ledger.self()
	r.mu.Lock()
	defer r.mu.Unlock()
	entries = slices.Clone(r.revoked)
	if r.configured == nil {
		return entries, nil
	}
	clock, said := r.estimated(), r.copy.facts.Hosts[host]
	hello = &Statement{Kind: Hello, Label: r.ledger.config.Label, Terms: r.terms, Longest: longestOf(r.configured)}
	fresh := len(r.maybe) == 0 && !r.unwritten && said.Run == run && said.Hello > clock.Add(-r.copy.keep()/2).UnixMilli()
	if fresh && slices.Equal(said.Terms, hello.Terms) && said.Label == hello.Label && said.Longest == hello.Longest {
		return entries, nil
	}
	r.copy.view(func() { // the next decision reports an error
		for _, id := range r.copy.standing(clock.UnixMilli()) {
			if e, found := r.copy.entry(id); found {
				entries = append(entries, e)
			}
		}
	})
	return entries, hello
}
