package slidinglog

import (
	"fmt"

	"quotad/quota"
)

// An operation is an operator's call: an adjustment, a change of a limit, or a reset. Its entry has an id before
// it is appended. So the log has it once, even if it is appended again after a lost answer, or put back by several hosts.
// A settlement needs none: it says what its grant then counts.
type operation struct {
	entry quota.Entry // as it was drafted last
	gen   int64       // of the log then
	sent  bool        // the log has it, or may get it
}

// once drafts the entry of an operation, as decide returns it; ok false: there is nothing to write. If an earlier
// draft may have been appended, it is that one's entry, which may be in the log already.
func (d *draft) once(o *operation, by quota.Caller, decide func() (e quota.Entry, ok bool)) (ok bool, err error) {
	if o.sent {
		if _, found := d.copy.entry(o.entry.ID); found {
			return true, nil
		}
		if o.gen != d.copy.facts.Gen {
			return false, fmt.Errorf("%w: another reset came first", quota.ErrOutcomeUnknown)
		}
	} else {
		if o.entry, ok = decide(); !ok {
			return false, nil
		}
		o.entry.ID, o.gen = d.nextID(), d.copy.facts.Gen
	}
	d.sent = append(d.sent, &o.sent)
	d.add(o.entry, by)
	return true, nil
}

// nextID returns the id that the next entry of the draft will have if its record is appended at once. So the entries
// of a log are in the order of their records.
func (d *draft) nextID() quota.ID {
	var tag Tag
	d.ledger.draw(tag[:4]) // as many as an id has
	return newID(d.place(), len(d.entries), tag)
}

// place returns the place of the draft's record if it is appended at once.
func (d *draft) place() quota.ID {
	at, last := quota.ID{Ms: d.now.UnixMilli()}, d.copy.facts.Position.ID
	if d.wipe {
		at.Ms = d.clock.UnixMilli()
	} else if at.Ms <= last.Ms {
		at = quota.ID{Ms: last.Ms, Seq: last.Seq + 1}
	}
	return at
}
