package slidinglog

import (
	"context"
	"errors"
	"time"

	"quotad/quota"
	"quotad/quota/journal"
)

// pollEvery is how often a host looks at each log: a log that is quiet is so for two of these.
const pollEvery = time.Second

// follow polls until ctx ends.
func (l *log) follow(ctx context.Context) {
	for n := 1; ; n++ {
		l.poll(ctx, n%60 == 0)
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
	l.writeAgain(ctx)
	if l.engine.Shared() {
		l.sync() // what fails is in Health
		l.pollShared(ctx)
	}
	if drop {
		l.renew(ctx)
		l.mu.Lock()
		before := l.logTime().UnixMicro() - max(l.keep, keepCorrections.Microseconds())
		l.mu.Unlock()
		l.fails(l.journal.Drop(before))
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
	u, _, _ := l.look(ctx, l.current()) // or the next time
	for _, s := range u.Limits {
		if c := s.Closed; !c.IsZero() && u.Now.Sub(c.Since) > keepCorrections/2 {
			l.correct(ctx, quota.Entry{Body: quota.Changed{Limit: s.Name, Until: c.Until}, By: c.By, Note: c.Says}) // or the next time
		}
	}
}

// mirrored is up to when a log was mirrored, and which one.
type mirrored struct {
	of    logState
	at    int64
	whole time.Time // when the journal had all of it last, by the machine's clock
}

// A logState changes when a log is another one, or has entries that came at old times.
type logState struct {
	epoch string
	back  int64
}

// mirrorPage is how many entries one call reads.
const mirrorPage = 500

// mirror has the journal take what others wrote, and what came back, and reports whether it has all. Only poll calls it.
func (l *log) mirror(ctx context.Context) (whole bool) {
	l.mu.Lock()
	m, from := l.mirrored, l.logTime().UnixMicro()-l.keep
	l.mu.Unlock()
	for first := true; ; first = false {
		of, records, err := readPage(ctx, l.engine, l.name, max(m.at, from), "", mirrorPage)
		if err != nil {
			l.note(err, false)
			return false
		}
		if of.epoch != m.of.epoch || first && of != m.of {
			m = mirrored{of: of, whole: m.whole}
			if of.epoch == "" || !first {
				return false // the next poll begins again
			}
			continue
		}
		if n := len(records); n > 0 {
			m.at = records[n-1].At
			if l.write(records...) != nil { // those that are known it leaves out
				return false
			}
		}
		if whole = len(records) < mirrorPage; whole {
			m.whole = time.Now()
		}
		l.mu.Lock()
		l.mirrored = m
		l.mu.Unlock()
		if whole {
			return true
		}
	}
}

// readPage reads a page of a log: after a time; or before another one, if that is not empty, newest first; how many; or
// one entry by its id.
func readPage(ctx context.Context, engine Engine, name string, args ...any) (of logState, records []journal.Record, err error) {
	values, err := engine.Run(ctx, name, Mirror, args)
	if err != nil {
		return of, nil, err
	}
	in := reader{values: values}
	of = logState{in.text(), in.int()}
	for len(in.values) > 0 && !in.wrong {
		records = append(records, journal.Record{Kind: journal.Mirrored, ID: in.text(), At: in.int(), Text: in.text()})
	}
	if in.wrong {
		return of, nil, errReply
	}
	return of, records, nil
}

// reading returns the engine or, while that cannot be reached, a Memory of what the journal has.
func (l *log) reading(ctx context.Context) (Engine, error) {
	if l.journal == nil {
		return nil, l.left()
	}
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
