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
)

// An Entry is one line of a credential's log: a header, and the body of its kind. Grants and
// adjustments count; the other kinds record what was done.
type Entry struct {
	ID ID
	// Gen is the generation of the log in which the entry was placed first: a reset begins
	// another one, and voids the entries of lower ones. Unplaced: it was placed in none yet.
	Gen    int64
	By     string // as Caller.By: the job, "remote/" and the name of a remote caller, or "@" and a uid
	Region string
	Note   string // why, as its caller put it; a grant and a settlement have none
	Outage bool   // it was written while the store could not be reached

	// Charges is what a grant or an adjustment was charged in each limit when it was written; below
	// zero for an adjustment that freed units.
	Charges []Charge
	// GivenBack is what adjustments freed of these charges. It stays with the entry, and leaves
	// each window with it.
	GivenBack []Charge

	Body
}

// A Body is what only the entries of one kind have. A body never changes: an entry that changes gets
// another one.
type Body interface{ Kind() Kind }

// A Grant is the body of a grant.
type Grant struct {
	Operation string
	Count     Units
	Key       string // Request.Key; empty if the request had no id, and in a page of the log
	Settled   bool   // whether SettledTo says what was really spent: see Settlement.Units
	SettledTo Units
	SettledBy ID // the newest settlement
	// Void means that another entry of the same request counts in this one's place: two
	// hosts granted it, and neither knew of the other's grant.
	Void    bool
	Counted ID // in a page of the log: the entry that counts in the place of a void one
	// Own is what the entry itself was granted, if it counts for an earlier one, too.
	Own *Granted
}

// A Granted is a number of calls, and what they were charged.
type Granted struct {
	Count   Units
	Charges []Charge
}

// Settled is the body of a settlement.
type Settled struct {
	Grant         ID
	To            Units    // see Settlement.Units
	Before, After []Charge // what the grant counted before it, and counts after it
}

// Adjusted is the body of an adjustment. Its charge is what was booked.
type Adjusted struct {
	Asked int64  // the units that were asked for
	Gives []Give // of which entries it freed units
}

// A Give is what an adjustment freed of an entry, in the adjustment's limit.
type Give struct {
	Of    ID
	Units Units
}

// Reset is the body of a reset.
type Reset struct {
	Until time.Time // how far the log went: later entries count, even those of a lower generation
}

// Changed is the body of a closing or an opening.
type Changed struct {
	Change Kind // KindClosing or KindOpening
	Limit  string
	Until  time.Time // when a closing ends by itself
}

func (Grant) Kind() Kind     { return KindGrant }
func (Settled) Kind() Kind   { return KindSettlement }
func (Adjusted) Kind() Kind  { return KindAdjustment }
func (Reset) Kind() Kind     { return KindReset }
func (c Changed) Kind() Kind { return c.Change }

// Unplaced is the generation of an entry that is in no log yet.
const Unplaced = -1

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

// Grant returns the body of a grant, and whether the entry is one.
func (e *Entry) Grant() (Grant, bool) {
	g, ok := e.Body.(Grant)
	return g, ok
}

// UnitsIn returns what the entry counts in limit i of c: what it was charged there,
// else what its operation costs its job there today; of a settled grant what is left of
// that; less what adjustments freed, and never below zero.
func (e *Entry) UnitsIn(c *Credential, i int) Units {
	given, _ := ChargeIn(e.GivenBack, c.Limits[i].Name)
	return max(0, e.spentIn(c, i)-given)
}

// CalledIn returns what a grant's calls cost in limit i of c, as they were settled. What adjustments
// booked or freed is no part of it.
func (e *Entry) CalledIn(c *Credential, i int) Units {
	if _, ok := e.Grant(); !ok {
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
	if g, ok := e.Grant(); ok {
		if !charged && limit.CountsJob(countedAs(e.By)) {
			units = g.price(c, limit)
		}
		units = g.settle(units, e.Charges)
	}
	return max(0, units)
}

func (g Grant) price(c *Credential, limit Limit) Units {
	units, err := times(c.Operations[g.Operation].In(limit, g.Operation), g.Count)
	if err != nil {
		return MaxUnits
	}
	return units
}

// settle applies a settlement to a charge of the grant's: the greatest of all is replaced, a smaller
// one shrinks to it. A void grant counts nothing.
func (g Grant) settle(charge Units, all []Charge) Units {
	switch {
	case g.Void:
		return 0
	case !g.Settled:
		return charge
	case charge >= Max(all):
		return g.SettledTo
	default:
		return min(charge, g.SettledTo)
	}
}

// wasMade reports whether a grant's calls were made, as far as is known: units that an
// adjustment freed of it say only that they cost less.
func (e *Entry) wasMade() bool {
	g, _ := e.Grant()
	return slices.ContainsFunc(e.Charges, func(charge Charge) bool { return g.settle(charge.Units, e.Charges) > 0 })
}

// Counts returns what each of the entry's charges counts now. What an adjustment
// freed counts in the entries that it freed units of.
func (e *Entry) Counts() []Charge {
	g, _ := e.Grant()
	counts := make([]Charge, len(e.Charges))
	for i, charge := range e.Charges {
		given, _ := ChargeIn(e.GivenBack, charge.Limit)
		counts[i] = Charge{charge.Limit, max(0, g.settle(charge.Units, e.Charges)-given)}
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

// Settle sets a grant to what was really spent, by a settlement with an id.
func (e *Entry) Settle(to Units, by ID) {
	g, _ := e.Grant()
	g.Settled, g.SettledTo, g.SettledBy = true, to, by
	e.Body = g
}
