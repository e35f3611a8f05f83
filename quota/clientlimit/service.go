package clientlimit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"quotad/quota"
)

// A Service decides what the subjects of the configured clients may do. Any number of
// goroutines may use it at the same time.
type Service struct {
	deadline time.Duration
	observe  func(Event)
	snapshot atomic.Pointer[snapshot]
}

// A snapshot is one configuration; it is replaced, never changed.
type snapshot struct {
	ledger Ledger
	secret atomic.Pointer[secret] // nil until the ledger has told it
	names  []string
	groups map[string]*group
}

// A secret is what the ledger told, and when it did, or was last asked in vain.
type secret struct {
	bytes []byte
	asked time.Time
}

// secretTime is how long the ledger is believed: it may have lost its secret, or somebody
// changed it.
const secretTime = time.Minute

// A group is those clients that have one name.
type group struct {
	clients *Clients
	batcher quota.Batcher[[]priced, []quota.Decision]
	*tally
}

// A tally is what became of a group's requests since the daemon began; it outlives changes
// of the configuration.
type tally struct {
	granted, denied, outage, undecided atomic.Int64
	top                                topSubjects
}

// batchGroups is how many requests, each of one or several asks, share a call of the ledger.
const batchGroups = 32

// A Request is a call that a subject wants to make, or Count of them.
type Request struct {
	Subject   string // any bytes, at least one
	Operation string // empty: a call costs 1
	Count     quota.Units
}

// A priced request is one that may be asked for.
type priced struct {
	subject string
	units   quota.Units
}

// An Event is what became of a request. Whose it was stays untold: subjects are no matter
// of logs and metrics.
type Event struct {
	Clients  string         // as the caller sent it
	Known    bool           // clients of that name are configured
	Decision quota.Decision // or, as its Err, why there is none
}

// Stats are what became of requests since the daemon began.
type Stats struct {
	Granted      int64 // with those of OutageGrants
	Denied       int64
	OutageGrants int64 // without the ledger
	Undecided    int64
}

// NewService returns a service of no clients. Each ledger call is given at most deadline.
// Observe is told of every request whose caller waits for it, by the goroutine that makes it: it should be quick.
func NewService(deadline time.Duration, observe func(Event)) *Service {
	s := &Service{deadline: deadline, observe: observe}
	s.snapshot.Store(&snapshot{})
	return s
}

// SetClients replaces what is configured. The ledger stays the caller's to close; without
// clients there need be none. After an error nothing has changed.
func (s *Service) SetClients(ledger Ledger, all []*Clients) error {
	was, next := s.snapshot.Load(), &snapshot{ledger: ledger, groups: make(map[string]*group, len(all))}
	for _, c := range all {
		if wrong := c.Validate(); wrong != nil {
			return fmt.Errorf("clients %q: %w", c.Name, wrong[0])
		}
		if next.groups[c.Name] != nil {
			return fmt.Errorf("clients %q are defined twice", c.Name)
		}
		g := &group{clients: c, tally: &tally{}}
		if before := was.groups[c.Name]; before != nil {
			g.tally = before.tally
		}
		g.batcher.Deadline, g.batcher.Most = s.deadline, batchGroups
		g.batcher.Do = func(ctx context.Context, requests [][]priced) ([][]quota.Decision, error) {
			return next.decide(ctx, g, requests)
		}
		next.names, next.groups[c.Name] = append(next.names, c.Name), g
	}
	s.snapshot.Store(next)
	return nil
}

// Names returns what the configured clients are called, in the order of configuration.
func (s *Service) Names() []string { return s.snapshot.Load().names }

// Clients returns the configured clients of that name, and what became of their requests;
// or nil, and the refusal that says what was probably meant.
func (s *Service) Clients(name string) (*Clients, Stats, quota.Decision) {
	now := s.snapshot.Load()
	g := now.groups[name]
	if g == nil {
		return nil, Stats{}, now.unknown(name)
	}
	return g.clients, Stats{
		Granted: g.granted.Load(), Denied: g.denied.Load(), OutageGrants: g.outage.Load(), Undecided: g.undecided.Load(),
	}, quota.Decision{}
}

// Top returns the subjects of clients that were denied most of late.
func (s *Service) Top(name string) []Denied {
	g := s.snapshot.Load().groups[name]
	if g == nil {
		return nil
	}
	return g.top.list(time.Now())
}

// Acquire decides requests of one or several subjects, in their order, and returns one
// decision for each. A refusal is a decision. Where a request could not be decided, and
// the clients are not OpenOnOutage, why is its decision's Err: an error of Ledger, or the
// context's own while the requests still wait for their turn.
func (s *Service) Acquire(ctx context.Context, name string, requests ...Request) []quota.Decision {
	now := s.snapshot.Load()
	g := now.groups[name]
	decisions, asks, of := make([]quota.Decision, len(requests)), make([]priced, 0, len(requests)), make([]int, 0, len(requests))
	for i, r := range requests {
		units, refused := now.price(g, name, r)
		if decisions[i] = refused; refused.Granted() {
			asks, of = append(asks, priced{r.Subject, units}), append(of, i)
		}
	}
	if len(asks) > 0 {
		decided, err := g.batcher.Ask(ctx, asks)
		for i, ask := range asks {
			d := quota.Decision{Err: err}
			if err == nil {
				d = decided[i]
			}
			decisions[of[i]] = g.settled(d, ask)
		}
	}
	for _, d := range decisions {
		if errors.Is(d.Err, context.Canceled) {
			continue // the caller went away: nothing happened, and nobody is there to be told
		}
		s.observe(Event{Clients: name, Known: g != nil, Decision: d})
	}
	return decisions
}

// price returns what a request costs, or why it is refused without asking the ledger.
func (s *snapshot) price(g *group, name string, r Request) (quota.Units, quota.Decision) {
	switch {
	case g == nil:
		return 0, s.unknown(name)
	case r.Subject == "":
		return 0, quota.Decision{Reason: quota.BadRequest, Detail: "subject is missing or empty: it says who calls, by an address, a user or a key"}
	default:
		return g.clients.Cost(r.Operation, r.Count)
	}
}

func (s *snapshot) unknown(name string) quota.Decision {
	d := quota.Decision{Reason: quota.UnknownClients, Detail: fmt.Sprintf("clients %.80q are not configured", name)}
	d.Hint = quota.DidYouMean(name, s.names, "configured clients")
	return d
}

// settled counts what was decided about an ask, and grants what could not be where the
// clients are open.
func (g *group) settled(d quota.Decision, ask priced) quota.Decision {
	away := (errors.Is(d.Err, quota.ErrUnavailable) || errors.Is(d.Err, quota.ErrOutcomeUnknown)) && !errors.Is(d.Err, quota.ErrContended)
	switch {
	case away && g.clients.OpenOnOutage:
		g.granted.Add(1)
		g.outage.Add(1)
		return quota.Decision{Outage: true, Units: ask.units}
	case errors.Is(d.Err, context.Canceled):
	case d.Err != nil:
		g.undecided.Add(1)
	case d.Granted():
		g.granted.Add(1)
	default:
		g.denied.Add(1)
	}
	return d
}

// decide has the ledger decide the asks of several requests.
func (s *snapshot) decide(ctx context.Context, g *group, requests [][]priced) ([][]quota.Decision, error) {
	secret, err := s.secretOf(ctx)
	if err != nil {
		return nil, err
	}
	var asks []Ask
	for _, request := range requests {
		for _, one := range request {
			asks = append(asks, Ask{Subject: KeyOf(secret, one.subject, g.clients.Plain), Units: one.units})
		}
	}
	decisions, err := s.ledger.DecideClients(ctx, g.clients, asks)
	if err != nil {
		return nil, err
	}
	for i, d := range decisions {
		if d.Denied() {
			g.top.note(asks[i].Subject, time.Now())
		}
	}
	split := make([][]quota.Decision, len(requests))
	for i, request := range requests {
		split[i], decisions = decisions[:len(request):len(request)], decisions[len(request):]
	}
	return split, nil
}

// secretOf returns the secret by which subjects are hashed. Where the ledger does not tell,
// the one that it told before goes on.
func (s *snapshot) secretOf(ctx context.Context) ([]byte, error) {
	known, now := s.secret.Load(), time.Now()
	if known != nil && now.Sub(known.asked) < secretTime {
		return known.bytes, nil
	}
	bytes, err := s.ledger.ClientSecret(ctx)
	switch {
	case err != nil && known == nil:
		return nil, err
	case err != nil:
		bytes = known.bytes
	}
	s.secret.Store(&secret{bytes, now})
	return bytes, nil
}

// Usage returns the state of a subject's limits, and under which key it is kept. A refusal
// is a decision.
func (s *Service) Usage(ctx context.Context, name, subject string) (u quota.Usage, k Key, refused quota.Decision, err error) {
	refused, err = s.about(ctx, name, subject, func(ctx context.Context, ledger Ledger, c *Clients, key Key) error {
		k = key
		u, err = ledger.ClientUsage(ctx, c, key)
		return err
	})
	return u, k, refused, err
}

// Reset has a subject begin anew. A refusal is a decision.
func (s *Service) Reset(ctx context.Context, name, subject string) (refused quota.Decision, err error) {
	return s.about(ctx, name, subject, func(ctx context.Context, ledger Ledger, c *Clients, key Key) error {
		return ledger.ResetClient(ctx, c, key)
	})
}

// about asks the ledger something about one subject.
func (s *Service) about(ctx context.Context, name, subject string, do func(context.Context, Ledger, *Clients, Key) error) (quota.Decision, error) {
	now := s.snapshot.Load()
	g := now.groups[name]
	if _, refused := now.price(g, name, Request{Subject: subject, Count: 1}); !refused.Granted() {
		return refused, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.deadline)
	defer cancel()
	secret, err := now.secretOf(ctx)
	if err != nil {
		return quota.Decision{}, err
	}
	return quota.Decision{}, do(ctx, now.ledger, g.clients, KeyOf(secret, subject, g.clients.Plain))
}
