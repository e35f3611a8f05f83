package clientlimit

import (
	"time"

	"quotad/quota"
)

// A subjectRecord is what a subject has used, as its algorithm reads it at one instant. The bytes that
// it was read from do not change.
type subjectRecord interface {
	// used returns what limit i counts, now or at a later time.
	used(i int, ms int64) quota.Units
	// fitsAt returns when limit i counts at most max, which is less than it counts now.
	fitsAt(i int, max quota.Units) (ms int64)
	debit(units quota.Units)
	// encode returns the record as it is kept, and when nothing in it counts any more.
	encode() (text []byte, endsMs int64)
}

// read reads a record, empty if there is none, at the time of a ledger's clock.
func (c *Clients) read(text []byte, clockMs int64) subjectRecord {
	if c.Algorithm == Counter {
		return readCounter(c, text, clockMs)
	}
	return readLog(c, text, clockMs)
}

// Decide decides about the units that a subject asks for, by its record, which is empty if it has
// none, and the time of a ledger's clock. After is the record to keep from now on, until endsMs;
// it is nil if the record does not change.
func (c *Clients) Decide(text []byte, clockMs int64, units quota.Units) (after []byte, endsMs int64, d quota.Decision) {
	r := c.read(text, clockMs)
	d = c.decision(r, clockMs, units)
	if d.Granted() {
		r.debit(units)
		d.Limits = c.states(r, clockMs, 0)
		after, endsMs = r.encode()
		return after, endsMs, d
	}
	d.Limits = c.states(r, clockMs, units)
	return nil, 0, d.Detailed(false)
}

// decision returns the decision without the limits' states.
func (c *Clients) decision(r subjectRecord, clockMs int64, units quota.Units) quota.Decision {
	d := quota.Decision{Units: units, Now: timeOf(clockMs)}
	for i, limit := range c.Limits {
		if limit.DryRun {
			continue
		}
		if units > limit.Units {
			never := quota.NeverFits(units, limit.Name, limit.Units)
			never.Now = d.Now
			return never
		}
		if room := limit.Units - units; r.used(i, clockMs) > room {
			if at := timeOf(r.fitsAt(i, room)); at.After(d.RetryAt) {
				d.Reason, d.Limit, d.RetryAt, d.RetryAfter = quota.LimitExceeded, limit.Name, at, at.Sub(d.Now)
			}
		}
	}
	return d
}

// Usage returns what the limits count of a subject, by its record, which is empty if it has none,
// and the time of a ledger's clock.
func (c *Clients) Usage(text []byte, clockMs int64) quota.Usage {
	return quota.Usage{Now: timeOf(clockMs), Limits: c.states(c.read(text, clockMs), clockMs, 0)}
}

// states returns the state of each limit. The cost is that of a request that was refused.
func (c *Clients) states(r subjectRecord, clockMs int64, cost quota.Units) []quota.LimitState {
	states := make([]quota.LimitState, len(c.Limits))
	for i, limit := range c.Limits {
		used := r.used(i, clockMs)
		states[i] = quota.LimitState{Limit: limit, Used: used, Cost: cost}
		if used > 0 {
			ms := r.fitsAt(i, used-1)
			states[i].NextAt, states[i].NextUnits = timeOf(ms), used-r.used(i, ms)
		}
	}
	return states
}

func timeOf(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
