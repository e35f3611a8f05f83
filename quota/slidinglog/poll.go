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

// eachPoll does something each second until ctx ends; n counts from 1.
func eachPoll(ctx context.Context, do func(n int)) {
	for n := 1; ; n++ {
		if do(n); !quota.Sleep(ctx, pollEvery) {
			return
		}
	}
}

// poll looks at the log, which notices a loss, and mirrors it, also while it is quiet. On one host alone only the
// journal needs care. drop has it forget what nothing counts.
func (l *log) poll(ctx context.Context, drop bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // a month of entries is put back within it
	defer cancel()
	l.writeAgain(ctx)
	if l.engine.Shared() {
		l.sync() // what fails is in Health
		c, _ := l.current()
		_, _, err := l.look(ctx, c)
		if err == nil { // put nothing back: does the engine take writes?
			_, knows := l.current()
			_, err := l.putBack(ctx, l.engine, knows.epoch, nil)
			l.note(err, true)
		}
		if err == nil || errors.Is(err, quota.ErrRecovering) {
			l.mirror(ctx)
		}
	}
	if drop {
		l.renew(ctx)
		l.mu.Lock()
		before := l.logTime().UnixMicro() - max(l.keep, keepCorrections.Microseconds())
		l.mu.Unlock()
		l.fails(l.journal.Drop(before))
	}
}

// renew makes closings again that would outlast what journals keep of them.
func (l *log) renew(ctx context.Context) {
	c, _ := l.current()
	u, _, _ := l.look(ctx, c) // or the next time
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

func (l *log) setMirrored(m mirrored) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mirrored = m
}

// mirrorPage is how many entries one call reads.
const mirrorPage = 500

// mirror has the journal take what others wrote, and what came back, and reports whether it has all. Only poll calls it.
func (l *log) mirror(ctx context.Context) bool {
	l.mu.Lock()
	m, from := l.mirrored, l.logTime().UnixMicro()-l.keep
	l.mu.Unlock()
	for {
		of, records, err := readPage(ctx, l.engine, l.name, max(m.at, from), "", mirrorPage)
		if err != nil || of.epoch == "" {
			l.note(err, false)
			return false
		}
		if of != m.of {
			m = mirrored{of: of, whole: m.whole} // from the beginning
			continue
		}
		if l.write(records...) != nil { // those that are known it leaves out
			return false
		}
		if n := len(records); n > 0 {
			m.at = records[n-1].At
		}
		whole := len(records) < mirrorPage
		if whole {
			m.whole = time.Now()
		}
		if l.setMirrored(m); whole {
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
	for of = (logState{in.text(), in.int()}); in.more(); {
		records = append(records, journal.Record{Kind: journal.Mirrored, ID: in.text(), At: in.int(), Text: in.text()})
	}
	if in.wrong {
		return of, nil, errReply
	}
	return of, records, nil
}

// read reads a page of the log or, while the engine cannot be reached, of what the journal has.
func (l *log) read(ctx context.Context, args ...any) ([]journal.Record, error) {
	if l.journal == nil {
		return nil, l.left()
	}
	l.mu.Lock()
	engine, down, grants := l.engine, l.down, l.notBack()
	l.mu.Unlock()
	if down != nil {
		copied := NewMemory(time.Now)
		if _, err := l.load(ctx, copied, grants); err != nil {
			return nil, err
		}
		engine = copied
	}
	_, records, err := readPage(ctx, engine, l.name, args...)
	return records, err
}
