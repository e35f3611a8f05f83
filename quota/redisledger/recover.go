package redisledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"quotad/quota"
)

const (
	// quietTime is Local.Quiet where that is zero: how long nothing is granted after a loss,
	// counted from when the last daemon staged something.
	quietTime = 3 * time.Second
	// absence is how many times the quiet time it lasts while daemons are missing that are
	// known to have written to the log: one that is frozen or being restarted comes back,
	// one that is gone does not.
	absence = 10
	// stepTime bounds one call that stages, merges or replays entries.
	stepTime = 10 * time.Second
	// stageStep is how many entries one call stages.
	stageStep = 256
)

// heartbeat is how often a log that is decided about is looked at, so that an idle daemon
// notices a loss, within a fraction of the quiet time, before others are granted what it
// had spent.
func (l *Ledger) heartbeat() time.Duration { return l.quietTime / 3 }

// retry is how often a log is tried that is not decided about.
func (l *Ledger) retry() time.Duration { return l.quietTime / 12 }

// attention is the longest between two looks at a quiet period that counts as waiting. Who
// cannot look for longer has found Redis unreachable, as others may have who have entries
// to put back.
func (l *Ledger) attention() time.Duration { return l.quietTime / 6 }

// watch looks at an account until Close. Each has a watcher of its own: one that has much
// to put back keeps no other waiting.
func (l *Ledger) watch(a *account) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-a.kick:
		case <-timer.C:
		}
		next := l.heartbeat()
		if !a.look() {
			next = l.retry()
		}
		timer.Reset(next)
	}
}

// look finds out whether Redis decides, does what can be done about it, and returns
// whether it does.
func (a *account) look() bool {
	a.mu.Lock()
	c, down := a.credential, a.down
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(a.ledger.ctx, a.ledger.deadline)
	defer cancel()
	if down == nil {
		return a.beat(ctx, c)
	}
	switch err := a.check(ctx, c); {
	case err == nil:
		return a.replay(c)
	case errors.Is(err, quota.ErrLost):
		a.setDown(err)
		if err := a.recover(c); err != nil {
			a.setDown(err)
		}
	default:
		a.setDown(err)
	}
	return false
}

// beat looks at a log that is decided about.
func (a *account) beat(ctx context.Context, c *quota.Credential) bool {
	_, err := a.usage(ctx, c)
	if err == nil && a.hasUnanswered() {
		err = a.check(ctx, c)
	}
	if err != nil && a.ledger.ctx.Err() == nil {
		a.fail(err)
	}
	if err == nil && (c != a.agreedFor || time.Since(a.agreed) >= tellTime) && a.agree(ctx, c) == nil { // else at the next beat
		a.agreed, a.agreedFor = time.Now(), c
	}
	return err == nil
}

// hasUnanswered tells whether a call is unanswered that nobody resolves now.
func (a *account) hasUnanswered() bool {
	select {
	case a.turn <- struct{}{}:
		defer a.end()
		return a.unanswered != nil
	default:
		return false
	}
}

// check returns nil if the credential could be decided about now. It also finds out what
// became of a call that was not answered: if nothing is acquired here for long, others need
// what it holds.
func (a *account) check(ctx context.Context, c *quota.Credential) error {
	if err := a.take(ctx); err != nil {
		return err
	}
	defer a.end()
	if err := a.resolve(ctx, c); err != nil {
		return err
	}
	_, err := a.do(ctx, c, verb{script: a.ledger.scripts.acquire})
	return err
}

// recover stages what the journal knows of the log. The quiet period begins before the
// journal is read, and anew with each step: nothing is granted meanwhile, however long it
// takes. Whoever has the turn has its grants in the journal before it ends.
func (a *account) recover(c *quota.Credential) error {
	l := a.ledger
	if err := a.take(l.ctx); err != nil {
		return err
	}
	defer a.end()
	p, err := a.stage(l.ctx, c, nil, l.journal == nil, nil)
	if err != nil {
		return err
	}
	staged := 0
	if l.journal != nil {
		_, now := a.known()
		since := earlier(now, time.Now()).Add(-span(c))
		var args []any
		for _, c := range l.journal.closingEntries(a.name) { // perhaps older than any window
			args = append(args, c.id.String(), c.text)
		}
		err := l.journal.entries(a.name, since, func(id, text string) (err error) {
			staged++
			if args = append(args, id, text); len(args) == 2*stageStep {
				p, err = a.stage(l.ctx, c, &p, false, args)
				args = args[:0]
			}
			return err
		})
		if err == nil {
			p, err = a.stage(l.ctx, c, &p, true, args)
		}
		if err != nil {
			return err
		}
	}
	a.expect(p)
	a.mu.Lock()
	m := a.mark()
	a.mu.Unlock()
	if l.journal != nil {
		l.noteJournal(l.journal.mark(m))
	}
	a.setDown(errRecovering)
	l.observe(Event{Credential: a.name, Kind: Restored, Records: staged})
	return nil
}

// earlier is the earlier of two times: the log's is what its last answer said.
func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// stage begins the quiet period, or begins it anew, and stages entries. The first call takes
// the log for whichever it is; when it is lost on the way, so is what was staged. With the
// last one, which says that it is all, the daemon is no longer waited for.
func (a *account) stage(ctx context.Context, c *quota.Credential, known *position, all bool, entries []any) (position, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	whichever, last := 0, 0
	if known == nil {
		p, _ := a.known()
		known, whichever = &p, 1
	}
	if all {
		last = 1
	}
	args := append([]any{span(c).Milliseconds(), a.ledger.quietTime.Milliseconds(), whichever, last}, entries...)
	r, err := a.once(ctx, c, verb{script: a.ledger.scripts.restore, args: args, stages: true, known: known})
	switch {
	case err != nil:
		return position{}, err
	case r.status == "lost":
		return position{}, errLost
	case r.status != "done":
		return position{}, statusErrors[r.status]
	}
	return r.position, nil
}

// A quietPeriod is that of a log after a loss, as it is seen from here. Its time is the
// daemon's: on Redis' clock it would be over when somebody sets that clock.
type quietPeriod struct {
	name   string
	seen   time.Time // last
	waited time.Duration
}

var errRecovering = fmt.Errorf("%w: every daemon is putting back what it knows", quota.ErrRecovering)

// endQuiet merges what was staged and ends the quiet period, if it has lasted as long as
// its name says and nobody is missing. If not, that is the error.
func (a *account) endQuiet(c *quota.Credential, r reply) error {
	if len(r.rest) != 2 {
		return errReply
	}
	name := asText(r.rest[0]) // "call/ms"
	_, text, _ := strings.Cut(name, "/")
	length, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return errReply
	}
	if !a.waited(name, time.Duration(length)*time.Millisecond, parseDaemons(asText(r.rest[1]))) {
		return errRecovering
	}
	for {
		r, err := a.merge(c, name)
		switch {
		case err != nil:
			return err
		case r.status == "more":
			a.expect(r.position)
			continue
		case r.status == "lost":
			return errLost
		case r.status == "quiet":
			return errRecovering
		}
		a.mu.Lock()
		a.quiet = quietPeriod{}
		a.mu.Unlock()
		return nil
	}
}

// merge merges some of what was staged. It takes its time: nobody is granted anything before all
// of it is merged.
func (a *account) merge(c *quota.Credential, name string) (reply, error) {
	ctx, cancel := context.WithTimeout(a.ledger.ctx, stepTime)
	defer cancel()
	v := verb{script: a.ledger.scripts.merge, args: []any{name, span(c).Milliseconds()}, stages: true}
	return a.once(ctx, c, v)
}

// waited takes in that a log is quiet, and that these daemons have staged what they know. It
// returns whether that was long enough.
func (a *account) waited(name string, length time.Duration, here map[string]time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, q := time.Now(), a.quiet
	if q.name == name {
		q.waited += min(now.Sub(q.seen), a.ledger.attention())
	} else { // somebody has staged something since
		q = quietPeriod{name: name}
	}
	q.seen = now
	a.quiet = q
	for daemon := range a.daemons {
		if _, ok := here[daemon]; !ok {
			length *= absence
			break
		}
	}
	return q.waited >= length
}

// replayStep is how many offline grants one call books.
const replayStep = 64

// replay books what was granted offline, before anything new is granted; what is granted
// meanwhile is booked in another round.
func (a *account) replay(c *quota.Credential) bool {
	for {
		pending, all := a.pendingOffline()
		if len(pending) == 0 {
			return all && a.up()
		}
		pending = pending[:min(replayStep, len(pending))]
		if err := a.book(c, pending); err != nil {
			a.setDown(err)
			return false
		}
	}
}

func (a *account) book(c *quota.Credential, pending []offlineGrant) error {
	ctx, cancel := context.WithTimeout(a.ledger.ctx, stepTime)
	defer cancel()
	if err := a.take(ctx); err != nil {
		return err
	}
	defer a.end()
	if err := a.bookNow(ctx, c, pending); err != nil {
		return err
	}
	if err := a.ledger.journal.replayed(a.name, pending); err != nil {
		a.ledger.noteJournal(err)
		return fmt.Errorf("%w: %w", quota.ErrUnavailable, err)
	}
	a.replayed(pending)
	return nil
}

func (a *account) bookNow(ctx context.Context, c *quota.Credential, pending []offlineGrant) error {
	_, now := a.known()
	args := []any{span(c).Milliseconds()}
	for _, g := range pending {
		trace := ""
		if g.settledTo != "-" {
			trace = fmt.Sprintf("s %s %s @ -", g.id, g.settledTo)
		}
		args = append(args, g.id.String(), g.place(now).String(), g.text, g.settledTo, trace)
	}
	r, err := a.do(ctx, c, verb{script: a.ledger.scripts.replay, args: args})
	if err != nil {
		return err
	}
	if r.status != "done" {
		return errReply
	}
	return nil
}

// place is the id at which an offline grant counts: its own, unless the host's clock was
// set since or is not known to be right then. It never counts for less than it has to.
func (g *offlineGrant) place(now time.Time) quota.ID {
	const agree = 2 * time.Second
	at := now
	if !g.at.IsZero() {
		at = now.Add(-time.Since(g.at))
		if at.Sub(g.id.Time()).Abs() <= agree {
			return g.id
		}
	}
	return quota.ID{Ms: at.UnixMilli(), Seq: g.id.Seq}
}

// up lets Redis decide again, unless something was granted offline in between.
func (a *account) up() bool {
	a.mu.Lock()
	units := quota.Units(0)
	for _, g := range a.offline {
		if g.pending {
			a.mu.Unlock()
			return false
		}
		if g.id.Time().After(a.since.Add(a.skew - time.Second)) {
			units += g.units
		}
	}
	e := Event{Credential: a.name, Kind: Up, Took: time.Since(a.since), Units: units}
	a.down = nil
	a.mu.Unlock()
	a.ledger.observe(e)
	return true
}
