package clientlimit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"quotad/quota"
)

// A Service decides what the subjects of the configured clients may do. Any number of goroutines may use it at the same
// time.
type Service struct {
	emit     func(event any)
	snapshot atomic.Pointer[snapshot]
}

// A snapshot is one configuration; it is replaced, never changed.
type snapshot struct {
	store  Store // nil while there are no clients
	fixed  bool  // the secret is the configuration's
	secret *atomic.Pointer[string]
	groups []*Group
	byName map[string]*Group
}

// A Group is those clients that have one name.
type Group struct {
	*Clients
	prefix string // of what is hashed to a key
	limits []Bound
	*counts
}

// Counts are what became of the calls of clients since the daemon started. They survive a change of the configuration.
type counts struct{ granted, denied, outageGrants, undecided atomic.Int64 }

// Stats are the outcomes of calls since the daemon started.
type Stats struct {
	Granted      int64 // with those of OutageGrants
	Denied       int64
	OutageGrants int64 // without the store
	Undecided    int64
}

// Stats returns the outcomes of calls.
func (t *counts) Stats() Stats {
	return Stats{t.granted.Load(), t.denied.Load(), t.outageGrants.Load(), t.undecided.Load()}
}

// count counts a decision.
func (t *counts) count(d quota.Decision, err error) {
	switch {
	case errors.Is(err, context.Canceled):
	case err != nil:
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

// A Request is a call that a subject wants to make, or Count of them.
type Request struct {
	Subject   string // any bytes, at least one
	Operation string // empty: a call costs 1
	Count     quota.Units
}

// A Decided is the outcome of a request. It does not name the subject, which belongs in no log and no metric.
type Decided struct {
	Clients   string // as the caller sent it
	Operation string // as the caller sent it
	Known     bool   // clients of that name are configured
	Decision  quota.Decision
	Err       error // why there is no decision
	Took      time.Duration
}

// NewService returns a service of no clients. Emit is called with a Decided of every request whose caller waits for it;
// it delays the request, and should be quick.
func NewService(emit func(event any)) *Service {
	s := &Service{emit: emit}
	s.snapshot.Store(&snapshot{})
	return s
}

// SetClients replaces the configured clients. An empty secret is the one that the users of the store share. The caller
// closes the store, and needs none without clients. After an error nothing has changed.
func (s *Service) SetClients(store Store, secret string, all []*Clients) error {
	was, next := s.snapshot.Load(), &snapshot{store: store, fixed: secret != "", byName: make(map[string]*Group, len(all))}
	if next.secret = was.secret; next.fixed || was.fixed || was.store != store {
		next.secret = new(atomic.Pointer[string])
	}
	if next.fixed {
		next.secret.Store(&secret)
	}
	for _, c := range all {
		if wrong := c.Validate(); wrong != nil {
			return fmt.Errorf("clients %q: %w", c.Name, wrong[0])
		}
		if next.byName[c.Name] != nil {
			return fmt.Errorf("clients %q are defined twice", c.Name)
		}
		g := &Group{Clients: c, prefix: c.records(), limits: c.bounds(), counts: &counts{}}
		if before := was.byName[c.Name]; before != nil {
			g.counts = before.counts
		}
		next.groups, next.byName[c.Name] = append(next.groups, g), g
	}
	s.snapshot.Store(next)
	return nil
}

// Groups returns the configured clients, in the order of configuration.
func (s *Service) Groups() []*Group { return s.snapshot.Load().groups }

// Group returns the configured clients of a name. If there are none it returns nil, and the refusal with the name that
// was probably meant.
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

// Watch reads the shared secret every ten seconds until ctx ends, and puts it back if it is lost: another one may have
// taken its place, under which every subject begins at 0.
func (s *Service) Watch(ctx context.Context) {
	for quota.Sleep(ctx, 10*time.Second) {
		if now := s.snapshot.Load(); now.secret != nil && now.secret.Load() != nil {
			now.share(ctx) // if that fails, the one that is known stays in use
		}
	}
}

// share returns the secret as it is in the store.
func (n *snapshot) share(ctx context.Context) (string, error) {
	known := n.secret.Load()
	if n.fixed {
		return *known, nil
	}
	drawn := rand.Text() + rand.Text()
	if known != nil {
		drawn = *known
	}
	found, err := n.store.Secret(ctx, drawn)
	if err == nil {
		n.secret.Store(&found)
	}
	return found, err
}

// call returns how a store is asked for units of a subject.
func (n *snapshot) call(ctx context.Context, g *Group, subject string, units quota.Units) (c Call, err error) {
	c = Call{Clients: g.Name, Algorithm: g.Algorithm, Limits: g.limits, Units: units}
	secret := n.secret.Load()
	if secret == nil {
		drawn, err := n.share(ctx)
		if err != nil {
			return c, err
		}
		secret = &drawn
	}
	c.Key = keyOf(*secret, g.prefix, subject)
	return c, nil
}

// Acquire decides a request. A refusal is a decision. An error says why there is none, unless OpenOnOutage grants then.
func (s *Service) Acquire(ctx context.Context, name string, r Request) (d quota.Decision, err error) {
	begun := time.Now()
	g, d := s.Group(name)
	if g != nil {
		var units quota.Units
		if units, d = g.price(r); d.Granted() {
			d, err = s.decide(ctx, g, r.Subject, units)
			g.count(d, err)
		}
	}
	if s.emit != nil && !errors.Is(err, context.Canceled) { // else the caller went away
		s.emit(Decided{name, r.Operation, g != nil, d, err, time.Since(begun)})
	}
	return d, err
}

func (s *Service) decide(ctx context.Context, g *Group, subject string, units quota.Units) (d quota.Decision, err error) {
	now := s.snapshot.Load()
	c, err := now.call(ctx, g, subject, units)
	var n Count
	if err == nil {
		n, err = now.store.Count(ctx, c)
	}
	switch {
	case err == nil:
		return g.decision(n, units), nil
	case g.OpenOnOutage && (errors.Is(err, quota.ErrUnavailable) || errors.Is(err, quota.ErrOutcomeUnknown)):
		return quota.Decision{Outage: true, Units: units}, nil
	}
	return d, err
}

// Usage returns the state of a subject's limits, and its key. A refusal is a decision.
func (s *Service) Usage(ctx context.Context, name, subject string) (u quota.Usage, k Key, refused quota.Decision, err error) {
	refused, err = s.about(name, subject, func(now *snapshot, g *Group) error {
		c, err := now.call(ctx, g, subject, 0)
		if err != nil {
			return err
		}
		n, err := now.store.Count(ctx, c)
		if err == nil {
			u, k = quota.Usage{Now: timeOf(n.NowMs), Limits: g.states(n)}, c.Key
		}
		return err
	})
	return u, k, refused, err
}

// Reset deletes what a subject has used. A refusal is a decision.
func (s *Service) Reset(ctx context.Context, name, subject string) (refused quota.Decision, err error) {
	return s.about(name, subject, func(now *snapshot, g *Group) error {
		c, err := now.call(ctx, g, subject, 0)
		if err != nil {
			return err
		}
		return now.store.Forget(ctx, c)
	})
}

// about asks something about one subject.
func (s *Service) about(name, subject string, ask func(*snapshot, *Group) error) (quota.Decision, error) {
	g, refused := s.Group(name)
	if g != nil {
		_, refused = g.price(Request{Subject: subject, Count: 1})
	}
	if !refused.Granted() {
		return refused, nil
	}
	return refused, ask(s.snapshot.Load(), g)
}
