package quota

import (
	"iter"
	"slices"
	"time"
)

// A Rehearsal plays what calls would be granted later, on a copy of what a ledger
// holds of one credential. It decides as ledgers do, and debits nothing real. It
// is not safe for concurrent use.
type Rehearsal struct {
	Credential *Credential // must not be changed
	account    Account
	log        debits
}

// NewRehearsal returns a rehearsal of a valid credential that begins with nothing spent.
func NewRehearsal(c *Credential) *Rehearsal {
	return &Rehearsal{Credential: c.prepared()}
}

// moment is how long after it was allowed for a call debits. Whoever asks whether
// there is room, and then starts a process that calls, debits a little later; and
// so what was spent at a slot has not quite come back when the same slot comes a
// window later.
const moment = time.Millisecond

// Spend decides at an instant about charges, as Credential.Sum returns them, and
// debits them a moment later if they are granted. Instants before the last one
// count as that one.
func (r *Rehearsal) Spend(at time.Time, charges []Charge) Decision {
	now := r.advance(at)
	d := r.account.Decide(r.Credential, Ask{Charges: charges}, now, r.log)
	if d.Granted() {
		r.debit(r.account.Next(now.Add(moment)), charges)
	}
	d.Limits = r.account.States(r.Credential, charges, now)
	return d
}

// Used returns what each limit holds at an instant, in the order of the limits.
func (r *Rehearsal) Used(at time.Time) []Units {
	r.advance(at)
	used := make([]Units, len(r.Credential.Limits))
	for i, limit := range r.Credential.Limits {
		used[i] = r.account.Tallies[limit.Name].Used()
	}
	return used
}

func (r *Rehearsal) advance(at time.Time) time.Time {
	now := r.account.Now(at)
	r.account.Advance(r.Credential, now, r.log)
	r.log = r.log.behind(r.account.Expired(r.Credential))
	return now
}

func (r *Rehearsal) debit(id ID, charges []Charge) {
	d := resolve(r.Credential, Debit{ID: id})
	for _, charge := range charges {
		d.Recorded[charge.Limit].Units = charge.Units
	}
	r.account.Debit(r.Credential, d)
	r.log = append(r.log, d)
}

// resolve returns a debit that counts in each limit of c what d does, and says so,
// in their order.
func resolve(c *Credential, d Debit) Debit {
	plain := Debit{ID: d.ID, Recorded: make([]Recorded, len(c.Limits))}
	for i, limit := range c.Limits {
		plain.Recorded[i] = Recorded{Limit: limit.Name, Units: d.In(c, i)}
	}
	return plain
}

// debits is a log in memory, oldest entry first.
type debits []Debit

// After implements Debits.
func (l debits) After(id ID) iter.Seq[Debit] { return slices.Values(l.behind(id)) }

// behind returns the entries behind id.
func (l debits) behind(id ID) debits { return l[l.after(id):] }

// after returns the index of the first entry behind id.
func (l debits) after(id ID) int {
	n, _ := slices.BinarySearchFunc(l, id, func(d Debit, id ID) int {
		if id.Less(d.ID) {
			return 1
		}
		return -1
	})
	return n
}
