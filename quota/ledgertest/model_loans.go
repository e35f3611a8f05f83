package ledgertest

import (
	"slices"
	"time"

	"quotad/quota"
)

// lent returns the loans of a limit that run at an instant, now or later: those behind the
// last end of its loans.
func (q question) lent(limit string, at time.Time) (list []quota.Lent) {
	for _, e := range q.entries {
		loan, _ := e.Body.(quota.Changed)
		if loan.Change != quota.KindLoan || loan.Limit != limit {
			continue
		}
		if loan.Units == 0 {
			list = nil
		} else if loan.Until.After(at) {
			list = append(list, quota.Lent{Units: loan.Units, Since: e.ID.Time(), Until: loan.Until, Note: e.Note, By: e.By})
		}
	}
	return list
}

// lentTo is what all loans of a limit lend at an instant.
func (q question) lentTo(limit string, at time.Time) (sum quota.Units) {
	for _, l := range q.lent(limit, at) {
		sum += l.Units
	}
	return sum
}

// outlasted puts a denial off to the first instant from then on at which each limit has room
// at once: a loan may have ended before another limit lets the request fit.
func (q question) outlasted(d quota.Decision, charges []quota.Charge, useReserve bool) quota.Decision {
	if d.RetryAt.IsZero() || q.roomAt(charges, useReserve, d.RetryAt) {
		return d
	}
	var instants []time.Time
	for _, charge := range charges {
		limit := q.c.Limits[q.c.Index(charge.Limit)]
		if _, end := limit.Window.Bounds(q.now); !end.IsZero() {
			instants = append(instants, end)
			continue
		}
		instants = slices.AppendSeq(instants, q.leaving(limit))
	}
	slices.SortFunc(instants, time.Time.Compare)
	for _, at := range instants {
		if at.After(d.RetryAt) && q.roomAt(charges, useReserve, at) {
			d.RetryAt, d.RetryAfter = at, at.Sub(q.clock)
			return d
		}
	}
	return d
}

// roomAt reports whether charges fit every limit at an instant. A charge that is larger than its
// limit, and fits while enough is lent, counts in the period of now alone.
func (q question) roomAt(charges []quota.Charge, useReserve bool, at time.Time) bool {
	for _, charge := range charges {
		i := q.c.Index(charge.Limit)
		limit := q.c.Limits[i]
		if limit.DryRun {
			continue
		}
		if _, end := limit.Window.Bounds(q.now); charge.Units > limit.Budget(useReserve) && !at.Before(end) {
			continue
		}
		if q.used(i, at)+charge.Units > limit.Budget(useReserve)+q.lentTo(limit.Name, at) {
			return false
		}
	}
	return true
}
