package slidinglog

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"quotad/quota"
)

// Entries is a log, oldest entry first.
type Entries interface {
	// After yields the entries after id.
	After(id quota.ID) iter.Seq[quota.Entry]
}

// A View sums up the window of one limit.
type View struct {
	credential *quota.Credential
	limit      int // its index
	prices     string

	after int64       // in ms: entries later than this are in the window
	used  quota.Units // of the entries, and held
	held  quota.Units // of used: not in the log yet
	next  int64       // in ms: the time of the oldest entry, or earlier
	// blocks sum up the entries in the window, oldest first. A search reads the sums, and then the
	// entries of one block. The last block is still filling.
	blocks []block
}

// A block sums up consecutive entries of the log.
type block struct {
	last    quota.ID // its newest entry
	entries int
	units   quota.Units // of those in the window
}

// blockSize is the number of entries in a block.
const blockSize = 256

// shows reports whether the view is one of limit i of c: the same name, window and prices. The
// units of the limit do not matter.
func (v *View) shows(c *quota.Credential, i int) bool {
	have, want := v.Limit(), c.Limits[i]
	return have.Name == want.Name && have.Window.Same(want.Window) && v.prices == c.Basis(i)
}

// Limit returns the limit of the view.
func (v *View) Limit() quota.Limit { return v.credential.Limits[v.limit] }

// Units returns what an entry counts here.
func (v *View) Units(e *quota.Entry) quota.Units { return e.UnitsIn(v.credential, v.limit) }

func (v *View) contains(id quota.ID) bool { return id.Ms > v.after }

// start is the id after which the window begins.
func (v *View) start() quota.ID { return quota.ID{Ms: v.after, Seq: math.MaxInt64} }

// add counts an entry. It may be older than others: from another host, or put back.
func (v *View) add(e *quota.Entry) {
	if !v.contains(e.ID) {
		return
	}
	units := v.Units(e)
	v.used += units
	if len(v.blocks) == 0 || e.ID.Ms < v.next {
		v.next = e.ID.Ms
	}
	i := v.block(e.ID)
	if n := len(v.blocks); i == n { // it is the newest
		if n == 0 || v.blocks[n-1].entries >= blockSize {
			v.blocks = append(v.blocks, block{})
		}
		i = len(v.blocks) - 1
		v.blocks[i].last = e.ID
	}
	v.blocks[i].entries++
	v.blocks[i].units += units
}

// block returns the index of an entry's block.
func (v *View) block(id quota.ID) int {
	i, _ := slices.BinarySearchFunc(v.blocks, id, func(b block, id quota.ID) int { return b.last.Compare(id) })
	return i
}

// hold counts units until Account.Release.
func (v *View) hold(units quota.Units) {
	v.used += units
	v.held += units
}

// change counts that an entry changed by some units.
func (v *View) change(id quota.ID, by quota.Units) {
	if by == 0 || !v.contains(id) {
		return
	}
	v.blocks[v.block(id)].units += by
	v.used += by
}

// expire drops the entries up to after, where the window now begins.
func (v *View) expire(after int64, log Entries) {
	from := v.start()
	v.after = max(v.after, after)
	if v.next > after {
		return
	}
	for len(v.blocks) > 0 && !v.contains(v.blocks[0].last) {
		from = v.blocks[0].last
		v.used -= v.blocks[0].units
		v.blocks = v.blocks[1:]
	}
	if len(v.blocks) == 0 {
		return
	}
	for e := range log.After(from) {
		if v.contains(e.ID) {
			v.next = e.ID.Ms
			return
		}
		units := v.Units(&e)
		v.blocks[0].units -= units
		v.used -= units
	}
}

// fits returns when the missing units have left the window, or the zero time if none are missing.
func (v *View) fits(missing quota.Units, now time.Time, log Entries) time.Time {
	window := v.Limit().Window
	if missing <= 0 {
		return time.Time{}
	}
	if _, end := window.Bounds(now); !end.IsZero() {
		return end
	}
	from := v.start()
	for _, b := range v.blocks {
		if b.units < missing {
			missing -= b.units
			from = b.last
			continue
		}
		for e := range log.After(from) {
			if missing -= v.Units(&e); missing <= 0 {
				return e.ID.Time().Add(window.Length)
			}
		}
	}
	return now.Add(window.Length) // the entries in its way are new
}

// nextExpiry returns when entries leave the window next, and their units.
func (v *View) nextExpiry(log Entries) (at time.Time, units quota.Units) {
	from := v.start()
	for _, b := range v.blocks {
		if b.units == 0 {
			from = b.last
			continue
		}
		ms := int64(0)
		for e := range log.After(from) {
			if units > 0 && e.ID.Ms != ms {
				break
			}
			ms = e.ID.Ms
			units += v.Units(&e)
		}
		return time.UnixMilli(ms).UTC().Add(v.Limit().Window.Length), units
	}
	return time.Time{}, 0
}

// giveBack returns which entries return units, at most max: bookings, or an undone one would falsify who spent
// what, and then the others, each the oldest first. It changes nothing.
func (v *View) giveBack(units quota.Units, max int, log Entries) (gives []quota.Give, given quota.Units) {
	for _, booked := range []bool{true, false} {
		for e := range log.After(v.start()) {
			if given == units || len(gives) == max {
				return gives, given
			}
			counts := min(v.Units(&e), units-given)
			if counts > 0 && booked == (e.Kind() == quota.KindAdjustment) {
				gives, given = append(gives, quota.Give{Of: e.ID, Units: counts}), given+counts
			}
		}
	}
	return gives, given
}

// room fails if more units would exceed quota.MaxUnits.
func (v *View) room(units quota.Units) error {
	if v.used > quota.MaxUnits-units {
		return fmt.Errorf("limit %q would hold more than %s", v.Limit().Name, quota.MaxUnits.Text())
	}
	return nil
}
