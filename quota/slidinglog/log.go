package slidinglog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"quotad/quota"
	"quotad/quota/journal"
)

// A log is this host's side of a credential's log: what it knows of it, and its journal. One without a journal is of a
// credential that is not configured any more.
type log struct {
	ledger  *Ledger
	engine  Engine
	name    string
	journal *journal.Journal

	restoring chan struct{} // has an element while entries are being put back
	stop      context.CancelFunc
	mirrored  mirrored // changed by poll alone, with mu held

	mu         sync.Mutex // guards what follows; nothing waits under it
	credential *quota.Credential
	policy     Policy
	known
	told       int64         // the engine's TIME in the newest answer
	asked      time.Time     // when that was asked for
	toldAt     time.Time     // when it came, by the monotonic clock
	ahead      time.Duration // of the log's clock before TIME
	quietUntil time.Time     // by the machine's clock
	down       error         // why the engine cannot be reached, or takes no writes
	downSince  time.Time
	failing    error                       // why the journal takes nothing
	knownAt    time.Time                   // when the engine answered last
	holds      map[string]quota.LimitState // what each limit held then
	offline    []offlineGrant              // that the allowance counts, the oldest first
	alone      quota.Units                 // that it granted since the engine is away
}

// nowMicros estimates the engine's TIME after a while, by the machine's monotonic clock; 0: it never answered. mu is
// held.
func (l *log) nowMicros(d time.Duration) int64 {
	if l.told == 0 {
		return 0
	}
	return l.told + (time.Since(l.toldAt) + d).Microseconds()
}

// logTime estimates the time at which the log would decide. mu is held.
func (l *log) logTime() time.Time {
	return atMicros(max(cmp.Or(l.nowMicros(0), time.Now().UnixMicro()), l.seen+1))
}

// learnTime takes the engine's TIME from an answer, unless a newer call had one. mu is held.
func (l *log) learnTime(told, newest int64, asked time.Time) {
	if asked.After(l.asked) {
		l.told, l.asked, l.toldAt = told, asked, time.Now()
		l.ahead = time.Duration(max(0, newest-told)) * time.Microsecond
	}
}

func (l *log) current() (*quota.Credential, known) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.credential, l.known
}

// know fills in what the host knows. What the log has to have before is put back first.
func (l *log) know(ctx context.Context, c *call) error {
	l.mu.Lock()
	unknown, alone := l.epoch == "", len(l.notBack()) > 0
	l.mu.Unlock()
	if unknown || alone {
		if err := l.restore(ctx, "", unknown); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.known, c.until = l.known, 0
	if deadline, bounded := ctx.Deadline(); bounded {
		c.until = l.nowMicros(time.Until(deadline))
	}
	if c.at != nil {
		c.checks = c.at(l.logTime())
	}
	c.askedAt = time.Now()
	return nil
}

// learn takes from an answer what it says of the log. It reports whether the host still knows the log that it asked.
func (l *log) learn(c *call, r reply) (same bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.learnTime(r.time, r.clock, c.askedAt)
	if l.epoch != c.epoch {
		return false
	}
	if misdated(r.text) > 0 {
		l.epoch, l.knownAt = "", time.Time{} // another log has begun
		clear(l.holds)
	}
	l.seen = max(l.seen, r.clock)
	if r.word == quiet {
		l.quietUntil = time.Now().Add(time.Duration(r.at-r.time) * time.Microsecond)
	} else if r.word != lost {
		l.quietUntil = time.Time{}
	}
	return true
}

// Of a call: how often its answer may be that the log is lost, when another host has to help; and how long it waits
// before it asks again for an answer that did not come.
const (
	mostLosses   = 4
	betweenTries = 5 * time.Millisecond
)

// ask asks the log until it has an answer to give: again where it was lost meanwhile, or an answer did not come. What
// is granted or done is in the journal then.
func (l *log) ask(ctx context.Context, c *call) (r reply, err error) {
	if l.journal == nil {
		return r, l.left()
	}
	if !l.engine.Shared() {
		ctx = context.WithoutCancel(ctx) // a machine that is busy answers late, rather than not
		if err := l.unwritten(); err != nil && c.id != "" {
			return r, err
		}
	}
	unknown, losses := false, 0
	for ctx.Err() == nil {
		if err = l.know(ctx, c); err == nil {
			r, err = l.run(ctx, c)
		}
		l.note(err, r.word == granted || r.word == done)
		if err != nil {
			unknown = unknown || c.id != "" && errors.Is(err, quota.ErrOutcomeUnknown)
			if unknown && quota.Sleep(ctx, betweenTries) {
				continue
			}
			break
		}
		same := l.learn(c, r)
		switch r.word {
		case late, clock:
			continue
		case quiet:
			return r, quota.ErrRecovering
		case lost:
			if losses++; losses > mostLosses {
				return r, quota.ErrRecovering
			}
			if err := l.restore(ctx, c.epoch, true); err != nil {
				return r, err
			}
			continue
		case granted, again, done:
			if err := l.wrote(r, c.id); err != nil {
				return r, err
			}
			if !same {
				continue // it may be in a log that is gone
			}
		}
		return r, nil
	}
	return r, timedOut(ctx, unknown, err)
}

// left is the error of a log without a journal.
func (l *log) left() error {
	return fmt.Errorf("%w: credential %q is not configured any more", quota.ErrUnusable, l.name)
}

// timedOut returns the error of a call whose deadline has passed, or that failed.
func timedOut(ctx context.Context, unknown bool, err error) error {
	switch {
	case unknown && !errors.Is(err, quota.ErrOutcomeUnknown):
		return fmt.Errorf("%w: %w", quota.ErrOutcomeUnknown, cmp.Or(err, context.Cause(ctx)))
	case err == nil:
		return fmt.Errorf("%w: %w", quota.ErrUnavailable, context.Cause(ctx))
	}
	return err
}

// note keeps whether the engine can be reached, and reports a change: it is away from a call that failed until
// something is written, however well it can be read.
func (l *log) note(err error, wrote bool) {
	if err == nil && !wrote || err != nil && !outage(err) && !errors.Is(err, quota.ErrUnusable) {
		return
	}
	l.mu.Lock()
	was, e := l.down, Event{Credential: l.name, Kind: Up, Took: time.Since(l.downSince), Units: l.alone}
	if l.down = err; err == nil {
		l.alone = 0
	} else if was == nil {
		l.downSince, e = time.Now(), Event{Credential: l.name, Kind: Down, Err: err}
	}
	l.mu.Unlock()
	if (was == nil) != (err == nil) {
		l.ledger.config.OnEvent(e)
	}
}

// away reports whether an error of a log that hosts share is an outage, in which a policy decides.
func (l *log) away(err error) bool { return err != nil && l.engine.Shared() && outage(err) }

// outage reports whether the engine does not answer, or refuses for now.
func outage(err error) bool {
	if !errors.Is(err, quota.ErrUnavailable) && !errors.Is(err, quota.ErrOutcomeUnknown) {
		return false
	}
	other := []error{quota.ErrLost, quota.ErrRecovering, quota.ErrUnusable, context.Canceled} // the caller has gone
	return !slices.ContainsFunc(other, func(e error) bool { return errors.Is(err, e) })
}

// health adds the state of the log.
func (l *log) health(h *quota.Health) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wrong := l.down
	if l.failing != nil {
		h.Unwritten = append(h.Unwritten, l.failing.Error())
		if !l.engine.Shared() {
			wrong = l.failing
		}
	}
	if wrong != nil && h.Reachable {
		h.State, h.Reachable = wrong.Error(), false
	}
	if time.Now().Before(l.quietUntil) {
		h.Recovering = append(h.Recovering, l.name)
	}
	if l.ahead > aheadOf {
		h.Clock = append(h.Clock, fmt.Sprintf("the log of %s is %s ahead of the clock: what it holds leaves late, "+
			"by as much; quotactl reset %[1]s --yes begins another one", l.name, quota.Brief(l.ahead.Truncate(time.Second))))
	}
	if lag := time.Since(l.mirrored.whole); l.engine.Shared() && l.down == nil && !l.mirrored.whole.IsZero() && lag > mostLag {
		h.Warnings = append(h.Warnings, fmt.Sprintf("the journal of %s lags behind the log by %s: what others wrote "+
			"since is on no disk of this host", l.name, quota.Brief(lag.Truncate(time.Second))))
	}
}
