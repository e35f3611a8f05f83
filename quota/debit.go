package quota

// A Debit is an entry as the arithmetic sees it.
type Debit struct {
	ID        ID
	Operation string // "" of a correction: it costs nothing where nothing is recorded
	Count     Units
	Recorded  []Recorded // the limits that were charged
	Settled   bool       // whether SettledTo says what was really spent
	SettledTo Units
}

// A Recorded is what an entry was charged in a limit when it was written.
type Recorded struct {
	Limit string
	Units Units
}

// In returns what the entry counts in limit i of c: what was charged there, else
// what its operation costs there today; after settling, what is left of it.
func (d *Debit) In(c *Credential, i int) Units {
	return d.settle(d.price(c, i))
}

func (d *Debit) price(c *Credential, i int) Units {
	limit := c.Limits[i]
	for _, r := range d.Recorded {
		if r.Limit == limit.Name {
			return r.Units
		}
	}
	units, err := times(c.Operations[d.Operation].In(limit, d.Operation), d.Count)
	if err != nil {
		return MaxUnits
	}
	return units
}

// settle applies a settlement to one of the entry's charges: the greatest is
// replaced, a smaller one shrinks to it.
func (d *Debit) settle(charge Units) Units {
	switch {
	case !d.Settled:
		return charge
	case charge >= d.Greatest():
		return d.SettledTo
	default:
		return min(charge, d.SettledTo)
	}
}

// Greatest returns the greatest of the charges that were recorded.
func (d *Debit) Greatest() Units {
	var most Units
	for _, r := range d.Recorded {
		most = max(most, r.Units)
	}
	return most
}

// A Record is an entry with all that a ledger keeps of it.
type Record struct {
	Debit
	By     string
	Region string
	Key    string // Request.Key; empty if the request had no id
	Note   string
}

// NewRecord returns what a grant of ask under an id writes.
func NewRecord(c *Credential, ask Ask, id ID) Record {
	r := Record{
		Debit:  Debit{ID: id, Operation: ask.Operation, Count: ask.Count, Recorded: make([]Recorded, len(ask.Charges))},
		By:     ask.Caller.By(),
		Region: ask.Caller.Region,
		Key:    ask.Key(),
	}
	for i, charge := range ask.Charges {
		r.Recorded[i] = Recorded{Limit: c.Limits[charge.Limit].Name, Units: charge.Units}
	}
	return r
}

// Entry returns the record as a line of the log.
func (r *Record) Entry() Entry {
	e := Entry{ID: r.ID, At: r.ID.Time(), Operation: r.Operation, Count: r.Count, By: r.By, Region: r.Region, Note: r.Note}
	for _, charge := range r.Recorded {
		e.Charges = append(e.Charges, EntryCharge{Limit: charge.Limit, Units: charge.Units, Now: r.settle(charge.Units)})
	}
	return e
}
