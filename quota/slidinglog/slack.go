package slidinglog

import (
	"crypto/sha256"
	"math"
	"math/bits"
	"strings"

	"quotad/quota"
)

// Grants of two hosts do not depend on each other while both have room. So a grant may be appended behind
// records that its host has not read, if they are such grants, too, and what they take leaves it enough. How much a
// record takes stands in its head: the greatest part of a limit. The room that a decision leaves is its slack. Parts
// instead of units let one number speak for all limits.
//
// A settlement takes all that its grant then counts, because others may know another settlement of it. One that raises
// nothing needs no room, so it is appended behind any such records.
//
// The host applies the records that it was appended behind, and then its own. If one of them has granted
// the same request, its caller gets that one's answer, and the two count as one. A denial has no slack: it is
// that of one instant.

const (
	// limitParts is how many parts a limit has.
	limitParts = 1 << 30
	// barrier is the most of a record that others must read before they append.
	barrier = math.MaxUint32
	// maxSlack is what a store can count exactly.
	maxSlack = 1 << 52
)

// parts returns units as parts of a limit, rounded down, and whether they are more than that.
func parts(units, limit quota.Units) (n int64, more bool) {
	high, low := bits.Mul64(uint64(units), limitParts)
	if high >= uint64(limit) {
		return maxSlack, true
	}
	quotient, rest := bits.Div64(high, low, uint64(limit))
	return int64(min(quotient, maxSlack)), rest > 0
}

// room returns how much others may take of limits in which a grant is held, so that it still fits: what is left
// of the limit with the least.
func room(limits []quota.LimitState, useReserve bool) int64 {
	least := int64(maxSlack)
	for _, s := range limits {
		left := s.Spendable(useReserve)
		if s.DryRun {
			left = quota.MaxUnits - s.Used
		}
		if left <= 0 || s.Limit.Units <= 0 {
			return 0
		}
		n, _ := parts(left, s.Limit.Units)
		least = min(least, n)
	}
	return least
}

// sumUp completes a draft of a log that others write to. A denial must be that of one instant, also if only another
// call of the draft is in its way.
func (d *draft) sumUp() {
	if len(d.entries) == 0 || d.ledger.config.Store == nil {
		return
	}
	d.termSum, d.most = d.termsSum(d.credential), d.takes()
	if d.unsure || d.most == barrier {
		d.slack = 0
	}
}

// takes returns the greatest part of a limit that the entries of the draft take, in all limits, also in those that
// refuse nothing now.
func (d *draft) takes() uint32 {
	greatest := int64(0)
	for _, v := range d.copy.account.views {
		units := quota.Units(0)
		for i := range d.entries {
			if kind := d.entries[i].Kind(); kind != quota.KindGrant && kind != quota.KindSettlement {
				return barrier
			}
			units += v.Units(&d.entries[i])
		}
		for i := range d.corrected { // others may not know that they were settled before
			units += v.Units(&d.corrected[i])
		}
		n, more := parts(units, v.Limit().Units)
		if more {
			n++
		}
		greatest = max(greatest, n)
	}
	return uint32(min(greatest, barrier))
}

// termsSum returns a checksum of what a credential counts. mu is held.
func (r *replica) termsSum(c *quota.Credential) [4]byte {
	if r.summed != c {
		sum := sha256.Sum256([]byte(strings.Join(termsOf(c), "\n")))
		r.summed, r.sum = c, [4]byte(sum[:])
	}
	return r.sum
}

// findSame finds the grants of the draft's requests that other hosts have appended meanwhile.
func (d *draft) findSame() error {
	return d.onCopy(func(c *Copy) {
		for i := range d.entries {
			g, _ := d.entries[i].Grant()
			if g.Key == "" {
				continue
			}
			if e, found := c.granted(g.Key); found {
				if d.same == nil {
					d.same = make(map[int]quota.Entry)
				}
				d.same[i] = e
			}
		}
	})
}
