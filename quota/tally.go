package quota

// A Tally is the running total of one limit.
type Tally struct {
	Sum    Units  // of the entries behind Gone
	Credit Units  // given back by adjustments, to the oldest entries first; at most Sum
	Gone   ID     // entries up to here have left the window
	Seen   ID     // entries up to here have been counted
	Basis  string // how entries without a recorded charge were priced, see Credential.Basis
}

// Used is what the limit's window holds.
func (t *Tally) Used() Units { return t.Sum - t.Credit }

// leave takes an entry of u units out of the window and returns what that frees:
// what had been given back before is not freed twice.
func (t *Tally) leave(u Units) Units {
	given := min(u, t.Credit)
	t.Credit -= given
	t.Sum -= u
	return u - given
}
