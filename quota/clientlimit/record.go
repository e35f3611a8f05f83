package clientlimit

import (
	"bytes"
	"fmt"
	"time"

	"quotad/quota"
)

// A record is what a subject has used, as its algorithm reads it at one instant. What is
// read of a file stays as it is.
type record interface {
	// used returns what limit i counts.
	used(i int) quota.Units
	// next returns when limit i counts less than now, and how much less; 0 where it counts
	// nothing.
	next(i int) (ms int64, units quota.Units)
	// falls returns when limit i counts at most that much, which is less than now.
	falls(i int, to quota.Units) (ms int64)
	// carried tells that what was read was counted in other windows: it would be forgotten with
	// them, or could not be carried over again at another time.
	carried() bool
	debit(units quota.Units)
	// encode returns the record as it is kept, and when nothing in it counts any more.
	encode() (text []byte, endsMs int64)
}

// read reads a record, empty where there is none, at what a ledger's clock shows.
func (c *Clients) read(text []byte, clockMs int64) record {
	if c.Algorithm == Counter {
		return readCounter(c, text, clockMs)
	}
	return readLog(c, text, clockMs)
}

// A count is what a limit counts of one subject at an instant.
type count struct {
	used quota.Units
	// nextMs is when units come back next, by the ledger's clock, and nextUnits how many
	// do; 0 where none are used.
	nextMs    int64
	nextUnits quota.Units
	// fitsMs is when there is room for what is asked, if nothing else happens; 0 where there
	// is now, or never is.
	fitsMs int64
}

// Decide decides what a subject asks for that has a record, empty if it has none, when a
// ledger's clock shows a time. After is the record to be kept from then on, until endsMs;
// nil where it is to stay as it is.
func (c *Clients) Decide(text []byte, clockMs int64, units quota.Units) (after []byte, endsMs int64, d quota.Decision) {
	r := c.read(text, clockMs)
	d = c.decision(units, clockMs, c.counts(r, units))
	if d.Granted() {
		r.debit(units)
		d.Limits = c.states(c.counts(r, 0), 0)
	}
	if d.Granted() || r.carried() {
		after, endsMs = r.encode()
	}
	return after, endsMs, d
}

func (c *Clients) counts(r record, units quota.Units) []count {
	counts := make([]count, len(c.Limits))
	for i, limit := range c.Limits {
		counts[i].used = r.used(i)
		counts[i].nextMs, counts[i].nextUnits = r.next(i)
		if room := limit.Units - units; !limit.DryRun && room >= 0 && counts[i].used > room && units > 0 {
			counts[i].fitsMs = r.falls(i, room)
		}
	}
	return counts
}

// decision returns what is decided about units by what the limits count: after the grant
// where there is room, as they are where there is none.
func (c *Clients) decision(units quota.Units, clockMs int64, counts []count) quota.Decision {
	d := quota.Decision{Units: units, Now: timeOf(clockMs)}
	for i, limit := range c.Limits {
		if !limit.DryRun && units > limit.Units {
			d.Reason, d.Limit, d.RetryAt = quota.CostExceedsLimit, limit.Name, time.Time{}
			d.Detail = fmt.Sprintf("%s can never fit limit %q of %s", units.Text(), limit.Name, limit.Units.Text())
			d.Hint = "waiting does not help: ask for less at once"
			break
		}
		if at := counts[i].fitsMs; at > 0 && timeOf(at).After(d.RetryAt) {
			d.Reason, d.Limit, d.RetryAt = quota.LimitExceeded, limit.Name, timeOf(at)
		}
	}
	if d.Granted() {
		d.Limits = c.states(counts, 0)
		return d
	}
	d.Limits = c.states(counts, units)
	if d.Denied() {
		d.RetryAfter = d.RetryAt.Sub(d.Now)
	}
	return d
}

// Usage returns what the limits count of a subject that has a record, empty if it has none, when
// a ledger's clock shows a time.
func (c *Clients) Usage(text []byte, clockMs int64) quota.Usage {
	return quota.Usage{Now: timeOf(clockMs), Limits: c.states(c.counts(c.read(text, clockMs), 0), 0)}
}

func (c *Clients) states(counts []count, cost quota.Units) []quota.LimitState {
	states := make([]quota.LimitState, len(c.Limits))
	for i, limit := range c.Limits {
		states[i] = quota.LimitState{Limit: limit, Used: counts[i].used, Cost: cost, NextUnits: counts[i].nextUnits}
		if counts[i].nextMs > 0 {
			states[i].NextAt = timeOf(counts[i].nextMs)
		}
	}
	return states
}

func timeOf(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// sealed begins a record of a former key. No record begins so: a log has fewer limits than "s", and
// no counter has such a window.
const sealed = "sealed"

// Seal returns what takes the place of a record that moves to another key.
func Seal(record []byte) []byte { return append([]byte(sealed), record...) }

// Unseal returns what was sealed; any other record as it is.
func Unseal(text []byte) (record []byte, wasSealed bool) {
	record, wasSealed = bytes.CutPrefix(text, []byte(sealed))
	return record, wasSealed
}
