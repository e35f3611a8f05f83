package quota

import "fmt"

// Units is what an upstream charges: an integer from 0 to [MaxUnits].
type Units int64

// MaxUnits is the largest number of units anything may have or cost, 2^53-1:
// Redis' Lua and most JSON decoders hold integers as doubles, exact up to here.
const MaxUnits Units = 1<<53 - 1

// add sums two amounts and saturates at MaxUnits, so that a sum never wraps.
func add(a, b Units) Units {
	if a > MaxUnits-b {
		return MaxUnits
	}
	return a + b
}

// times multiplies a cost by a count. It fails when the product exceeds MaxUnits.
func times(cost, count Units) (Units, error) {
	if cost > 0 && count > MaxUnits/cost {
		return 0, fmt.Errorf("%s of %s exceed the greatest amount, %s", Count(count, "call", "calls"), cost.Text(), Thousands(MaxUnits))
	}
	return cost * count, nil
}

// Text writes an amount for people, with its noun: "1 unit", "4,120 units".
func (u Units) Text() string { return Count(int64(u), "unit", "units") }
