package quota

import (
	"context"
	"slices"
	"time"
)

// mostRehearsed is how many entries are read of a log, the newest ones. What
// older ones count is taken to be as old as the oldest that was read: it comes
// back later than it will, never earlier.
const mostRehearsed = 100_000

// Rehearse returns a rehearsal that begins with what the ledger holds now; ok is
// false when the credential is not configured. Reading takes as long as ctx lives.
func (k *Keeper) Rehearse(ctx context.Context, credential string) (r *Rehearsal, ok bool, err error) {
	c, ok := k.Credential(credential)
	if !ok {
		return nil, false, nil
	}
	usage, _, err := k.Usage(ctx, credential)
	if err != nil {
		return nil, true, err
	}
	log, err := k.latest(ctx, c, usage.Now)
	if err != nil {
		return nil, true, err
	}
	return rehearse(c, usage, log), true, nil
}

// latest returns the newest entries up to now that may be in a window, the newest first.
func (k *Keeper) latest(ctx context.Context, c *Credential, now time.Time) ([]Entry, error) {
	since := now
	for _, limit := range c.Limits {
		if after, _ := limit.Window.Bounds(now); after.Before(since) {
			since = after
		}
	}
	var list []Entry
	for q := (LogQuery{Since: since, Newest: true, Most: walkPage}); len(list) < mostRehearsed; {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		page, _, err := k.Log(ctx, c.Name, q)
		if err != nil {
			return nil, err
		}
		list = append(list, page.Entries...)
		if page.Next.IsZero() {
			break
		}
		q.After = page.Next
	}
	return slices.DeleteFunc(list, func(e Entry) bool { return e.ID.Time().After(now) }), nil
}

// rehearse returns a rehearsal that begins at usage, of which log tells as much
// as was read of it, the newest entry first.
func rehearse(c *Credential, usage Usage, log []Entry) *Rehearsal {
	r := NewRehearsal(c)
	for _, e := range slices.Backward(log) {
		r.log = append(r.log, resolve(c, e.debit()))
		r.account.Last = e.ID
	}
	for _, s := range usage.Limits {
		r.account.Lost = max(r.account.Lost, lostFor(s, usage.Now))
	}
	r.account.Advance(c, usage.Now, r.log)
	for i, s := range usage.Limits {
		r.agree(i, s.Used, usage.Now)
	}
	return r
}

// lostFor returns the earliest end of a loss for which a limit would catch up
// until when it does; 0 if it does not.
func lostFor(s LimitState, now time.Time) int64 {
	if s.CatchingUp.IsZero() {
		return 0
	}
	if after, end := s.Window.Bounds(now); !end.IsZero() {
		return after.UnixMilli() + 1
	}
	return s.CatchingUp.Add(-s.Window.Length).UnixMilli()
}

// agree makes limit i hold what it is known to hold: what adjustments gave back
// is given back to the oldest debits, what was not read is put upon the oldest.
func (r *Rehearsal) agree(i int, used Units, now time.Time) {
	name := r.Credential.Limits[i].Name
	t := r.account.Tallies[name]
	missing := used - t.Used()
	if missing <= 0 {
		t.Credit -= missing
		return
	}
	if n := r.log.after(t.Gone); n < len(r.log) {
		r.log[n].Recorded[i].Units += missing
		t.Sum += missing
		return
	}
	r.debit(r.account.Next(r.account.Now(now)), []Charge{{Limit: i, Units: missing}})
}
