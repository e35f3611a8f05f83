package slidinglog

import (
	"errors"
	"fmt"
	"slices"

	"quotad/quota"
)

// While the store cannot be reached, open operations are granted on the copy. A grant must fit
// each limit there, and the allowance. It is synced to the file before the caller gets its answer,
// and appended to the log when the store is back.

// outage reports whether an error is an outage, in which the policy decides: the store does not answer,
// or refuses for now. An error of the file is none: the store may be there, and the copy may lack what it
// has.
func (r *replica) outage(err error) bool {
	unreachable := errors.Is(err, quota.ErrUnavailable) || errors.Is(err, quota.ErrOutcomeUnknown)
	known := []error{quota.ErrLost, quota.ErrRecovering, quota.ErrContended, quota.ErrUnusable}
	if slices.ContainsFunc(known, func(e error) bool { return errors.Is(err, e) }) || errors.As(err, new(fileError)) {
		return false
	}
	return r.ledger.config.Store != nil && unreachable
}

// refuses returns why operations cannot be granted at all: offline.
func (d *draft) refuses(operations ...string) error {
	closed := slices.ContainsFunc(operations, func(operation string) bool { return !d.policy.Open[operation] })
	switch {
	case d.down == nil:
		return nil
	case d.configured == nil || closed:
		return d.down
	case !d.copy.facts.Complete:
		return fmt.Errorf("%w: this host has not read the whole log yet", d.down)
	}
	return nil
}

// allowance returns the units that are left for offline grants.
func (d *draft) allowance() quota.Units {
	left := d.policy.Units - d.copy.facts.offlineUnits(d.copy.oldest())
	for _, e := range d.entries {
		left -= quota.Max(e.Charges)
	}
	return max(0, left)
}

// offlineUnits returns the units that this host granted offline since a time.
func (f *facts) offlineUnits(oldest int64) (units quota.Units) {
	for _, g := range f.Offline {
		if g.ID.Ms > oldest {
			units += g.Units
		}
	}
	return units
}

// commitOffline lets a call draft on the copy, and writes the draft to the file. The log gets it when
// the store is back. down is why the store cannot be reached. The copy has the draft before the file: so no fold
// loses it, and none waits for its sync.
func (r *replica) commitOffline(w *waiter, down error) error {
	if err := r.ledger.config.File.Room(r.name, frameRoom+offlineRoom); err != nil {
		return err
	}
	r.mu.Lock()
	if r.refused == nil { // the store is back since the caller found it down, and may be getting another grant
		r.mu.Unlock()
		return down
	}
	d, err := r.draft(w.credential, r.estimated(), down, func(d *draft) { w.draft(d) })
	if err == nil && len(d.entries) > 0 {
		err = r.addOffline(d)
	}
	r.mu.Unlock()
	if err != nil || len(d.entries) == 0 {
		return err
	}
	if err := r.ledger.config.File.Append(r.name, frame(frameUnplaced, Placed{Body: r.newRecord(d.entries, nil).Body()}), true); err != nil {
		return r.unavailable(err) // the entries stay in the copy, and count
	}
	return r.finish(d, d.clock)
}

// addOffline adds the entries of an offline draft to the copy, under ids without a place. mu is
// held.
func (r *replica) addOffline(d *draft) error {
	_, run := r.ledger.self()
	for i := range d.entries {
		d.entries[i].ID, d.entries[i].Outage = offlineID(d.now.UnixMilli(), r.ledger.numbers.Add(1), run), true
	}
	return r.unavailable(r.copy.view(func() {
		for _, e := range d.entries {
			r.copy.putOffline(e)
		}
	}))
}

// putOffline adds an entry that this host wrote offline.
func (c *Copy) putOffline(e quota.Entry) {
	if _, found := c.entry(e.ID); !found && e.Outage && e.Kind() == quota.KindGrant {
		c.facts.Offline = append(c.facts.Offline, offlineGrant{e.ID, quota.Max(e.Charges)})
	}
	c.put(e, false)
}

const (
	frameRoom   = 64       // the size of a frame without its record
	offlineRoom = 64 << 10 // roughly the largest offline record, which is a batch of grants
)
