package quota

import (
	"context"
	"time"
)

// An Explanation tells what would become of a request now, and what would change
// that. Its Decision moved nothing: even one that grants has no grant id.
type Explanation struct {
	Decision
	// Fits is how many calls would be granted now, from 0; more than were asked
	// for where there is room, and the ledger tells.
	Fits Units
	// WouldDeny is what the limits that are not enforced would have refused.
	WouldDeny []Shortage
	// ReserveAllows tells whether a caller who may use the reserve would be
	// granted all of it now.
	ReserveAllows bool
	Obstacles     []Obstacle // the limits that stand in the way; none of a grant
}

// An Obstacle is a limit that a request does not fit now.
type Obstacle struct {
	LimitState
	// Missing is by how much: the units by which the limit would have to be
	// raised, its reserve lowered, or what it holds given back. 0 where the limit
	// only counts as spent because it is CatchingUp, or is Closed.
	Missing Units
	// Who holds what is in the window, the greatest first. Empty where the request
	// could never fit.
	Jobs, Regions, Operations []Holder
	GivenBack                 Units // by adjustments, of what was spent in the window
}

// Why explains what would become of a request of an ordinary caller. Errors are
// those of Acquire, and of reading the log, which takes as long as ctx lives.
func (s *Service) Why(ctx context.Context, r Request) (Explanation, error) {
	b, charges, refused := s.price(r)
	if b == nil {
		return Explanation{Decision: refused}, nil
	}
	d, err := s.foresee(ctx, b.credential, r, charges)
	if err != nil || d.Reason != "" && !d.Denied() && d.Reason != CostExceedsLimit {
		return Explanation{Decision: d}, err
	}
	e := explain(d, r.Count)
	if d.Reason == LimitExceeded {
		err = s.findHolders(ctx, b.credential, e.Obstacles)
	}
	return e, err
}

// foresee decides without debiting, and returns the state of the limits involved
// also where the request can never fit.
func (s *Service) foresee(ctx context.Context, c *Credential, r Request, charges []Charge) (Decision, error) {
	d, err := s.peek(ctx, c, []string{r.Operation}, charges, false)
	if err != nil || d.Reason != CostExceedsLimit {
		return d, err
	}
	usage, _, err := s.Usage(ctx, r.Credential)
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

// explain is what a decision about count calls tells by itself.
func explain(d Decision, count Units) Explanation {
	e := Explanation{Decision: d, WouldDeny: d.WouldDeny(false)}
	if len(d.Limits) == 0 { // granted alone, during an outage
		e.Fits = count
		return e
	}
	e.Fits, e.ReserveAllows = MaxUnits, true
	for _, s := range d.Limits {
		if !s.Refuses() {
			continue
		}
		each := s.Cost / count
		e.Fits = min(e.Fits, s.Remaining()/each)
		e.ReserveAllows = e.ReserveAllows && s.CatchingUp.IsZero() && s.Closed.IsZero() && s.Used+s.Cost <= s.Budget(true)
		missing := max(0, s.Used+s.Cost-s.Budget(false))
		if missing > 0 || !s.CatchingUp.IsZero() || !s.Closed.IsZero() {
			e.Obstacles = append(e.Obstacles, Obstacle{LimitState: s, Missing: missing})
		}
	}
	return e
}

// A hold is what an obstacle's window holds, as it is being summed.
type hold struct {
	*Obstacle
	credential *Credential
	after      time.Time
	by         [3]*Breakdown
}

// findHolders reads the log once, as far back as the obstacles' windows reach.
func (s *Service) findHolders(ctx context.Context, c *Credential, obstacles []Obstacle) error {
	usage, _, err := s.Usage(ctx, c.Name)
	if err != nil {
		return err
	}
	since := usage.Now
	holds := make([]hold, len(obstacles))
	for i := range obstacles {
		after, _ := obstacles[i].Window.Bounds(usage.Now)
		holds[i] = hold{&obstacles[i], c, after, [...]*Breakdown{NewBreakdown(c, ByJob), NewBreakdown(c, ByRegion), NewBreakdown(c, ByOperation)}}
		if after.Before(since) {
			since = after
		}
	}
	err = s.Walk(ctx, c.Name, since, func(e Entry) bool {
		for _, h := range holds {
			h.add(e)
		}
		return true
	})
	for _, h := range holds {
		h.tell()
	}
	return err
}

func (h hold) add(e Entry) {
	if e.ID.Time().After(h.after) {
		h.GivenBack = add(h.GivenBack, e.givenBackIn(h.credential, h.credential.Index(h.Name)))
		for _, b := range h.by {
			b.Add(e)
		}
	}
}

// tell hands over what was summed.
func (h hold) tell() {
	h.Jobs, h.Regions, h.Operations = h.by[0].In(h.Name), h.by[1].In(h.Name), h.by[2].In(h.Name)
}
