package quota

import (
	"cmp"
	"time"
)

// A Check is what one limit asks of a request: an engine compares what the limit's window holds, and the cost, with
// the most that may be in it. It knows nothing else of limits.
type Check struct {
	Limit string
	// Length is that of a sliding window; of one that restarts, zero: it holds what counts after From and before Ends.
	Length     time.Duration
	From, Ends time.Time
	// Max is the most that may be in the window; MaxUnits: all that can be counted, also while the limit is closed.
	Max  Units
	Cost Units
	// Observes has the limit counted, and what it would have refused noted in the entry. It refuses nothing.
	Observes bool
}

// Checks returns what the limits with a charge ask of a request at a time, in the order of the charges.
func (c *Credential) Checks(charges []Charge, useReserve bool, now time.Time) []Check {
	checks := make([]Check, 0, len(charges))
	for _, charge := range charges {
		if l, found := c.Limit(charge.Limit); found {
			check := l.check(now)
			check.Max, check.Cost = l.Budget(useReserve), charge.Units
			checks = append(checks, check)
		}
	}
	return checks
}

// Looks returns a check of each limit that any sum fits, in their order: it asks what they hold.
func (c *Credential) Looks(now time.Time) []Check {
	checks := make([]Check, len(c.Limits))
	for i, l := range c.Limits {
		checks[i] = l.check(now)
		checks[i].Max = MaxUnits - 1
	}
	return checks
}

func (l Limit) check(now time.Time) Check {
	k := Check{Limit: l.Name, Length: l.Window.Length, Observes: l.DryRun}
	if l.Window.Restarts() {
		k.From, k.Ends = l.Window.Bounds(now)
	}
	return k
}

// Longest returns the longest time for which an entry counts in a limit.
func (c *Credential) Longest() (longest time.Duration) {
	for _, l := range c.Limits {
		longest = max(longest, l.Window.Span())
	}
	return longest
}

// leastKeep is for how long entries are kept at least: request ids are known, and grants can be settled.
const leastKeep = 10 * time.Minute

// Keeps returns for how long the log keeps an entry: as long as any limit counts it, and as Keep says.
func (c *Credential) Keeps() time.Duration {
	return max(c.Longest(), cmp.Or(c.Keep, leastKeep), leastKeep)
}
