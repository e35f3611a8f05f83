package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"
)

// A Service decides requests: it knows the configured credentials, turns requests into charges and has the ledger
// decide them. Any number of goroutines may use it at the same time.
//
// Acquire spends before a call, and Settle corrects the grant after it. Peek and Why decide without debiting: Peek
// for a job about to be launched, DryRun for a person. Book, ChangeLimit and Reset are an operator's corrections.
// Usage is the state of the limits now; Grant, Log and Walk read the log.
type Service struct {
	// Called, if set, is called with how long the ledger took to decide a request. Set it before the service is used.
	Called func(took time.Duration)

	ledger      Ledger
	deadline    time.Duration
	credentials atomic.Pointer[[]*Credential] // it is replaced, never changed
}

// NewService returns a service of the credentials' ledger, which stays the
// caller's to close. Each ledger call gets at most deadline.
func NewService(ledger Ledger, credentials []*Credential, deadline time.Duration) (*Service, error) {
	s := &Service{ledger: ledger, deadline: deadline}
	if err := s.SetCredentials(credentials); err != nil {
		return nil, err
	}
	return s, nil
}

// SetCredentials replaces what is configured. Changed limits apply from the next decision on to what the log already
// holds. After an error nothing has changed.
func (s *Service) SetCredentials(credentials []*Credential) error {
	next := slices.Clone(credentials)
	for i, c := range next {
		if wrong := c.Validate(); wrong != nil {
			return fmt.Errorf("credential %q: %w", c.Name, wrong[0])
		}
		if slices.ContainsFunc(next[:i], func(other *Credential) bool { return other.Name == c.Name }) {
			return fmt.Errorf("credential %q is defined twice", c.Name)
		}
	}
	s.credentials.Store(&next)
	return nil
}

// Credentials returns what is configured, in the order of configuration. The result must not be changed.
func (s *Service) Credentials() []*Credential { return *s.credentials.Load() }

// Names returns the names of the configured credentials, in the order of configuration.
func (s *Service) Names() []string {
	credentials := s.Credentials()
	names := make([]string, len(credentials))
	for i, c := range credentials {
		names[i] = c.Name
	}
	return names
}

// Credential returns the configured credential of that name.
func (s *Service) Credential(name string) (*Credential, bool) {
	for _, c := range s.Credentials() {
		if c.Name == name {
			return c, true
		}
	}
	return nil, false
}

// Lookup returns the credential of that name, if that operation is listed for it;
// otherwise none, and the refusal that says what was probably meant.
func (s *Service) Lookup(credential, operation string) (*Credential, Decision) {
	c, ok := s.Credential(credential)
	if !ok {
		return nil, s.unknownCredential(credential)
	}
	if _, known := c.Operations[operation]; !known {
		detail := fmt.Sprintf("operation %q is not listed for credential %q", operation, credential)
		if near := Nearest(operation, slices.Sorted(maps.Keys(c.Operations))); near != "" {
			detail += fmt.Sprintf(", but %q is", near)
		}
		return nil, refuse(UnknownOperation, detail)
	}
	return c, Decision{}
}

func (s *Service) unknownCredential(name string) Decision {
	d := refuse(UnknownCredential, fmt.Sprintf("credential %.80q is not configured", name))
	d.Hint = DidYouMean(name, s.Names(), "configured credentials")
	return d
}

// configured returns the credential of that name, or the refusal as an error.
func (s *Service) configured(name string) (*Credential, error) {
	c, ok := s.Credential(name)
	if !ok {
		return nil, &RefusedError{s.unknownCredential(name)}
	}
	return c, nil
}

// Cost returns what calls cost, as Credential.Cost does; 0 where the credential is not configured.
func (s *Service) Cost(credential string, calls Calls) Units {
	c, ok := s.Credential(credential)
	if !ok {
		return 0
	}
	return c.Cost(calls)
}

// Acquire decides a request. Calls that cost nothing are granted without the ledger, whatever state
// their limits are in, and leave no entry in the log: there is nothing to settle, so the grant has
// no id. A refusal is a decision, not an error; the errors are those of Ledger.
func (s *Service) Acquire(ctx context.Context, r Request) (Decision, error) {
	c, charges, refused := s.price(r)
	if c == nil {
		return refused, nil
	}
	if len(charges) == 0 { // the operation costs nothing
		return Decision{}, nil
	}
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}
	ctx, cancel := s.Within(ctx)
	defer cancel()
	begun := time.Now()
	d, err := s.ledger.Acquire(ctx, c, Ask{Request: r, Charges: charges})
	if s.Called != nil {
		s.Called(time.Since(begun))
	}
	return fitting(c, charges, r.UseReserve, d, err)
}

// price returns the credential of a request and what it costs there, or no credential and why
// the request is refused without asking the ledger.
func (s *Service) price(r Request) (*Credential, []Charge, Decision) {
	if err := r.Validate(); err != nil {
		return nil, nil, refuse(BadRequest, err.Error())
	}
	c, refused := s.Lookup(r.Credential, r.Operation)
	if c == nil {
		return nil, nil, refused
	}
	charges, err := c.Charges(r.Operation, r.Count, r.Caller.CountedAs())
	if err != nil {
		return nil, nil, refuse(BadRequest, err.Error())
	}
	return c, charges, Decision{}
}

// fitting returns the ledger's answer about charges with its Detail, or the refusal of what can never fit its limit. A
// request that was granted before its limit was lowered keeps its grant.
func fitting(c *Credential, charges []Charge, useReserve bool, d Decision, err error) (Decision, error) {
	d = d.Detailed(useReserve)
	if !d.Denied() && !errors.Is(err, ErrUnavailable) {
		return d, err
	}
	for _, charge := range charges {
		limit, _ := c.Limit(charge.Limit)
		if budget := limit.Budget(useReserve); !limit.DryRun && charge.Units > budget {
			d = NeverFits(charge.Units, limit.Name, budget)
			d.Units = Max(charges)
			return d, nil
		}
	}
	return d, err
}

// Peek decides about a job's calls, after those that others are about to make, of a caller who may, or may not, use
// the reserve: only the limits that count its own calls matter. It debits nothing.
func (s *Service) Peek(ctx context.Context, credential string, own Calls, others []Calls, useReserve bool) (Decision, error) {
	c, ok := s.Credential(credential)
	if !ok {
		return s.unknownCredential(credential), nil
	}
	charges, err := c.Sum(own)
	for i := 0; i < len(others) && err == nil; i++ {
		err = c.addTo(charges, others[i])
	}
	if err != nil {
		return refuse(BadRequest, err.Error()), nil
	}
	charges = c.Paced(charges, own.Pace, useReserve)
	return s.peek(ctx, c, slices.Sorted(maps.Keys(own.Count)), charges, useReserve)
}

// DryRun returns the decision that a request would get now. It moves nothing: a grant has no id.
func (s *Service) DryRun(ctx context.Context, r Request) (Decision, error) {
	c, charges, refused := s.price(r)
	if c == nil {
		return refused, nil
	}
	return s.peek(ctx, c, []string{r.Operation}, charges, r.UseReserve)
}

func (s *Service) peek(ctx context.Context, c *Credential, operations []string, charges []Charge, useReserve bool) (Decision, error) {
	if len(charges) == 0 {
		return Decision{}, nil
	}
	ctx, cancel := s.Within(ctx)
	defer cancel()
	d, err := s.ledger.Peek(ctx, c, operations, charges, useReserve)
	return fitting(c, charges, useReserve, d, err)
}

// Within bounds what a caller waits for by the deadline of one decision, also if that takes several calls.
func (s *Service) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.deadline)
}

// Settle sets a grant, by its public id, to what was really spent.
func (s *Service) Settle(ctx context.Context, grantID string, to Settlement) (Decision, error) {
	name, id, err := ParseGrantID(grantID)
	if err != nil {
		return refuse(UnknownGrant, err.Error()), nil
	}
	to.Grant = id
	if to.Units < 0 || to.Units > MaxUnits {
		return refuse(BadRequest, fmt.Sprintf("units must be a whole number from 0 to %d", MaxUnits)), nil
	}
	if _, ok := s.Credential(name); !ok {
		return refuse(UnknownGrant, fmt.Sprintf("credential %q of this grant is not configured", name)), nil
	}
	return s.correct(ctx, name, func(ctx context.Context, c *Credential) (Decision, error) {
		return s.ledger.Settle(ctx, c, to)
	})
}

// Book counts units that were spent elsewhere against a limit of a credential.
func (s *Service) Book(ctx context.Context, credential string, b Booking) (Decision, error) {
	return s.correct(ctx, credential, func(ctx context.Context, c *Credential) (Decision, error) {
		switch {
		case c.Index(b.Limit) < 0:
			return c.unknownLimit(b.Limit), nil
		case b.Units < 1 || b.Units > MaxUnits:
			return refuse(BadRequest, fmt.Sprintf("units must be a whole number from 1 to %d: to free what a grant or a booking counts, settle it", MaxUnits)), nil
		case len(b.Note) > maxNote:
			return refuse(BadRequest, fmt.Sprintf("the note has %d bytes, at most %d are allowed", len(b.Note), maxNote)), nil
		}
		return s.ledger.Book(ctx, c, b)
	})
}

// ChangeLimit closes a limit of a credential until a time, or opens it, and reports whether that changed anything.
func (s *Service) ChangeLimit(ctx context.Context, credential string, k Change) (d Decision, changed bool, err error) {
	d, err = s.correct(ctx, credential, func(ctx context.Context, c *Credential) (Decision, error) {
		if c.Index(k.Limit) < 0 {
			return c.unknownLimit(k.Limit), nil
		}
		usage, err := s.ledger.Usage(ctx, c)
		if err != nil {
			return Decision{}, err
		}
		if err := k.Validate(usage.Now); err != nil {
			return refuse(BadRequest, err.Error()), nil
		}
		if !k.Until.IsZero() {
			k.Until = time.UnixMilli(k.Until.UnixMilli()).UTC()
		}
		changed, err = s.ledger.ChangeLimit(ctx, c, k)
		return Decision{}, err
	})
	return d, changed, err
}

// correct makes a correction within the deadline.
func (s *Service) correct(ctx context.Context, credential string, do func(context.Context, *Credential) (Decision, error)) (Decision, error) {
	c, ok := s.Credential(credential)
	if !ok {
		return s.unknownCredential(credential), nil
	}
	ctx, cancel := s.Within(ctx)
	defer cancel()
	return do(ctx, c)
}

// Reset has every limit of a credential start from zero, and open.
func (s *Service) Reset(ctx context.Context, credential string, by Caller, note string) (Decision, error) {
	return s.correct(ctx, credential, func(ctx context.Context, c *Credential) (Decision, error) {
		return Decision{}, s.ledger.Reset(ctx, c, by, note)
	})
}

// Usage returns the state of a credential's limits. If the credential is not configured, the error
// of this and of the other readers is a RefusedError.
func (s *Service) Usage(ctx context.Context, credential string) (Usage, error) {
	c, err := s.configured(credential)
	if err != nil {
		return Usage{}, err
	}
	ctx, cancel := s.Within(ctx)
	defer cancel()
	return s.ledger.Usage(ctx, c)
}

// Grant returns the entry of a grant, by its public id; ok is false where the log does not hold it any more.
func (s *Service) Grant(ctx context.Context, grantID string) (e Entry, ok bool, err error) {
	name, id, err := ParseGrantID(grantID)
	if err != nil {
		return Entry{}, false, nil
	}
	c, ok := s.Credential(name)
	if !ok {
		return Entry{}, false, nil
	}
	ctx, cancel := s.Within(ctx)
	defer cancel()
	e, ok, err = s.ledger.Entry(ctx, c, id)
	return e, ok && e.Kind() == KindGrant, err
}

// Log returns a page of a credential's log.
func (s *Service) Log(ctx context.Context, credential string, q LogQuery) (LogPage, error) {
	c, err := s.configured(credential)
	if err != nil {
		return LogPage{}, err
	}
	if q.Max < 1 || q.Max > MaxLogPage {
		q.Max = MaxLogPage
	}
	ctx, cancel := s.Within(ctx)
	defer cancel()
	return s.ledger.Log(ctx, c, q)
}

// walkPage is smaller than a page may be: decisions pass between two pages, and one page keeps
// a Redis busy for a millisecond.
const walkPage = MaxLogPage / 4

// Walk reads the log of a credential from its newest entry back to since, or until
// visit returns false. It reads as long as ctx lives.
func (s *Service) Walk(ctx context.Context, credential string, since time.Time, visit func(Entry) bool) error {
	q := LogQuery{Since: since, Newest: true, Max: walkPage}
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		page, err := s.Log(ctx, credential, q)
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			if !visit(e) {
				return nil
			}
		}
		if page.Next.IsZero() {
			return nil
		}
		q.After = page.Next
	}
}

// Health returns the state of the ledger.
func (s *Service) Health(ctx context.Context) Health {
	ctx, cancel := s.Within(ctx)
	defer cancel()
	return s.ledger.Health(ctx)
}
