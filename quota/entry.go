package quota

import "time"

// A Kind says what an entry of a log records.
type Kind string

// The kinds of entries.
const (
	KindGrant      Kind = "grant"
	KindSettlement Kind = "settlement"
	KindBooking    Kind = "booking"
	KindReset      Kind = "reset"
	KindClosing    Kind = "closing"
	KindOpening    Kind = "opening"
)

// An Entry is one line of a credential's log: a header, and the body of its kind. Grants and bookings count; the other
// kinds record what was done.
type Entry struct {
	ID     ID
	At     time.Time // the microsecond of the ledger's clock at which it counts; no two of a log are equal
	By     string    // as Caller.By: the job, "remote/" and the name of a remote caller, or "@" and a uid
	Region string
	Note   string // why, as its caller put it; a grant and a settlement have none
	Outage bool   // a host wrote it while the ledger could not be reached

	Charges []Charge // what it counts in each limit now
	Was     []Charge // what a settled grant was charged; nil of others
	Would   []string // the limits that only observe and would have refused it

	Body
}

// A Body is what only the entries of one kind have.
type Body interface{ Kind() Kind }

// A Grant is the body of a grant.
type Grant struct {
	Operation string
	Count     Units
}

// Settled is the body of a settlement.
type Settled struct {
	Grant ID
	To    Units // see Settlement.Units
}

// Booked is the body of a booking.
type Booked struct{}

// Reset is the body of a reset: what is older does not count.
type Reset struct{}

// Changed is the body of a closing or an opening.
type Changed struct {
	Limit string
	Until time.Time // when a closing ends by itself; zero of an opening
}

func (Grant) Kind() Kind   { return KindGrant }
func (Settled) Kind() Kind { return KindSettlement }
func (Booked) Kind() Kind  { return KindBooking }
func (Reset) Kind() Kind   { return KindReset }
func (c Changed) Kind() Kind {
	if c.Until.IsZero() {
		return KindOpening
	}
	return KindClosing
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

// Grant returns the body of a grant, and whether the entry is one.
func (e *Entry) Grant() (Grant, bool) {
	g, ok := e.Body.(Grant)
	return g, ok
}

// Settled reports whether the entry is a grant that was settled, and to what.
func (e *Entry) Settled() (to Units, ok bool) { return Max(e.Charges), e.Was != nil }

// Asked returns what the entry was charged when it was written.
func (e *Entry) Asked() []Charge {
	if e.Was != nil {
		return e.Was
	}
	return e.Charges
}
