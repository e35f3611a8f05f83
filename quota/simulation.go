package quota

import (
	"iter"
	"slices"
	"time"
)

// A Simulation plays what calls would be granted later, on a copy of what a ledger
// holds of one credential. It decides as ledgers do, and debits nothing real. It
// is not safe for concurrent use.
type Simulation struct {
	Credential *Credential // must not be changed
	account    Account
	log        debits
}

// NewSimulation returns a simulation of a valid credential that begins with nothing spent.
func NewSimulation(c *Credential) *Simulation {
	return &Simulation{Credential: c.prepared()}
}

// moment is how long after it was allowed for a call debits. Whoever asks whether
// there is room, and then starts a process that calls, debits a little later; and
// so what was spent at a slot has not quite come back when the same slot comes a
// window later.
const moment = time.Millisecond

// Spend decides at an instant about charges, as Credential.Sum returns them, and
// debits them a moment later if they are granted. Instants before the last one
// count as that one.
func (s *Simulation) Spend(at time.Time, charges []Charge) Decision {
	now := s.advance(at)
	d := s.account.Decide(s.Credential, Ask{Charges: charges}, now, s.log)
	if d.Granted() {
		s.debit(s.account.Next(now.Add(moment)), charges)
	}
	d.Limits = s.account.States(s.Credential, charges, now)
	return d
}

// Used returns what each limit holds at an instant, in the order of the limits.
func (s *Simulation) Used(at time.Time) []Units {
	s.advance(at)
	used := make([]Units, len(s.Credential.Limits))
	for i, limit := range s.Credential.Limits {
		used[i] = s.account.Tallies[limit.Name].Used()
	}
	return used
}

func (s *Simulation) advance(at time.Time) time.Time {
	now := s.account.Now(at)
	s.account.Advance(s.Credential, now, s.log)
	s.log = s.log.behind(s.account.Expired(s.Credential))
	return now
}

func (s *Simulation) debit(id ID, charges []Charge) {
	e := resolve(s.Credential, Entry{ID: id})
	for _, charge := range charges {
		e.Charges[s.Credential.Index(charge.Limit)].Units = charge.Units
	}
	s.account.Debit(s.Credential, e)
	s.log = append(s.log, e)
}

// resolve returns an entry that counts in each limit of c what e does, and says so,
// in their order.
func resolve(c *Credential, e Entry) Entry {
	plain := Entry{ID: e.ID, Kind: KindGrant, Charges: make([]Charge, len(c.Limits))}
	for i, limit := range c.Limits {
		plain.Charges[i] = Charge{Limit: limit.Name, Units: e.UnitsIn(c, i)}
	}
	return plain
}

// debits is a log in memory, oldest entry first.
type debits []Entry

// After implements Debits.
func (l debits) After(id ID) iter.Seq[Entry] { return slices.Values(l.behind(id)) }

// behind returns the entries behind id.
func (l debits) behind(id ID) debits { return l[l.after(id):] }

// after returns the index of the first entry behind id.
func (l debits) after(id ID) int {
	n, _ := slices.BinarySearchFunc(l, id, func(e Entry, id ID) int {
		if id.Less(e.ID) {
			return 1
		}
		return -1
	})
	return n
}
