package jobs

import "quotad/regions"

// advance returns where the next run begins after this one, and how many runs in a row have run dry
// there, given both before it.
func (r *Run) advance(cursor regions.Cursor, dry int) (regions.Cursor, int) {
	if r.Chosen || len(r.Ring) == 0 {
		return cursor, dry
	}
	return r.Ring.Advance(r.hadTurn), r.dryAfter(dry)
}

// hadTurn returns whether a region of the run had its turn, so that the next run begins after it.
func (r *Run) hadTurn(region regions.Region) bool {
	return r.hasPass(region, func(p *Pass) bool { return p.Outcome.Served() || p.Yields })
}

// yields returns whether a pass has kept the turn for too long: dry runs in a row have stopped at
// its region before. A region that needs more than returns between two runs would keep it for
// ever: each run would spend what has returned on the same beginning of its work, and the other
// regions would starve. A pass that is denied at once does not count: nothing had returned then.
func (r *Run) yields(p Pass, dry int) bool {
	return p.Region == r.Ring[0] && p.ranDry() && dry+1 >= patience
}

// patience is how many runs in a row may begin at one region and run dry there.
const patience = 3

// dryAfter is how many runs in a row have run dry at their beginning, if it was dry before this one.
func (r *Run) dryAfter(dry int) int {
	first := r.Ring[0]
	switch {
	case r.hadTurn(first):
		return 0
	case r.hasPass(first, (*Pass).ranDry):
		return dry + 1
	}
	return dry
}

func (p *Pass) ranDry() bool { return p.Outcome == Exhausted && (p.Units > 0 || !p.Denied) }
