package quota

import "context"

// An Explanation is the decision that a request would get now, and what would change
// it. Its Decision moved nothing: even one that grants has no grant id.
type Explanation struct {
	Decision
	// Fits is how many calls would be granted now, from 0; more than were asked
	// for where there is room, and the ledger knows.
	Fits Units
	// WouldDeny is what the limits that are not enforced would have refused.
	WouldDeny []Shortage
	// ReserveAllows is whether all of it would fit now with the reserve, and an operator, who is
	// outside any pass, would be granted it.
	ReserveAllows bool
	Obstacles     []Obstacle // the limits that stand in the way; none of a grant
}

// An Obstacle is a limit that a request does not fit now.
type Obstacle struct {
	LimitState
	// Missing is by how much: the units by which the limit would have to be
	// raised, its reserve lowered, or its debits lowered. 0 where the limit
	// is Closed.
	Missing Units
	// Who holds what is in the window, the greatest first. Empty where the request
	// could never fit.
	Jobs, Regions, Operations []Holder
}

// Why explains the decision that a request of an ordinary caller would get. Errors are
// those of Acquire, and of reading the log, which takes as long as ctx lives.
func (s *Service) Why(ctx context.Context, r Request) (Explanation, error) {
	c, charges, refused := s.price(r)
	if c == nil {
		return Explanation{Decision: refused}, nil
	}
	d, err := s.foresee(ctx, c, r, charges)
	if err != nil || d.Reason != "" && !d.Denied() && d.Reason != CostExceedsLimit {
		return Explanation{Decision: d}, err
	}
	e := explain(d, r.Count)
	if e.ReserveAllows {
		e.ReserveAllows, err = s.reserveAllows(ctx, c, r)
	}
	if err == nil && d.Reason == LimitExceeded {
		err = s.findHolders(ctx, c, e.Obstacles)
	}
	return e, err
}

// reserveAllows reports whether an operator would be granted a request now with the reserve: other shares
// count their calls than those of a job.
func (s *Service) reserveAllows(ctx context.Context, c *Credential, r Request) (bool, error) {
	charges, err := c.Charges(r.Operation, r.Count, Caller{}.CountedAs())
	if err != nil {
		return false, err
	}
	d, err := s.peek(ctx, c, []string{r.Operation}, charges, true)
	return d.Granted(), err
}

// foresee decides without debiting. It returns the state of the limits involved
// also where the request can never fit.
func (s *Service) foresee(ctx context.Context, c *Credential, r Request, charges []Charge) (Decision, error) {
	d, err := s.peek(ctx, c, []string{r.Operation}, charges, false)
	if err != nil || d.Reason != CostExceedsLimit {
		return d, err
	}
	usage, err := s.Usage(ctx, r.Credential)
	if err != nil {
		return Decision{}, err
	}
	for _, charge := range charges {
		state := usage.Limits[c.Index(charge.Limit)]
		state.Cost = charge.Units
		d.Limits = append(d.Limits, state)
	}
	return d, nil
}

// explain returns what a decision about count calls says by itself.
func explain(d Decision, count Units) Explanation {
	e := Explanation{Decision: d, WouldDeny: d.WouldDeny(false)}
	if len(d.Limits) == 0 { // granted alone during an outage, or free
		e.Fits = count
		return e
	}
	e.Fits, e.ReserveAllows = MaxUnits, true
	for _, s := range d.Limits {
		if s.DryRun {
			continue
		}
		each := s.Cost / count
		e.Fits = min(e.Fits, s.Remaining()/each)
		e.ReserveAllows = e.ReserveAllows && s.Closed.IsZero() && s.Used+s.Cost <= s.Budget(true)
		missing := max(0, s.Used+s.Cost-s.Budget(false))
		if missing > 0 || !s.Closed.IsZero() {
			e.Obstacles = append(e.Obstacles, Obstacle{LimitState: s, Missing: missing})
		}
	}
	return e
}

// findHolders reads the log once, as far back as the obstacles' windows reach.
func (s *Service) findHolders(ctx context.Context, c *Credential, obstacles []Obstacle) error {
	usage, err := s.Usage(ctx, c.Name)
	if err != nil {
		return err
	}
	jobs, regions, operations := newBreakdown(c, ByJob), newBreakdown(c, ByRegion), newBreakdown(c, ByOperation)
	breakdowns, since := []*Breakdown{jobs, regions, operations}, usage.Now
	for _, b := range breakdowns {
		b.limitTo(usage.Now)
	}
	for _, o := range obstacles {
		since = Earlier(since, jobs.after[c.Index(o.Name)])
	}
	err = s.Walk(ctx, c.Name, since, func(e Entry) bool {
		for _, b := range breakdowns {
			b.add(e)
		}
		return true
	})
	for i := range obstacles {
		o := &obstacles[i]
		o.Jobs, o.Regions, o.Operations = jobs.in(o.Name), regions.in(o.Name), operations.in(o.Name)
	}
	return err
}
