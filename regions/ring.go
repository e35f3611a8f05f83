package regions

import "slices"

// A Ring is a job's regions in order; after the last comes the first. No two are alike.
type Ring []Region

// A Cursor names the region at which a job's next run begins. The zero value
// is the beginning of the ring. It reorders a ring and never removes a region.
type Cursor string

// From returns every region of the ring exactly once, beginning at the cursor.
// A cursor whose region is not in the ring (any more) begins at the beginning.
func (r Ring) From(c Cursor) Ring {
	start := max(0, slices.Index(r, Region(c)))
	return slices.Concat(r[start:], r[:start])
}

// Advance returns where the next run begins after one that went through the ring in this order and served the regions
// for which served holds: at the first region that was not served, or, after a full turn, where this one began.
func (r Ring) Advance(served func(Region) bool) Cursor {
	for _, region := range r {
		if !served(region) {
			return Cursor(region)
		}
	}
	if len(r) == 0 {
		return ""
	}
	return Cursor(r[0])
}
