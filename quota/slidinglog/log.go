package slidinglog

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"quotad/quota"
	"quotad/quota/journal"
)

// A log is this host's side of a credential's log: what it knows of it, and its journal.
type log struct {
	ledger  *Ledger
	engine  Engine
	name    string
	journal *journal.Journal

	restoring chan struct{} // has an element while entries are being put back
	stop      context.CancelFunc

	mu         sync.Mutex // guards what follows; nothing waits under it
	credential *quota.Credential
	policy     Policy
	keep       int64  // µs; the greatest of all hosts
	epoch      string // of the log that the host knows; empty: none
	lostEpoch  string // of the one that was lost last
	seen       int64  // the newest time of that log
	last       string // the newest entry in the journal that was in the log
	lastAt     int64
	told       int64     // the engine's TIME in the newest answer
	asked      time.Time // when that was asked for
	toldAt     time.Time // when it came, by the monotonic clock
	down       error     // why the engine cannot be reached
	readOnly   bool      // a write found it so
	downSince  time.Time
	quietUntil time.Time // by the machine's clock
	losses     []time.Time
	ahead      time.Duration    // of the log's clock before TIME
	heard      quota.Usage      // when the engine answered last
	offline    []offlineGrant   // that the allowance counts, the oldest first
	alone      quota.Units      // that it granted since the engine is away
	unwritten  []journal.Record // what the journal could not take
	failing    error            // why
	mirrored   mirrored
}

// keepCorrections is for how long journals keep closings, openings and resets at least.
const keepCorrections = 48 * time.Hour

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
	now := l.nowMicros(0)
	if now == 0 {
		now = time.Now().UnixMicro()
	}
	return atMicros(max(now, l.seen+1))
}

// know fills in what the host knows.
func (l *log) know(ctx context.Context, c *call) error {
	l.mu.Lock()
	unknown, alone := l.epoch == "", len(l.notBack()) > 0
	l.mu.Unlock()
	switch {
	case unknown:
		if err := l.restore(ctx, ""); err != nil {
			return err
		}
	case alone:
		if err := l.putBackOffline(ctx); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.epoch, c.seen, c.keep, c.last, c.lastAt, c.until = l.epoch, l.seen, l.keep, l.last, l.lastAt, 0
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
	if c.askedAt.After(l.asked) {
		l.told, l.asked, l.toldAt = r.time, c.askedAt, time.Now()
		l.ahead = time.Duration(max(0, r.clock-r.time)) * time.Microsecond
	}
	if l.epoch != c.epoch {
		return false
	}
	if misdated(r.text) > 0 {
		l.epoch, l.heard = "", quota.Usage{} // another log has begun
	}
	l.seen = max(l.seen, r.clock)
	if r.word == quiet {
		l.quietUntil = time.Now().Add(time.Duration(r.at-r.time) * time.Microsecond)
	} else if r.word != lost {
		l.quietUntil = time.Time{}
	}
	return true
}

// fresh keeps what an answer says of limits, for an outage.
func (l *log) fresh(checks []quota.Check, r reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := atMicros(r.time)
	if l.heard.Now.IsZero() || at.Before(l.heard.Now) {
		return // another one was asked later
	}
	l.heard.Now = at
	for i, k := range checks {
		for j := range l.heard.Limits {
			if s := &l.heard.Limits[j]; s.Name == k.Limit && i < len(r.limits) {
				s.Used = r.limits[i].used
			}
		}
	}
}

// mostLosses is how often the answer to one call may be that the log is lost: then another host has to help.
const mostLosses = 4

// ask asks the log until it has an answer to give: again where it was lost meanwhile, or an answer did not come. What
// is granted or done is in the journal then.
func (l *log) ask(ctx context.Context, c *call) (r reply, err error) {
	if !l.engine.Shared() {
		ctx = context.WithoutCancel(ctx) // a machine that is busy answers late, rather than not
	}
	unknown, losses := false, 0
	for {
		if ctx.Err() != nil {
			return r, timedOut(ctx, unknown, err)
		}
		if err = l.know(ctx, c); err == nil {
			r, err = l.run(ctx, c)
		}
		if decided := r.word != quiet && r.word != lost && r.word != late; err != nil || decided {
			l.note(err, c.id != "" && (err != nil || r.word == granted || r.word == done))
		}
		if err != nil {
			unknown = unknown || c.id != "" && errors.Is(err, quota.ErrOutcomeUnknown)
			if unknown && quota.Sleep(ctx, betweenTries) {
				continue
			}
			return r, timedOut(ctx, unknown, err)
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
			l.lose(c.epoch)
			if err := l.restore(ctx, c.epoch); err != nil {
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
}

// betweenTries is how long a call waits before it asks again for an answer that did not come.
const betweenTries = 5 * time.Millisecond

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

// wrote has an entry that the log answered for in the journal; on one host alone, durably.
func (l *log) wrote(r reply, id string) error {
	if r.text == "" || r.word == again && l.journal.Has(id) {
		return nil
	}
	record := journal.Record{Kind: journal.Own, At: r.at, ID: id, Text: r.text}
	memory, alone := l.engine.(*Memory)
	switch {
	case l.engine.Shared():
		l.write(record) // what fails is in Health: the log has the entry, and other hosts do
		return nil
	case alone && r.word == granted:
		if err := l.append(record); err != nil { // what a start would not know is not granted
			memory.takeBack(l.name, id)
			return fmt.Errorf("%w: %w", quota.ErrUnavailable, err)
		}
	default:
		if err := l.write(record); err != nil {
			return notKept(err)
		}
	}
	if l.ledger.config.Unsynced {
		return nil
	}
	if err := l.sync(); err != nil {
		return notKept(err)
	}
	return nil
}

func notKept(err error) error {
	return fmt.Errorf("%w: it counts, but is not in the journal: %w", quota.ErrOutcomeUnknown, err)
}

// maxUnwritten bounds what waits for a disk that is full: where hosts share the log, that has the rest.
const maxUnwritten = 10_000

// write appends to the journal. What it does not take is tried again each second.
func (l *log) write(records ...journal.Record) error {
	err := l.append(records...)
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.unwritten = append(l.unwritten, records...)
		l.unwritten = l.unwritten[max(0, len(l.unwritten)-maxUnwritten):]
	}
	return err
}

// append appends to the journal.
func (l *log) append(records ...journal.Record) error {
	err := l.journal.Append(records...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failing = err
		return err
	}
	for _, r := range records {
		l.newest(r)
	}
	return nil
}

// newest keeps the newest entry, which a loss of the log is noticed by. mu is held.
func (l *log) newest(r journal.Record) {
	if r.Kind != journal.Alone && (r.At > l.lastAt || misdated(r.Text) > 0) {
		l.last, l.lastAt = r.ID, r.At
	}
}

// sync makes what was written durable.
func (l *log) sync() error {
	err := l.journal.Sync()
	if err != nil {
		l.mu.Lock()
		l.failing = err
		l.mu.Unlock()
	}
	return err
}

// writeAgain has the journal take what it did not take before.
func (l *log) writeAgain() {
	l.mu.Lock()
	failing, records := l.failing, l.unwritten
	l.unwritten = nil
	l.mu.Unlock()
	if failing == nil {
		return
	}
	if l.journal.Try() != nil {
		l.mu.Lock()
		l.unwritten = append(records, l.unwritten...)
		l.mu.Unlock()
	} else if l.write(records...) == nil && l.sync() == nil {
		l.mu.Lock()
		l.failing = nil
		l.mu.Unlock()
	}
}

// lose counts a loss of the log that the host knew.
func (l *log) lose(epoch string) {
	l.mu.Lock()
	expired := l.nowMicros(0)-l.seen > l.keep // Redis drops a log that nothing was written to for as long
	known := l.epoch == epoch && l.lostEpoch != epoch && !expired
	if known {
		l.lostEpoch = epoch
		l.losses = append(l.lately(), time.Now())
	}
	l.mu.Unlock()
	if known {
		l.ledger.config.OnEvent(Event{Credential: l.name, Kind: LostLog, Err: quota.ErrLost})
	}
}

// lately returns when the log was lost within the last minutes. mu is held.
func (l *log) lately() []time.Time {
	return slices.DeleteFunc(l.losses, func(t time.Time) bool { return time.Since(t) > lossesWithin })
}

// A log that is lost as often as that within a time is a trouble.
const (
	lossesWithin = 10 * time.Minute
	manyLosses   = 3
)

// pageOf is how many entries one call puts back.
const pageOf = 500

// hold waits until no other call puts entries back. That one may wait for an engine that is away.
func (l *log) hold(ctx context.Context) error {
	select {
	case l.restoring <- struct{}{}:
		return nil
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		return timedOut(ctx, false, cmp.Or(l.down, quota.ErrRecovering))
	}
}

// restore puts back what the journal has and the log lacks, and begins a log where there is none; unless the host knows
// another log than of by now. One call does it for all that wait.
func (l *log) restore(ctx context.Context, of string) error {
	if err := l.hold(ctx); err != nil {
		return err
	}
	defer func() { <-l.restoring }()
	for range mostLosses {
		l.mu.Lock()
		epoch, grants := l.epoch, l.notBack()
		l.mu.Unlock()
		if epoch != of {
			return nil
		}
		records, err := l.kept(grants)
		if err != nil {
			return err
		}
		back, err := l.putBack(ctx, "", records)
		if errors.Is(err, quota.ErrLost) {
			continue // once more from the beginning
		}
		if err == nil {
			l.restored(of, back, grants)
		}
		return err
	}
	return quota.ErrRecovering
}

// replay begins a log in memory with what the journal has.
func (l *log) replay(ctx context.Context, m *Memory) error {
	records, err := l.kept(nil)
	var corrections []journal.Record
	plain := slices.DeleteFunc(records, func(r journal.Record) bool {
		corrects := !strings.HasPrefix(r.Text, " ")
		if corrects {
			corrections = append(corrections, r)
		}
		return corrects
	})
	if err != nil {
		return err
	}
	m.forget(l.name) // what it has of a credential that was removed, and is back
	if _, err := l.putBack(ctx, "", nil); err != nil {
		return err
	}
	if len(plain) > 0 {
		m.load(l.name, plain)
	}
	back, err := l.putBack(ctx, "", corrections)
	if err == nil {
		l.restored("", back, nil)
	}
	return err
}

// kept returns what the host has to put back, the oldest first.
func (l *log) kept(grants []journal.Record) (records []journal.Record, err error) {
	l.mu.Lock()
	now := cmp.Or(l.nowMicros(0), time.Now().UnixMicro())
	after, corrections := now-l.keep, now-max(l.keep, keepCorrections.Microseconds())
	l.mu.Unlock()
	err = l.journal.Read(corrections, func(r journal.Record) error {
		if misdated(r.Text) > 0 {
			records = nil // another log began with it
		}
		if r.At > after || keptAlways(r.Text) {
			records = append(records, r)
		}
		return nil
	})
	for _, g := range grants { // those that a full disk did not take
		if !l.journal.Has(g.ID) {
			records = append(records, g)
		}
	}
	slices.SortStableFunc(records, func(a, b journal.Record) int { return cmp.Compare(a.At, b.At) })
	return records, err
}

// A putBack is what restore.lua answered to the last page.
type putBack struct {
	epoch        string
	told, newest int64     // TIME; the time of the log's newest entry
	asked        time.Time // when the first page was asked for
	added        int       // by all pages
}

// putBack calls the script, page by page, for a log of an epoch if it is known.
func (l *log) putBack(ctx context.Context, known string, records []journal.Record) (back putBack, err error) {
	l.mu.Lock()
	keep := l.keep
	l.mu.Unlock()
	back = putBack{epoch: known, asked: time.Now()}
	for first := true; first || len(records) > 0; first = false {
		n := min(len(records), pageOf)
		args := append(make([]any, 0, 4+4*n), rand.Text(), back.epoch, keep, asInt(n < len(records)))
		for _, r := range records[:n] {
			args = append(args, r.ID, r.At, asInt(r.Kind == journal.Alone), r.Text)
		}
		values, err := l.engine.Run(ctx, l.name, Restore, args)
		if err != nil {
			l.note(err, true)
			return back, err
		}
		in := reader{values: values}
		if back.epoch = in.text(); len(values) == 1 && back.epoch == lost {
			return back, quota.ErrLost
		}
		back.told, back.newest = in.int(), in.int()
		back.added += int(in.int())
		if in.wrong {
			return back, errReply
		}
		records = records[n:]
	}
	return back, nil
}

// putBackOffline puts back what the host granted while the engine was away.
func (l *log) putBackOffline(ctx context.Context) error {
	if err := l.hold(ctx); err != nil {
		return err
	}
	defer func() { <-l.restoring }()
	l.mu.Lock()
	grants := l.notBack()
	l.mu.Unlock()
	if len(grants) == 0 { // another call was first
		return nil
	}
	_, err := l.putBack(ctx, "", grants)
	if err == nil {
		l.mu.Lock()
		l.areBack(grants)
		l.mu.Unlock()
	}
	return err
}

func asInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// restored makes the log the one that the host knows.
func (l *log) restored(of string, back putBack, grants []journal.Record) {
	l.mu.Lock()
	l.epoch, l.seen = back.epoch, back.newest
	if back.asked.After(l.asked) {
		l.told, l.asked, l.toldAt = back.told, back.asked, time.Now()
	}
	l.areBack(grants)
	for _, g := range grants {
		if g.At > l.lastAt && l.journal.Has(g.ID) {
			l.last, l.lastAt = g.ID, g.At
		}
	}
	l.mu.Unlock()
	if !l.engine.Shared() || back.added <= len(grants) && of == "" {
		return
	}
	l.ledger.config.OnEvent(Event{Credential: l.name, Kind: Restored, Records: back.added})
}

// note keeps whether the engine can be reached, and reports a change. What refuses writes is away until one is done,
// however well it can be read.
func (l *log) note(err error, writes bool) {
	if err != nil && !outage(err) && !errors.Is(err, quota.ErrUnusable) {
		return
	}
	l.mu.Lock()
	if err == nil && l.readOnly && !writes {
		l.mu.Unlock()
		return
	}
	l.readOnly = err != nil && writes
	was, since, units := l.down, l.downSince, l.alone
	switch l.down = err; {
	case err == nil:
		l.alone = 0
	case was == nil:
		l.downSince = time.Now()
	}
	l.mu.Unlock()
	switch {
	case was == nil && err != nil:
		l.ledger.config.OnEvent(Event{Credential: l.name, Kind: Down, Err: err})
	case was != nil && err == nil:
		l.ledger.config.OnEvent(Event{Credential: l.name, Kind: Up, Took: time.Since(since), Units: units})
	}
}

// outage reports whether an error is an outage, in which a policy decides: the engine does not answer, or refuses for
// now.
func outage(err error) bool {
	if !errors.Is(err, quota.ErrUnavailable) && !errors.Is(err, quota.ErrOutcomeUnknown) {
		return false
	}
	known := []error{quota.ErrLost, quota.ErrRecovering, quota.ErrUnusable, context.Canceled} // the caller has gone
	return !slices.ContainsFunc(known, func(e error) bool { return errors.Is(err, e) })
}
