package slidinglog

import (
	"context"
	"fmt"
	"time"

	"quotad/quota"
)

// correct makes a correction, as an entry of its own.
func (l *log) correct(ctx context.Context, e quota.Entry) (reply, error) {
	return l.ask(ctx, &call{id: string(quota.NewID()), text: textOf(e), correct: true})
}

// by returns an entry of a caller.
func by(c quota.Caller, body quota.Body, note string) quota.Entry {
	return quota.Entry{Body: body, By: c.By(), Region: c.Region, Note: note}
}

// Settle implements quota.Ledger.
func (l *Ledger) Settle(ctx context.Context, c *quota.Credential, s quota.Settlement) (quota.Decision, error) {
	one := l.find(c)
	grant := quota.GrantID(c.Name, s.Grant)
	if s.Bounded {
		switch e, found, err := l.Entry(ctx, c, s.Grant); {
		case err != nil:
			return quota.Decision{}, err
		case found && e.Kind() != quota.KindGrant: // a booking is an operator's
			return quota.Gone(grant), nil
		case found: // else the script says that it is gone
			if why, err := one.forbids(ctx, c, s, e); err != nil || why != "" {
				return quota.Decision{Reason: quota.SettledTooHigh, Detail: why, Hint: "if it was spent all the same, an operator can settle it"}, err
			}
		}
	}
	r, err := one.correct(ctx, by(s.Caller, quota.Settled{Grant: s.Grant, To: s.Units}, ""))
	switch {
	case err != nil:
		return quota.Decision{}, err
	case r.word == gone:
		return quota.Gone(grant), nil
	case r.word == over:
		return tooMuch("a limit"), nil
	}
	was, _ := parse(string(s.Grant), r.at, r.was)
	d := quota.Decision{GrantID: grant, Units: s.Units, Raised: s.Units > quota.Max(was.Charges)}
	d, _ = one.withLimits(ctx, c, d, was.Charges)
	return d, nil
}

// tooMuch refuses what would make a sum too great to be exact.
func tooMuch(limit string) quota.Decision {
	detail := fmt.Sprintf("%s would hold more than %s", limit, quota.MaxUnits.Text())
	return quota.Decision{Reason: quota.BadRequest, Detail: detail}
}

// forbids returns why a caller that is no operator may not settle a grant; empty: it may. A call costs at most what
// was granted for it, or what an empty window has; a remote caller adds at most what is left.
func (l *log) forbids(ctx context.Context, c *quota.Credential, s quota.Settlement, e quota.Entry) (why string, err error) {
	l.mu.Lock()
	now := l.logTime()
	l.mu.Unlock()
	greatest, more := quota.Max(e.Asked()), []quota.Charge(nil)
	for _, charge := range e.Asked() {
		limit, found := c.Limit(charge.Limit)
		after, _ := limit.Window.Bounds(now)
		counts, _ := quota.ChargeIn(e.Charges, charge.Limit)
		to := min(charge.Units, s.Units)
		if charge.Units == greatest {
			to = s.Units
		}
		if !found || limit.DryRun || to <= counts || !e.At.After(after) {
			continue
		}
		if most := limit.Budget(s.UseReserve); to > max(most, charge.Units) {
			return fmt.Sprintf("no call costs %s: limit %s has %s in all", to.Text(), limit.Name, quota.Thousands(most)), nil
		}
		more = append(more, quota.Charge{Limit: charge.Limit, Units: to - counts})
	}
	if s.Caller.Remote == "" || len(more) == 0 {
		return "", nil
	}
	d, err := l.withLimits(ctx, c, quota.Decision{}, more)
	for _, state := range d.Limits {
		if left := max(0, state.Budget(false)-state.Used); state.Cost > left {
			return fmt.Sprintf("this adds %s, and limit %s has %s left for this caller", state.Cost.Text(), state.Name, quota.Thousands(left)), nil
		}
	}
	return "", err
}

// Book implements quota.Ledger.
func (l *Ledger) Book(ctx context.Context, c *quota.Credential, b quota.Booking) (quota.Decision, error) {
	e := by(b.Caller, quota.Booked{}, b.Note)
	e.Charges = []quota.Charge{{Limit: b.Limit, Units: b.Units}}
	books := call{id: string(quota.NewID()), text: textOf(e), at: func(now time.Time) []quota.Check {
		checks := c.Checks(e.Charges, true, now)
		for i := range checks {
			checks[i].Max, checks[i].Observes = quota.MaxUnits, false
		}
		return checks
	}}
	r, err := l.find(c).ask(ctx, &books)
	if err != nil {
		return quota.Decision{}, err
	}
	if r.word == denied {
		return tooMuch("limit " + b.Limit), nil
	}
	d := decide(c, books.checks, r)
	d.GrantID = quota.GrantID(c.Name, quota.ID(books.id))
	return d, nil
}

// ChangeLimit implements quota.Ledger.
func (l *Ledger) ChangeLimit(ctx context.Context, c *quota.Credential, k quota.Change) (changed bool, err error) {
	one := l.find(c)
	u, _, err := one.look(ctx, c)
	if err != nil {
		return false, err
	}
	if i := c.Index(k.Limit); i < 0 || !k.Changes(u.Limits[i], u.Now) {
		return false, nil
	}
	_, err = one.correct(ctx, by(k.Caller, quota.Changed{Limit: k.Limit, Until: k.Until}, k.Note))
	return err == nil, err
}

// Reset implements quota.Ledger.
func (l *Ledger) Reset(ctx context.Context, c *quota.Credential, caller quota.Caller, note string) error {
	_, err := l.find(c).correct(ctx, by(caller, quota.Reset{}, note))
	return err
}
