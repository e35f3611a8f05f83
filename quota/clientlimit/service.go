package clientlimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"quotad/quota"
)

// A Service decides what the subjects of the configured clients may do. Any number of
// goroutines may use it at the same time.
type Service struct {
	Config
	snapshot atomic.Pointer[snapshot]
}

// A Config is what a service needs.
type Config struct {
	Deadline time.Duration // of each call of the ledger
	Host     Host
	// Emit is called with a Decided of every request whose caller waits for it, and a Call of every
	// deciding call of the ledger. It delays the request, and should be quick. Nil: events are dropped.
	Emit func(event any)
}

// A Call is a deciding call of the ledger.
type Call struct {
	Took time.Duration
	Asks int
}

// A snapshot is one configuration; it is replaced, never changed.
type snapshot struct {
	*sharing // nil while there are no clients
	groups   []*Group
	byName   map[string]*Group
}

// A Group is those clients that have one name.
type Group struct {
	*Clients
	batcher quota.Batcher[[]priced, struct{}]
	keyed   keyed // of the batcher's calls
	*counts
}

// Counts are what became of the requests of clients since the daemon started. They survive a change
// of the configuration.
type counts struct{ granted, denied, outageGrants, undecided atomic.Int64 }

// Stats are the outcomes of requests since the daemon started.
type Stats struct {
	Granted      int64 // with those of OutageGrants
	Denied       int64
	OutageGrants int64 // without the ledger
	Undecided    int64
}

// Stats returns the outcomes of requests.
func (t *counts) Stats() Stats {
	return Stats{t.granted.Load(), t.denied.Load(), t.outageGrants.Load(), t.undecided.Load()}
}

// count counts a decision.
func (t *counts) count(d quota.Decision) {
	switch {
	case errors.Is(d.Err, context.Canceled):
	case d.Err != nil:
		t.undecided.Add(1)
	case !d.Granted():
		t.denied.Add(1)
	default:
		t.granted.Add(1)
		if d.Outage {
			t.outageGrants.Add(1)
		}
	}
}

// batchGroups is how many requests, each of one or several asks, share a call of the ledger.
const batchGroups = 32

// A Request is a call that a subject wants to make, or Count of them.
type Request struct {
	Subject   string // any bytes, at least one
	Operation string // empty: a call costs 1
	Count     quota.Units
}

// A priced request has its cost, and a place for its decision.
type priced struct {
	subject  subject
	units    quota.Units
	decision *quota.Decision
}

// A Decided is the outcome of a request. It does not name the subject, which belongs in no log and
// no metric.
type Decided struct {
	Clients   string         // as the caller sent it
	Operation string         // as the caller sent it
	Known     bool           // clients of that name are configured
	Decision  quota.Decision // or, as its Err, why there is none
	Took      time.Duration  // to decide, waiting for others included
}

// NewService returns a service of no clients.
func NewService(c Config) *Service {
	if c.Emit == nil {
		c.Emit = func(any) {}
	}
	s := &Service{Config: c}
	s.snapshot.Store(&snapshot{})
	return s
}

// SetClients replaces the configured clients. The caller closes the store, and needs none without
// clients. After an error nothing has changed.
func (s *Service) SetClients(store Store, all []*Clients) error {
	was, next := s.snapshot.Load(), &snapshot{byName: make(map[string]*Group, len(all))}
	if next.sharing = was.sharing; next.sharing == nil || next.ledger.Store != store {
		next.sharing = &sharing{ledger: Decider{store, NewCache(time.Now)}, host: s.Host, emit: s.Emit, lock: make(chan struct{}, 1)}
		next.last.Store(&seen{})
	}
	mine := &configured{all: all, terms: make(map[string][]string, len(all))}
	for _, c := range all {
		if wrong := c.Validate(); wrong != nil {
			return fmt.Errorf("clients %q: %w", c.Name, wrong[0])
		}
		if next.byName[c.Name] != nil {
			return fmt.Errorf("clients %q are defined twice", c.Name)
		}
		g := &Group{Clients: c, counts: &counts{}}
		if before := was.byName[c.Name]; before != nil {
			g.counts = before.counts
		}
		g.batcher.Deadline, g.batcher.Max = s.Deadline, batchGroups
		g.batcher.Do = func(ctx context.Context, requests [][]priced) ([]struct{}, error) {
			s.decide(ctx, next, g, slices.Concat(requests...), 0)
			return make([]struct{}, len(requests)), nil
		}
		next.groups, next.byName[c.Name] = append(next.groups, g), g
		mine.terms[c.Name] = c.terms()
	}
	next.mine.Store(mine)
	s.snapshot.Store(next)
	return nil
}

// Groups returns the configured clients, in the order of configuration.
func (s *Service) Groups() []*Group { return s.snapshot.Load().groups }

// Group returns the configured clients of a name. If there are none it returns nil, and the refusal
// with the name that was probably meant.
func (s *Service) Group(name string) (*Group, quota.Decision) {
	now := s.snapshot.Load()
	if g := now.byName[name]; g != nil {
		return g, quota.Decision{}
	}
	names := make([]string, len(now.groups))
	for i, g := range now.groups {
		names[i] = g.Name
	}
	return nil, quota.Decision{
		Reason: quota.UnknownClients, Detail: fmt.Sprintf("clients %.80q are not configured", name), Hint: quota.DidYouMean(name, names, "configured clients"),
	}
}

// Acquire decides requests of one or several subjects, in their order, and returns one
// decision for each. A refusal is a decision. If a request could not be decided, and the
// clients are not OpenOnOutage, its decision's Err says why: an error of Decider.Decide, or the
// context's own while the requests still wait for a batch.
func (s *Service) Acquire(ctx context.Context, name string, requests ...Request) []quota.Decision {
	begun := time.Now()
	g, unknown := s.Group(name)
	decisions, asks := make([]quota.Decision, len(requests)), make([]priced, 0, len(requests))
	for i, r := range requests {
		if decisions[i] = unknown; g == nil {
			continue
		}
		units, refused := g.price(r)
		if decisions[i] = refused; refused.Granted() {
			asks = append(asks, priced{subjectOf(r.Subject), units, &decisions[i]})
		}
	}
	if len(asks) > 0 {
		_, err := g.batcher.Ask(ctx, asks)
		for _, ask := range asks {
			if err != nil {
				*ask.decision = quota.Decision{Err: err}
			}
			g.settle(ask)
		}
	}
	took := time.Since(begun)
	for i, d := range decisions {
		if errors.Is(d.Err, context.Canceled) {
			continue // the caller went away, and nothing happened
		}
		s.Emit(Decided{Clients: name, Operation: requests[i].Operation, Known: g != nil, Decision: d, Took: took})
	}
	return decisions
}

// settle counts the decision about an ask. If there is none and the clients are open, it grants.
func (g *Group) settle(ask priced) {
	err := ask.decision.Err
	away := (errors.Is(err, quota.ErrUnavailable) || errors.Is(err, quota.ErrOutcomeUnknown)) && !errors.Is(err, quota.ErrContended)
	if away && g.OpenOnOutage {
		*ask.decision = quota.Decision{Outage: true, Units: ask.units}
	}
	g.count(*ask.decision)
}

// decide has the ledger decide asks, at that time of its clock or later. Those whose period turns out
// to be over are decided again in the next one.
func (s *Service) decide(ctx context.Context, now *snapshot, g *Group, all []priced, clockMs int64) {
	last, err := now.current(ctx, clockMs)
	if err != nil {
		for _, ask := range all {
			*ask.decision = quota.Decision{Err: err}
		}
		return
	}
	begun := time.Now()
	decisions := now.ledger.Decide(ctx, g.Clients, g.asks(g.keyed.by(last.Salts[g.group()]), all))
	s.Emit(Call{Took: time.Since(begun), Asks: len(all)})
	var moved []priced
	for i, d := range decisions {
		if *all[i].decision = d; movedTo(d.Err) > clockMs {
			moved = append(moved, all[i])
		}
	}
	if len(moved) > 0 {
		s.decide(ctx, now, g, moved, movedTo(moved[0].decision.Err))
	}
}

// Usage returns the state of a subject's limits, and under which key it is kept. A refusal
// is a decision.
func (s *Service) Usage(ctx context.Context, name, subject string) (u quota.Usage, k Key, refused quota.Decision, err error) {
	refused, err = s.about(ctx, name, subject, func(ctx context.Context, ledger Decider, c *Clients, of Ask) error {
		k = of.Subject
		u, err = ledger.Usage(ctx, c, of)
		return err
	})
	return u, k, refused, err
}

// Reset deletes what a subject has used. A refusal is a decision.
func (s *Service) Reset(ctx context.Context, name, subject string) (refused quota.Decision, err error) {
	return s.about(ctx, name, subject, func(ctx context.Context, ledger Decider, c *Clients, of Ask) error {
		return ledger.Reset(ctx, c, of)
	})
}

// about asks the ledger something about one subject.
func (s *Service) about(ctx context.Context, name, subject string, do func(context.Context, Decider, *Clients, Ask) error) (quota.Decision, error) {
	g, refused := s.Group(name)
	if g != nil {
		_, refused = g.price(Request{Subject: subject, Count: 1})
	}
	if !refused.Granted() {
		return refused, nil
	}
	now := s.snapshot.Load()
	ctx, cancel := context.WithTimeout(ctx, s.Deadline)
	defer cancel()
	for clockMs := int64(0); ; {
		last, err := now.current(ctx, clockMs)
		if err != nil {
			return quota.Decision{}, err
		}
		err = do(ctx, now.ledger, g.Clients, g.Ask(last.Salts[g.group()], subject, 0))
		if movedTo(err) <= clockMs {
			return quota.Decision{}, err
		}
		clockMs = movedTo(err)
	}
}
