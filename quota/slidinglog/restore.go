package slidinglog

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"quotad/quota"
	"quotad/quota/journal"
)

// keepCorrections is for how long journals keep closings, openings and resets at least.
const keepCorrections = 48 * time.Hour

// unwritten returns why the journal takes nothing: on one host alone, what it would lose is not decided.
func (l *log) unwritten() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failing == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", quota.ErrUnavailable, l.failing)
}

// wrote has an entry that the log answered for in the journal; on one host alone, durably. Where hosts share the log,
// what fails is in Health: the log has the entry, and other hosts do.
func (l *log) wrote(r reply, id string) error {
	if r.text == "" { // the journal leaves out what it has, after another answer to the same call
		return nil
	}
	err := l.write(journal.Record{Kind: journal.Own, At: r.at, ID: id, Text: r.text})
	if l.engine.Shared() {
		return nil
	}
	if err == nil {
		err = l.sync()
	}
	if err != nil {
		return fmt.Errorf("%w: it counts, but is not in the journal: %w", quota.ErrOutcomeUnknown, err)
	}
	return nil
}

// write appends to the journal. What it does not take it is given again each second.
func (l *log) write(records ...journal.Record) error {
	if err := l.fails(l.journal.Append(records...)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range records {
		l.newest(r)
	}
	return nil
}

// newest keeps the newest entry, by which a loss of the log is noticed. mu is held.
func (l *log) newest(r journal.Record) {
	if r.Kind != journal.Alone && (r.At > l.lastAt || misdated(r.Text) > 0) {
		l.last, l.lastAt = r.ID, r.At
	}
}

// sync makes what was written durable.
func (l *log) sync() error { return l.fails(l.journal.Sync()) }

// fails keeps why the journal fails.
func (l *log) fails(err error) error {
	if err != nil {
		l.mu.Lock()
		l.failing = err
		l.mu.Unlock()
	}
	return err
}

// writeAgain has a journal that failed take what the log has, if it takes anything by now.
func (l *log) writeAgain(ctx context.Context) {
	l.mu.Lock()
	failing, alone := l.failing, l.notBack()
	l.mu.Unlock()
	if failing == nil || l.write(alone...) != nil {
		return
	}
	l.setMirrored(mirrored{}) // from the beginning
	if l.mirror(ctx) && l.sync() == nil {
		l.mu.Lock()
		l.failing = nil
		l.mu.Unlock()
	}
}

// restore puts back what the log lacks. Whole: all that the journal has, unless the host knows another log than of by
// now; it begins a log where there is none. Else what this host granted alone. One call does it for all that wait,
// since it may wait for an engine that is away.
func (l *log) restore(ctx context.Context, of string, whole bool) error {
	select {
	case l.restoring <- struct{}{}:
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		return timedOut(ctx, false, cmp.Or(l.down, quota.ErrRecovering))
	}
	defer func() { <-l.restoring }()
	for range mostLosses {
		l.mu.Lock()
		epoch, records := l.epoch, l.notBack()
		l.mu.Unlock()
		if whole && epoch != of || !whole && len(records) == 0 {
			return nil
		}
		grants, err := records, error(nil)
		if whole {
			records, err = l.kept(grants)
		}
		if err != nil {
			return err
		}
		back, err := l.putBack(ctx, l.engine, "", records)
		if err != nil && back.told > 0 && ctx.Err() != nil {
			return quota.ErrRecovering // the engine answers; the other pages take longer than this call waits
		}
		l.note(err, true)
		switch {
		case err == nil:
			l.restored(of, back, grants, whole)
			return nil
		case !errors.Is(err, quota.ErrLost): // else once more from the beginning
			return err
		}
	}
	return quota.ErrRecovering
}

// restored notes that grants of an outage are in the log; after a whole restore it is the one that the host knows.
func (l *log) restored(of string, back putBack, grants []journal.Record, whole bool) {
	l.mu.Lock()
	for i, g := range l.offline {
		l.offline[i].isBack = g.isBack || slices.Contains(grants, g.record)
	}
	expired := back.told-l.seen > l.keep // Redis drops a log that nothing was written to for as long
	if whole {
		l.epoch, l.seen = back.epoch, back.newest
		l.learnTime(back.told, back.newest, back.asked)
		for _, g := range grants {
			if g.At > l.lastAt && l.journal.Has(g.ID, g.At-1) {
				l.last, l.lastAt = g.ID, g.At
			}
		}
	}
	l.mu.Unlock()
	if whole && of != "" && !expired {
		l.ledger.config.OnEvent(Event{Credential: l.name, Kind: LostLog, Err: quota.ErrLost})
	}
	if whole && l.engine.Shared() && (back.added > len(grants) || of != "") {
		l.ledger.config.OnEvent(Event{Credential: l.name, Kind: Restored, Records: back.added})
	}
}

// kept returns what the host has to put back, the oldest first: also the grants that a full disk did not take.
func (l *log) kept(grants []journal.Record) (records []journal.Record, err error) {
	l.mu.Lock()
	now := cmp.Or(l.nowMicros(0), time.Now().UnixMicro())
	after, corrections := now-l.keep, now-max(l.keep, keepCorrections.Microseconds())
	l.mu.Unlock()
	err = l.journal.Read(corrections, func(r journal.Record) error {
		if misdated(r.Text) > 0 {
			records = nil // another log began with it
		}
		forgotten := r.Kind != journal.Alone && l.journal.Has(r.ID, r.At) // its id was used again
		if (r.At > after || keptAlways(r.Text)) && !forgotten {
			records = append(records, r)
		}
		return nil
	})
	for _, g := range grants {
		if !l.journal.Has(g.ID, g.At-1) { // an older one the log has forgotten
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

// pageOf is how many entries one call puts back.
const pageOf = 200

// putBack calls the script, page by page, for a log of an epoch if it is known.
func (l *log) putBack(ctx context.Context, engine Engine, epoch string, records []journal.Record) (putBack, error) {
	_, knows := l.current()
	back := putBack{epoch: epoch, asked: time.Now()}
	for more := true; more; {
		n := min(len(records), pageOf)
		more = n < len(records)
		args := []any{rand.Text(), back.epoch, knows.keep, asInt(more)}
		for _, r := range records[:n] {
			args = append(args, r.ID, r.At, asInt(r.Kind == journal.Alone), r.Text)
		}
		values, err := engine.Run(ctx, l.name, Restore, args)
		if err != nil {
			return back, err
		}
		in := reader{values: values}
		if back.epoch = in.text(); len(values) == 1 && back.epoch == lost {
			return back, quota.ErrLost
		}
		back.told, back.newest = in.int(), in.int()
		if back.added += int(in.int()); in.wrong {
			return back, errReply
		}
		records = records[n:]
	}
	return back, nil
}

// load has a Memory hold the log with what the journal has, and grants that it may not have.
func (l *log) load(ctx context.Context, m *Memory, grants []journal.Record) (putBack, error) {
	records, err := l.kept(grants)
	if err != nil {
		return putBack{}, err
	}
	return l.putBack(ctx, m, "", m.load(l.name, records))
}
