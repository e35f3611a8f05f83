package quota

import (
	"context"
	"slices"
	"time"
)

// mostSimulated is how many entries are read of a log, the newest ones. What
// older ones count is taken to be as old as the oldest that was read: it comes
// back later than it will, never earlier.
const mostSimulated = 100_000

// Simulate returns a simulation that begins with what the ledger holds now; ok is
// false when the credential is not configured. Reading takes as long as ctx lives.
func (s *Service) Simulate(ctx context.Context, credential string) (sim *Simulation, ok bool, err error) {
	c, ok := s.Credential(credential)
	if !ok {
		return nil, false, nil
	}
	usage, _, err := s.Usage(ctx, credential)
	if err != nil {
		return nil, true, err
	}
	log, err := s.latest(ctx, c, usage.Now)
	if err != nil {
		return nil, true, err
	}
	return simulate(c, usage, log), true, nil
}

// latest returns the newest entries up to now that may be in a window, the newest first.
func (s *Service) latest(ctx context.Context, c *Credential, now time.Time) ([]Entry, error) {
	since := now
	for _, limit := range c.Limits {
		if after, _ := limit.Window.Bounds(now); after.Before(since) {
			since = after
		}
	}
	var list []Entry
	for q := (LogQuery{Since: since, Newest: true, Most: walkPage}); len(list) < mostSimulated; {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		page, _, err := s.Log(ctx, c.Name, q)
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

// simulate returns a simulation that begins at usage, of which log tells as much
// as was read of it, the newest entry first.
func simulate(c *Credential, usage Usage, log []Entry) *Simulation {
	r := NewSimulation(c)
	for _, e := range slices.Backward(log) {
		r.log = append(r.log, resolve(c, e))
		r.account.Last = e.ID
	}
	for _, limit := range usage.Limits {
		r.account.Lost = max(r.account.Lost, lostFor(limit, usage.Now))
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
func (r *Simulation) agree(i int, used Units, now time.Time) {
	name := r.Credential.Limits[i].Name
	t := r.account.Tallies[name]
	missing := used - t.Used()
	if missing <= 0 {
		t.Credit -= missing
		return
	}
	if n := r.log.after(t.Gone); n < len(r.log) {
		r.log[n].Charges[i].Units += missing
		t.Sum += missing
		return
	}
	r.debit(r.account.Next(r.account.Now(now)), []Charge{{Limit: name, Units: missing}})
}
