package quota

import (
	"slices"
	"time"
)

// A Kind says what an entry of a log records.
type Kind string

// The kinds of entries.
const (
	KindGrant      Kind = "grant"
	KindSettlement Kind = "settlement"
	KindAdjustment Kind = "adjustment"
	KindReset      Kind = "reset"
	KindClosing    Kind = "closing"
	KindOpening    Kind = "opening"
	KindLoan       Kind = "loan"
)

// An Entry is one line of a credential's log. Entries of kind grant and
// adjustment count; the others record what was done.
type Entry struct {
	ID   ID
	Kind Kind
	// Gen is the generation of the log in which the entry was placed first: a reset begins
	// another one, and voids the entries of lower ones. Unplaced: it was placed in none yet.
	Gen    int64
	By     string // as Caller.By: the job, "remote/" and the name of a remote caller, or "@" and a uid
	Region string
	Note   string // of an adjustment, a reset, a closing, an opening or a loan: why, as its caller put it

	// Of a grant.
	Operation string
	Count     Units
	Key       string // Request.Key; empty if the request had no id, and in a page of the log
	Settled   bool   // whether SettledTo says what was really spent
	SettledBy ID     // the settlement that says so: the newest one
	// Void says that another entry of the same request counts in this one's place: two
	// hosts granted it, and neither knew of the other's grant.
	Void bool
	// Alone is what the entry itself was granted, where it counts for an earlier one, too; nil
	// of others.
	Alone  *Granted
	Outage bool // it was granted, or settled, while the store could not be reached
	// Of a settlement: see Settlement.Units. Of a grant: the last one's.
	SettledTo Units

	// Charges is what the entry was charged in each limit when it was written; below zero for
	// an adjustment that freed units.
	Charges []Charge
	// GivenBack is what adjustments freed of this entry's charges. It stays with
	// the entry, and leaves each window with it.
	GivenBack []Charge

	// Of a settlement: the grant, and what that counted before and after. Of a void grant in a page of
	// the log: the one that counts.
	Grant         ID
	Before, After []Charge

	// Of an adjustment: the units that were asked for; its charge is what was booked. Gives
	// says of which entries it freed units.
	Asked int64
	Gives []Give

	// Of a closing or an opening: the limit, and when it opens by itself. Of a loan: the limit,
	// by how many units it is higher, and until when; zero units end the loans before it, of
	// which the last would have ended then. Of a reset, Until is how far the log went: later
	// entries count, even those of a lower generation.
	Limit string
	Units Units
	Until time.Time
}

// A Granted is a number of calls, and what they were charged.
type Granted struct {
	Count   Units
	Charges []Charge
}

// Unplaced is the generation of an entry that is in no log yet.
const Unplaced = -1

// A Give is what an adjustment freed of an entry, in the adjustment's limit.
type Give struct {
	Of    ID
	Units Units
}

// A Charge is what something counts in one limit.
type Charge struct {
	Limit string
	Units Units
}

// Max returns the greatest of the charges.
func Max(charges []Charge) Units {
	var greatest Units
	for _, c := range charges {
		greatest = max(greatest, c.Units)
	}
	return greatest
}

// ChargeIn returns the charge in a limit, if there is one.
func ChargeIn(charges []Charge, limit string) (Units, bool) {
	for _, c := range charges {
		if c.Limit == limit {
			return c.Units, true
		}
	}
	return 0, false
}

// NewEntry returns the entry of a grant of ask under an id.
func NewEntry(ask Ask, id ID) Entry {
	return Entry{
		ID: id, Kind: KindGrant,
		Operation: ask.Operation, Count: ask.Count,
		By: ask.Caller.By(), Region: ask.Caller.Region, Key: ask.Key(),
		Charges: slices.Clone(ask.Charges),
	}
}

// UnitsIn returns what the entry counts in limit i of c: what it was charged there,
// else what its operation costs its job there today; of a settled grant what is left of
// that; less what adjustments freed, and never below zero.
func (e *Entry) UnitsIn(c *Credential, i int) Units {
	if e.Void {
		return 0
	}
	given, _ := ChargeIn(e.GivenBack, c.Limits[i].Name)
	return max(0, e.spentIn(c, i)-given)
}

// CalledIn returns what a grant's calls cost in limit i of c, as they were settled. What adjustments
// booked or freed is no part of it.
func (e *Entry) CalledIn(c *Credential, i int) Units {
	if e.Kind != KindGrant || e.Void {
		return 0
	}
	return e.spentIn(c, i)
}

// givenBackIn returns by how much less the entry counts in limit i of c because of
// adjustments.
func (e *Entry) givenBackIn(c *Credential, i int) Units { return e.spentIn(c, i) - e.UnitsIn(c, i) }

func (e *Entry) spentIn(c *Credential, i int) Units {
	limit := c.Limits[i]
	units, charged := ChargeIn(e.Charges, limit.Name)
	if !charged {
		units = e.price(c, limit)
	}
	return max(0, e.settle(units))
}

func (e *Entry) price(c *Credential, limit Limit) Units {
	if e.Kind != KindGrant || !limit.CountsJob(countedAs(e.By)) {
		return 0
	}
	units, err := times(c.Operations[e.Operation].In(limit, e.Operation), e.Count)
	if err != nil {
		return MaxUnits
	}
	return units
}

// settle applies a settlement to one of the entry's charges: the greatest is
// replaced, a smaller one shrinks to it.
func (e *Entry) settle(charge Units) Units {
	switch {
	case !e.Settled || e.Kind != KindGrant:
		return charge
	case charge >= Max(e.Charges):
		return e.SettledTo
	default:
		return min(charge, e.SettledTo)
	}
}

// wasMade reports whether a grant's calls were made, as far as is known: units that an
// adjustment freed of it say only that they cost less.
func (e *Entry) wasMade() bool {
	return slices.ContainsFunc(e.Charges, func(charge Charge) bool { return e.settle(charge.Units) > 0 })
}

// Counts returns what each of the entry's charges counts now. What an adjustment
// freed counts in the entries that it freed units of. An entry that is void counts nothing.
func (e *Entry) Counts() []Charge {
	counts := make([]Charge, len(e.Charges))
	for i, charge := range e.Charges {
		if counts[i].Limit = charge.Limit; e.Void {
			continue
		}
		given, _ := ChargeIn(e.GivenBack, charge.Limit)
		counts[i].Units = max(0, e.settle(charge.Units)-given)
	}
	return counts
}

// GiveBack frees units of what the entry counts in a limit.
func (e *Entry) GiveBack(limit string, units Units) {
	given := slices.Clone(e.GivenBack)
	i := slices.IndexFunc(given, func(c Charge) bool { return c.Limit == limit })
	if i < 0 {
		i, given = len(given), append(given, Charge{Limit: limit})
	}
	given[i].Units += units
	e.GivenBack = given
}

// Settle sets a grant to what was really spent, and returns what its charges
// counted before and count after.
func (e *Entry) Settle(to Units) (before, after []Charge) {
	before = e.Counts()
	e.Settled, e.SettledTo = true, to
	return before, e.Counts()
}
