package slidinglog

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"quotad/quota"
)

// An Invariant holds in every log, whatever hosts, stores and clocks do. A ledger checks each while it runs, as
// far as that costs next to nothing.
type Invariant string

// The invariants.
const (
	// WithinBudget: a new grant fits its limits, loans included. What was booked, settled upwards or granted
	// offline may take a limit past its budget, but then nothing more is granted.
	WithinBudget Invariant = "budget"
	// SumsMatch: what a view counts is the sum of the entries.
	SumsMatch Invariant = "sums"
	// PlacesGrow: a record stands after the one before it, and no entry is later than its record.
	PlacesGrow Invariant = "places"
	// ChargedOnce: a request id that was granted, and still counts, is not granted again.
	ChargedOnce Invariant = "request id"
)

// A Violation is an invariant that does not hold in this host's copy of a log.
type Violation struct {
	Credential string
	Invariant  Invariant
	Says       string
	At         time.Time     // this host's clock
	Record     Placed        // that was applied; no Body: a recount found it
	Entries    []quota.Entry // of the copy: those of the last minute, or those that were recounted
}

const (
	// violationTime is how far the entries of a violation reach back, and how long its invariant is not reported again.
	violationTime = time.Minute
	// violationEntries bounds them.
	violationEntries = 1000
)

// applyChecked applies the next record to the copy, and checks it against what was there.
func (r *replica) applyChecked(c *Copy, record *Record) {
	was, gen, merges, at := c.facts.Position, c.facts.Gen, c.merges, record.at.At
	c.apply(record)
	switch {
	case !was.ID.Less(at) && record.Gen <= gen: // no reset has emptied the log
		r.violate(c, PlacesGrow, record, fmt.Sprintf("a record at %v follows one at %v", at, was.ID))
	case record.floor() > at.Ms:
		r.violate(c, PlacesGrow, record, fmt.Sprintf("a record at %v has an entry of %d", at, record.floor()))
	case !record.fresh || slices.ContainsFunc(record.Entries, func(e quota.Entry) bool { return e.Kind() != quota.KindGrant }):
	case c.merges > merges:
		if record.isAfter(was) && r.knows(c, record) { // its writer had read the other grant
			r.violate(c, ChargedOnce, record, "a request id was granted again")
		}
	default:
		if says := c.over(record, record.draft == nil || record.draft.reserve); says != "" && r.knows(c, record) {
			r.violate(c, WithinBudget, record, says)
		}
	}
}

// knows reports whether the writer of a record counted what this copy has of the log before it, by the same limits. This
// host has drafted its own record on the copy; another one has a checksum of its limits.
func (r *replica) knows(c *Copy, record *Record) bool {
	if record.draft != nil {
		return c.credential == record.draft.credential
	}
	f := &c.facts
	mine := f.Hosts[r.ledger.Host()]
	switch {
	case c.credential != r.configured, record.Terms != r.termsSum(r.configured):
		return false
	case f.Unplaced > 0, f.Loss != nil, record.at.At.Ms <= f.Doubtful: // the copy may have what the log lacks
		return false
	}
	// By windows that this host had before, two grants of a request may both count.
	return slices.Equal(mine.Terms, r.terms) && mine.Changed <= c.oldest()
}

// over returns which limit counts more than it may since a record of new grants; "": none does.
func (c *Copy) over(record *Record, useReserve bool) string {
	past := false
	for _, v := range c.account.views {
		limit := &v.credential.Limits[v.limit]
		past = past || v.used > limit.Units || !useReserve && v.used > limit.Units-limit.Reserve
	}
	if !past { // the usual case
		return ""
	}
	now := c.advance(record.at.At.Time())
	for _, v := range c.account.views {
		granted := quota.Units(0)
		for i := range record.Entries {
			if v.contains(record.Entries[i].ID) {
				granted += v.Units(&record.Entries[i])
			}
		}
		s := c.account.state(v, now)
		if most := s.Budget(useReserve); granted > 0 && !s.DryRun && v.used > most {
			return fmt.Sprintf("limit %s counts %s since a grant of %s, and %s is the most", s.Name, quota.Thousands(v.used), granted.Text(), quota.Thousands(most))
		}
	}
	return ""
}

// violate has a violation reported, and returns it, unless its invariant was reported a moment ago. mu is held.
func (r *replica) violate(c *Copy, kind Invariant, record *Record, says string) *Violation {
	now := r.ledger.config.Clock()
	if last, known := r.violatedAt[kind]; known && now.Sub(last).Abs() < violationTime {
		return nil
	}
	r.violatedAt[kind] = now
	r.violations = append(r.violations, r.violation(c, kind, record, says))
	return r.violations[len(r.violations)-1]
}

func (r *replica) violation(c *Copy, kind Invariant, record *Record, says string) *Violation {
	v := &Violation{Credential: r.name, Invariant: kind, Says: says, At: r.ledger.config.Clock(), Record: record.at}
	oldest := record.at.At.Time().Add(-violationTime)
	for e := range c.all(quota.ID{}, true) {
		if e.ID.Time().Before(oldest) || len(v.Entries) == violationEntries {
			break
		}
		v.Entries = append(v.Entries, e)
	}
	slices.Reverse(v.Entries)
	return v
}

// recount holds a view against the entries: the sum of its blocks, and one of these. Each time it is the next one, so a
// recount reads few entries, and all of them in the end. A wrong view is read again. mu is held.
func (r *replica) recount(c *Copy) {
	views := c.account.views
	if len(views) == 0 {
		return
	}
	v, n := views[r.recounts%len(views)], r.recounts/len(views)
	r.recounts++
	one, from, last, total := block{}, v.start(), true, quota.Units(0)
	for i, b := range v.blocks {
		total += b.units
		if i == n%len(v.blocks) {
			one, last = b, i == len(v.blocks)-1
		} else if i < n%len(v.blocks) {
			from = b.last
		}
	}
	counted, entries := quota.Units(0), []quota.Entry(nil)
	for e := range c.After(from) {
		if !last && one.last.Less(e.ID) {
			break
		}
		if len(entries) == violationEntries {
			return
		}
		if entries = append(entries, e); v.contains(e.ID) {
			counted += v.Units(&e)
		}
	}
	if c.err != nil || counted == one.units && total == v.used {
		return
	}
	says := fmt.Sprintf("limit %s counts %s, its parts %s, and one of them %s, of which the entries are %s",
		v.Limit().Name, quota.Thousands(v.used), quota.Thousands(total), quota.Thousands(one.units), counted.Text())
	if found := r.violate(c, SumsMatch, &Record{}, says); found != nil {
		found.Entries = entries
	}
	c.account.views = nil
}

// recountOne recounts a view of the copy that was recounted least. What it cannot read, it does not report: the
// next decision does.
func (l *Ledger) recountOne(changed map[*replica]*snapshot) {
	r := slices.MinFunc(slices.Collect(maps.Keys(changed)), func(x, y *replica) int { return x.recounts - y.recounts })
	r.onCopy(r.recount)
}

// reportViolations reports what was found.
func (l *Ledger) reportViolations() {
	for _, r := range l.all() {
		r.mu.Lock()
		found := r.violations
		r.violations = nil
		r.mu.Unlock()
		for _, v := range found {
			l.config.OnViolation(*v)
		}
	}
}

// Shut has a credential grant nothing, with an error as the reason; nil: it grants again. Everything else continues.
func (l *Ledger) Shut(credential string, why error) error {
	r, err := l.replica(credential)
	if err == nil {
		r.mu.Lock()
		r.shut = why
		r.mu.Unlock()
	}
	return err
}
