package clientlimit

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"quotad/quota"
)

// A Service decides what the subjects of the configured clients may do. Any number of goroutines may use it at the same
// time.
type Service struct {
	emit   func(event any)
	groups atomic.Pointer[[]*Group] // replaced, never changed
	shared atomic.Pointer[string]   // the secret of all who use the store, as it was last read there
}

// A Group is those clients that have one name.
type Group struct {
	Clients        // with the shortest window first
	store   Store  // which counts
	secret  string // empty: the shared one
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
	s.groups.Store(new([]*Group))
	return s
}

// SetClients replaces the configured clients. An empty secret is the one that the users of the store share. The caller
// closes the store, and needs none without clients. After an error nothing has changed.
func (s *Service) SetClients(store Store, secret string, all []*Clients) error {
	next := make([]*Group, 0, len(all))
	for _, c := range all {
		if wrong := c.Validate(); wrong != nil {
			return fmt.Errorf("clients %q: %w", c.Name, wrong[0])
		}
		if slices.ContainsFunc(next, func(g *Group) bool { return g.Name == c.Name }) {
			return fmt.Errorf("clients %q are defined twice", c.Name)
		}
		g := &Group{Clients: *c, store: store, secret: secret}
		g.Limits = slices.SortedFunc(slices.Values(c.Limits), func(a, b quota.Limit) int {
			return cmp.Compare(a.Window.Length, b.Window.Length)
		})
		next = append(next, g)
	}
	s.groups.Store(&next)
	return nil
}

// Groups returns the configured clients, in the order of configuration.
func (s *Service) Groups() []*Group { return *s.groups.Load() }

// Group returns the configured clients of a name. If there are none it returns nil, and the refusal with the name that
// was probably meant.
func (s *Service) Group(name string) (*Group, quota.Decision) {
	all := s.Groups()
	names := make([]string, len(all))
	for i, g := range all {
		if names[i] = g.Name; g.Name == name {
			return g, quota.Decision{}
		}
	}
	return nil, quota.Decision{Reason: quota.UnknownClients, Detail: fmt.Sprintf("clients %.80q are not configured", name),
		Hint: quota.DidYouMean(name, names, "configured clients")}
}

// Watch reads the shared secret every ten seconds until ctx ends, and puts it back if it is lost: another one may have
// taken its place, under which every subject begins at 0.
func (s *Service) Watch(ctx context.Context) {
	for quota.Sleep(ctx, 10*time.Second) {
		all, known := s.Groups(), s.shared.Load()
		if known != nil && len(all) > 0 && all[0].secret == "" {
			s.share(ctx, all[0].store, *known) // if that fails, the one that is known stays in use
		}
	}
}

// share returns the shared secret as it is in the store: ours, if it has none.
func (s *Service) share(ctx context.Context, store Store, ours string) (string, error) {
	found, err := store.Secret(ctx, ours)
	if err == nil {
		s.shared.Store(&found)
	}
	return found, err
}

// call returns how a store is asked for units of a subject.
func (s *Service) call(ctx context.Context, g *Group, subject string, units quota.Units) (c Call, err error) {
	secret, shared := g.secret, s.shared.Load()
	switch {
	case secret != "":
	case shared != nil:
		secret = *shared
	default:
		secret, err = s.share(ctx, g.store, rand.Text()+rand.Text())
	}
	return Call{Clients: &g.Clients, Key: g.keyOf(secret, subject), Units: units}, err
}

// Acquire decides a request. A refusal is a decision. An error says why there is none, unless OpenOnOutage grants then.
func (s *Service) Acquire(ctx context.Context, name string, r Request) (d quota.Decision, err error) {
	begun := time.Now()
	g, d := s.Group(name)
	if g != nil {
		var units quota.Units
		if units, d = g.price(r); d.Granted() {
			d, err = s.decide(ctx, g, r.Subject, units)
		}
	}
	if s.emit != nil && !errors.Is(err, context.Canceled) { // else the caller went away
		s.emit(Decided{name, r.Operation, g != nil, d, err, time.Since(begun)})
	}
	return d, err
}

func (s *Service) decide(ctx context.Context, g *Group, subject string, units quota.Units) (d quota.Decision, err error) {
	var n Count
	c, err := s.call(ctx, g, subject, units)
	if err == nil {
		n, err = g.store.Count(ctx, c)
	}
	switch {
	case err == nil:
		return g.decision(n, units), nil
	case g.OpenOnOutage && (errors.Is(err, quota.ErrUnavailable) || errors.Is(err, quota.ErrOutcomeUnknown)):
		return quota.Decision{Outage: true, Units: units}, nil
	}
	return d, err
}

// Usage returns the state of a subject's limits, and its key. A refusal is a quota.RefusedError, as of Reset.
func (s *Service) Usage(ctx context.Context, name, subject string) (u quota.Usage, k Key, err error) {
	g, c, err := s.about(ctx, name, subject)
	if err != nil {
		return u, k, err
	}
	n, err := g.store.Count(ctx, c)
	return quota.Usage{Now: timeOf(n.NowMs), Limits: g.states(n, 0)}, c.Key, err
}

// Reset deletes what a subject has used.
func (s *Service) Reset(ctx context.Context, name, subject string) error {
	g, c, err := s.about(ctx, name, subject)
	if err != nil {
		return err
	}
	return g.store.Forget(ctx, c)
}

// about returns the call that only looks at a subject.
func (s *Service) about(ctx context.Context, name, subject string) (g *Group, c Call, err error) {
	g, refused := s.Group(name)
	if g != nil {
		_, refused = g.price(Request{Subject: subject, Count: 1})
	}
	if !refused.Granted() {
		return g, c, &quota.RefusedError{Decision: refused}
	}
	c, err = s.call(ctx, g, subject, 0)
	return g, c, err
}
