package slidinglog

import (
	"context"
	"errors"
	"slices"
	"time"

	"quotad/quota"
	"quotad/quota/journal"
)

// pollEvery is how often a host looks at each log: a log that is quiet is so for two of these.
const pollEvery = time.Second

// follow polls until ctx ends.
func (l *log) follow(ctx context.Context) {
	for n := 0; ; n++ {
		l.poll(ctx, n%60 == 59)
		if !quota.Sleep(ctx, pollEvery) {
			return
		}
	}
}

// poll looks at the log, which notices a loss, and mirrors it. On one host alone only the journal needs care. drop has
// it forget what nothing counts.
func (l *log) poll(ctx context.Context, drop bool) {
	ctx, cancel := context.WithTimeout(ctx, max(l.ledger.config.Deadline, pollEvery))
	defer cancel()
	l.writeAgain()
	if l.engine.Shared() {
		l.sync() // what fails is in Health
		l.pollShared(ctx)
	}
	if drop {
		l.renew(ctx)
		l.mu.Lock()
		before := l.logTime().UnixMicro() - max(l.keep, keepCorrections.Microseconds())
		l.mu.Unlock()
		if err := l.journal.Drop(before); err != nil {
			l.mu.Lock()
			l.failing = err
			l.mu.Unlock()
		}
	}
}

// pollShared looks at a log that other hosts use, too. A log that is quiet is mirrored all the same.
func (l *log) pollShared(ctx context.Context) {
	_, _, err := l.look(ctx, l.current())
	if err == nil {
		l.mu.Lock()
		epoch := l.epoch
		l.mu.Unlock()
		if _, err := l.putBack(ctx, epoch, nil); err == nil { // nothing: does the engine take writes?
			l.note(nil, true)
		}
	}
	if err == nil || errors.Is(err, quota.ErrRecovering) {
		l.mirror(ctx)
	}
}

// renew makes closings again that would outlast what journals keep of them.
func (l *log) renew(ctx context.Context) {
	u, _, err := l.look(ctx, l.current())
	if err != nil {
		return // the next time
	}
	for _, s := range u.Limits {
		if c := s.Closed; !c.IsZero() && u.Now.Sub(c.Since) > keepCorrections/2 {
			l.correct(ctx, quota.Entry{Body: quota.Changed{Limit: s.Name, Until: c.Until}, By: c.By, Note: c.Says}) // or the next time
		}
	}
}

func (l *log) current() *quota.Credential {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.credential
}

// look returns what all limits hold, and keeps it for an outage.
func (l *log) look(ctx context.Context, c *quota.Credential) (u quota.Usage, r reply, err error) {
	asks := call{at: c.Looks}
	if r, err = l.ask(ctx, &asks); err == nil {
		u, err = usageOf(c, r)
	}
	if err == nil {
		l.mu.Lock()
		if !u.Now.Before(l.heard.Now) { // else one that was asked later is answered already
			l.heard = u
			l.heard.Limits = slices.Clone(u.Limits)
		}
		l.mu.Unlock()
	}
	return u, r, err
}

func usageOf(c *quota.Credential, r reply) (quota.Usage, error) {
	if len(r.limits) != len(c.Limits) {
		return quota.Usage{}, errReply
	}
	u := quota.Usage{Now: r.now(), Limits: make([]quota.LimitState, len(c.Limits))}
	for i, limit := range r.limits {
		u.Limits[i] = quota.LimitState{Limit: c.Limits[i], Used: limit.used, Closed: limit.closed}
	}
	return u, nil
}

// next fills in when the next debit leaves each window, by the answer to a look.
func (l *log) next(ctx context.Context, u *quota.Usage, r reply) error {
	for i := range u.Limits {
		s := &u.Limits[i]
		_, ends := s.Window.Bounds(u.Now)
		switch {
		case s.Used == 0:
		case s.Window.Restarts():
			s.NextAt, s.NextUnits = ends, s.Used
		default:
			k := quota.Check{Limit: s.Name, Length: s.Window.Length}
			at, units, err := l.walk(ctx, k, r.limits[i].from, 1)
			if err != nil {
				return err
			}
			s.NextAt, s.NextUnits = upToMillis(at), quota.Units(units)
		}
	}
	return nil
}

// upToMillis returns a time in whole milliseconds, rounded up.
func upToMillis(us int64) time.Time { return time.UnixMilli((us + 999) / 1000).UTC() }

// mirrored is up to when a log was mirrored, and which one.
type mirrored struct {
	epoch    string
	back, at int64
	whole    time.Time // when the journal had all of it last, by the machine's clock
}

// mirrorPage is how many entries one call reads.
const mirrorPage = 500

// mirror has the journal take what others wrote, and what came back. Only poll calls it.
func (l *log) mirror(ctx context.Context) {
	l.mu.Lock()
	m, from := l.mirrored, l.logTime().UnixMicro()-l.keep
	l.mu.Unlock()
	for first := true; ; first = false {
		epoch, back, records, err := readPage(ctx, l.engine, l.name, []any{max(m.at, from), "", mirrorPage})
		if err != nil {
			l.note(err, false)
			return
		}
		if epoch != m.epoch || first && back != m.back { // entries came at old times, or the log is another
			m = mirrored{epoch: epoch, back: back, whole: m.whole}
			if epoch == "" || !first {
				return // the next poll begins again
			}
			continue
		}
		n := len(records)
		if n > 0 {
			m.at = records[n-1].At
			if l.write(records...) != nil { // those that are known it leaves out
				return
			}
		}
		if n < mirrorPage {
			m.whole = time.Now()
		}
		l.mu.Lock()
		l.mirrored = m
		l.mu.Unlock()
		if n < mirrorPage {
			return
		}
	}
}

// readPage reads a page of a log: after a time; or before another one, if that is not empty, newest first; how many; or
// one entry by its id.
func readPage(ctx context.Context, engine Engine, name string, args []any) (epoch string, back int64, records []journal.Record, err error) {
	values, err := engine.Run(ctx, name, Mirror, args)
	if err != nil {
		return "", 0, nil, err
	}
	in := reader{values: values}
	epoch, back = in.text(), in.int()
	for len(in.values) > 0 && !in.wrong {
		records = append(records, journal.Record{Kind: journal.Mirrored, ID: in.text(), At: in.int(), Text: in.text()})
	}
	if in.wrong {
		return "", 0, nil, errReply
	}
	return epoch, back, records, nil
}

// reading returns the engine or, while that cannot be reached, a Memory of what the journal has.
func (l *log) reading(ctx context.Context) (Engine, error) {
	l.mu.Lock()
	down, keep, grants := l.down, l.keep, l.notBack()
	l.mu.Unlock()
	if down == nil {
		return l.engine, nil
	}
	records, err := l.kept(grants)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	copied := &log{ledger: l.ledger, engine: NewMemory(func() time.Time { return now }), name: l.name, keep: keep}
	_, err = copied.putBack(ctx, "", records)
	return copied.engine, err
}
