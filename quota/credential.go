package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Credential is a named upstream account or project whose quota is shared by
// everyone who uses it. It never holds the secret itself.
type Credential struct {
	Name       string
	Limits     []Limit
	Operations map[string]Cost `toml:"operations" by:"operation"` // an operation that is not listed is refused
	// Keep is for how long the log keeps entries, 0 … MaxKeep, where no window is longer. It changes nothing of what
	// counts.
	Keep time.Duration `toml:"keep"`
}

// A Limit is a named budget of a credential: units per window.
type Limit struct {
	Name    string
	Units   Units    `toml:"units" required:"10_000"` // what the upstream allows per window, 1 … MaxUnits
	Reserve Units    `toml:"reserve"`                 // held back from ordinary callers, 0 … Units-1
	Window  Window   `toml:"window" default:"24h"`    // of a share its pool's, if it has one
	Only    []string `toml:"only"`                    // the operations it counts; empty: every one

	// A limit that counts the calls of some jobs is a share: at most one of the two is set. Calls outside any pass
	// belong to no job. A remote caller is listed like a job, by its name in the log, see RemotePrefix.
	Jobs       []string `toml:"jobs"`        // the jobs whose calls it counts; empty: all calls
	ExceptJobs []string `toml:"except_jobs"` // the jobs whose calls it does not count

	// DryRun has the limit count, and refuse nothing: Decision.WouldDeny returns what it would have refused.
	DryRun bool `toml:"enforce" default:"true" is:"not"`
}

// Counts reports whether the limit counts an operation.
func (l Limit) Counts(operation string) bool {
	return len(l.Only) == 0 || slices.Contains(l.Only, operation)
}

// IsShare reports whether the limit counts the calls of some jobs only.
func (l Limit) IsShare() bool { return len(l.Jobs)+len(l.ExceptJobs) > 0 }

// CountsJob reports whether the limit counts the calls of a job; "" is a caller outside any pass.
func (l Limit) CountsJob(job string) bool {
	if len(l.Jobs) > 0 {
		return slices.Contains(l.Jobs, job)
	}
	return !slices.Contains(l.ExceptJobs, job)
}

// Budget is the greatest amount that may be in the window at once for a caller with or without the reserve.
func (l Limit) Budget(useReserve bool) Units {
	if useReserve {
		return l.Units
	}
	return l.Units - l.Reserve
}

// A Cost is what one call of an operation costs: the same for every limit that counts it, or an amount per limit. It
// may be 0: such a call is granted whatever the limits hold, and counted as a call.
type Cost struct {
	Every Units            // against every limit that counts the operation; 0 when Per is set
	Per   map[string]Units // limit name → units; a limit that is not named does not count the operation
}

// In returns what one call costs in a limit, where the limit counts the caller; 0
// means that it does not count the operation.
func (c Cost) In(l Limit, operation string) Units {
	if c.Per != nil {
		return c.Per[l.Name]
	}
	if !l.Counts(operation) {
		return 0
	}
	return c.Every
}

// greatest is what one call costs in the limit in which it costs most.
func (c Cost) greatest() Units {
	return slices.Max(append(slices.Collect(maps.Values(c.Per)), c.Every))
}

// Charges returns what count calls of an operation cost a job, "" outside any pass, in the order of the credential's
// limits. The credential must be valid and the operation known.
func (c *Credential) Charges(operation string, count Units, job string) ([]Charge, error) {
	cost := c.Operations[operation]
	charges := make([]Charge, 0, len(c.Limits))
	for _, limit := range c.Limits {
		units := cost.In(limit, operation)
		if units == 0 || !limit.CountsJob(job) {
			continue
		}
		total, err := times(units, count)
		if err != nil {
			return nil, err
		}
		charges = append(charges, Charge{Limit: limit.Name, Units: total})
	}
	return charges, nil
}

// Terms is a text of all that decides about requests: hosts that share a ledger decide alike if, and only if, theirs
// are equal. It is for comparing alone.
func (c *Credential) Terms() string {
	var text strings.Builder
	for _, l := range c.Limits {
		fmt.Fprintf(&text, "limit %s %d %d %q %q %q %q %t\n", l.Name, l.Units, l.Reserve, l.Window.terms(), sorted(l.Only), sorted(l.Jobs), sorted(l.ExceptJobs), l.DryRun)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Operations)) {
		cost := c.Operations[name]
		fmt.Fprintf(&text, "operation %s %d", name, cost.Every)
		for _, limit := range slices.Sorted(maps.Keys(cost.Per)) {
			fmt.Fprintf(&text, " %s=%d", limit, cost.Per[limit])
		}
		text.WriteString("\n")
	}
	return text.String()
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }

// Index returns the index of the limit of that name, or -1.
func (c *Credential) Index(limit string) int {
	return slices.IndexFunc(c.Limits, func(l Limit) bool { return l.Name == limit })
}

// Limit returns the limit of that name.
func (c *Credential) Limit(name string) (Limit, bool) {
	i := c.Index(name)
	if i < 0 {
		return Limit{}, false
	}
	return c.Limits[i], true
}

func (c *Credential) unknownLimit(name string) Decision {
	d := refuse(UnknownLimit, fmt.Sprintf("credential %q has no limit %.80q", c.Name, name))
	d.Hint = DidYouMean(name, c.LimitNames(), "limits of "+c.Name)
	return d
}

// LimitNames returns the names of the limits, in their order.
func (c *Credential) LimitNames() []string {
	names := make([]string, len(c.Limits))
	for i, l := range c.Limits {
		names[i] = l.Name
	}
	return names
}

// Calls are calls of several operations that one job makes.
type Calls struct {
	Job   string           // "" outside any pass
	Count map[string]Units // by operation
	// Pace is how long they may wait for each other: of a limit with a window no longer than
	// that, they need no more at once than its budget.
	Pace time.Duration
}

// Paced returns what calls with these charges need at once, if they may, or may not, use the reserve.
func (c *Credential) Paced(charges []Charge, pace time.Duration, useReserve bool) []Charge {
	paced := slices.Clone(charges)
	for i, charge := range paced {
		if limit, found := c.Limit(charge.Limit); found && limit.Window.Span() <= pace {
			paced[i].Units = min(charge.Units, max(1, limit.Budget(useReserve)))
		}
	}
	return paced
}

// Cost returns what calls cost, as a run counts them: of each call the greatest of its
// charges, at most MaxUnits in all. An operation that is not listed costs nothing.
func (c *Credential) Cost(calls Calls) Units {
	var sum Units
	for operation, count := range calls.Count {
		if charges, err := c.Charges(operation, count, calls.Job); err == nil {
			sum = add(sum, Max(charges))
		}
	}
	return sum
}

// Sum returns what calls cost together, in the order of the limits and at most MaxUnits in each. It fails for an
// operation that is not listed, or that costs more than MaxUnits by itself.
func (c *Credential) Sum(calls Calls) ([]Charge, error) {
	totals := map[string]Units{} // by limit
	for operation, count := range calls.Count {
		if _, known := c.Operations[operation]; !known {
			return nil, fmt.Errorf("operation %q is not listed for credential %q", operation, c.Name)
		}
		charges, err := c.Charges(operation, count, calls.Job)
		if err != nil {
			return nil, err
		}
		for _, charge := range charges {
			totals[charge.Limit] = add(totals[charge.Limit], charge.Units)
		}
	}
	var sum []Charge
	for _, limit := range c.Limits {
		if units := totals[limit.Name]; units > 0 {
			sum = append(sum, Charge{Limit: limit.Name, Units: units})
		}
	}
	return sum, nil
}

// addTo adds what calls cost to charges, in the limits of those charges.
func (c *Credential) addTo(charges []Charge, calls Calls) error {
	more, err := c.Sum(calls)
	for i, charge := range charges {
		units, _ := ChargeIn(more, charge.Limit)
		charges[i].Units = add(charge.Units, units)
	}
	return err
}
