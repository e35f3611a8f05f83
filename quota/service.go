package quota

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"
)

// A Service decides requests: it knows the configured credentials, turns
// requests into charges and has the ledger decide them. Any number of
// goroutines may use it at the same time.
type Service struct {
	ledger   Ledger
	deadline time.Duration
	snapshot atomic.Pointer[snapshot]
}

// A snapshot is one set of configured credentials; it is replaced, never changed.
type snapshot struct {
	credentials []*Credential
	accounts    map[string]*account
}

// NewService returns a service of the credentials' ledger, which stays the
// caller's to close. Each ledger call is given at most deadline.
func NewService(ledger Ledger, credentials []*Credential, deadline time.Duration) (*Service, error) {
	s := &Service{ledger: ledger, deadline: deadline}
	if err := s.SetCredentials(credentials); err != nil {
		return nil, err
	}
	return s, nil
}

// SetCredentials replaces what is configured. Changed limits apply from the
// next decision on to what the log already holds. After an error nothing has
// changed.
func (s *Service) SetCredentials(credentials []*Credential) error {
	next := &snapshot{accounts: make(map[string]*account, len(credentials))}
	for _, c := range credentials {
		if wrong := c.Validate(); wrong != nil {
			return fmt.Errorf("credential %q: %w", c.Name, wrong[0])
		}
		if next.accounts[c.Name] != nil {
			return fmt.Errorf("credential %q is defined twice", c.Name)
		}
		c = c.Prepared()
		next.credentials = append(next.credentials, c)
		next.accounts[c.Name] = newAccount(c, s.ledger, s.deadline)
	}
	s.snapshot.Store(next)
	return nil
}

// Credentials returns what is configured, in the order of configuration. The
// result must not be changed.
func (s *Service) Credentials() []*Credential { return s.snapshot.Load().credentials }

// Names returns what the configured credentials are called, in the order of
// configuration.
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
	a, ok := s.account(name)
	if !ok {
		return nil, false
	}
	return a.credential, true
}

// Acquire decides a request. A refusal is a decision, not an error; the errors
// are those of Ledger, and the context's own while the request still waits for
// its turn.
func (s *Service) Acquire(ctx context.Context, r Request) (Decision, error) {
	a, charges, refused := s.price(r)
	if a == nil {
		return refused, nil
	}
	ask := Ask{Request: r, Charges: charges}
	least := charges
	if r.AtMost {
		least = ask.Fewer(1).Charges
	}
	never, large := neverFits(a.credential, least, r.UseReserve)
	if large && !s.lends(ctx, a.credential, least, r.UseReserve) {
		return never, nil
	}
	d, err := a.acquire(ctx, ask)
	if large && err == nil && !d.fitsLent(r.UseReserve) {
		return never, nil
	}
	return d, err
}

// Cost is that of a configured credential; 0 of another one.
func (s *Service) Cost(credential string, calls Calls) Units {
	c, ok := s.Credential(credential)
	if !ok {
		return 0
	}
	return c.Cost(calls)
}

// price returns the account that a request goes to and what it costs there, or no
// account and why it is refused without asking the ledger.
func (s *Service) price(r Request) (*account, []Charge, Decision) {
	if err := r.Validate(); err != nil {
		return nil, nil, refuse(BadRequest, err.Error())
	}
	a, ok := s.account(r.Credential)
	if !ok {
		return nil, nil, s.unknownCredential(r.Credential)
	}
	if _, known := a.credential.Operations[r.Operation]; !known {
		return nil, nil, unknownOperation(a.credential, r.Operation)
	}
	charges, err := a.credential.Charges(r.Operation, r.Count, r.Caller.CountedAs())
	if err != nil {
		return nil, nil, refuse(BadRequest, err.Error())
	}
	return a, charges, Decision{}
}

// Lookup returns the credential of that name, if that operation is listed for it;
// otherwise none, and the refusal that says what was probably meant.
func (s *Service) Lookup(credential, operation string) (*Credential, Decision) {
	a, ok := s.account(credential)
	if !ok {
		return nil, s.unknownCredential(credential)
	}
	if _, known := a.credential.Operations[operation]; !known {
		return nil, unknownOperation(a.credential, operation)
	}
	return a.credential, Decision{}
}

// Peek tells what would become of a job's calls, behind those that others are about to
// make, if it may, or may not, use the reserve: only the limits that count its own calls
// matter. It debits nothing.
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
	if len(charges) == 0 {
		return Decision{}, nil
	}
	charges = c.Paced(charges, own.Pace, useReserve)
	return s.peek(ctx, c, slices.Sorted(maps.Keys(own.Count)), charges, useReserve)
}

// peek has the ledger say what it would decide about charges, unless they can never fit.
func (s *Service) peek(ctx context.Context, c *Credential, operations []string, charges []Charge, useReserve bool) (Decision, error) {
	never, large := neverFits(c, charges, useReserve)
	if large && !s.lends(ctx, c, charges, useReserve) {
		return never, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.deadline)
	defer cancel()
	d, err := s.ledger.Peek(ctx, c, operations, charges, useReserve)
	if large && err == nil && !d.fitsLent(useReserve) {
		return never, nil
	}
	return d, err
}

// Settle sets a grant, by its public id, to what was really spent.
func (s *Service) Settle(ctx context.Context, grantID string, units Units, caller Caller) (Decision, error) {
	name, id, err := ParseGrantID(grantID)
	if err != nil {
		return refuse(UnknownGrant, err.Error()), nil
	}
	if units < 0 || units > MaxUnits {
		return refuse(BadRequest, fmt.Sprintf("units must be a whole number from 0 to %d", MaxUnits)), nil
	}
	a, ok := s.account(name)
	if !ok {
		return refuse(UnknownGrant, fmt.Sprintf("credential %q of this grant is not configured", name)), nil
	}
	return a.correct(ctx, func(ctx context.Context) (Decision, error) {
		return s.ledger.Settle(ctx, a.credential, Settlement{Grant: id, Units: units, Caller: caller})
	})
}

// Grant returns the entry of a grant, by its public id; ok is false where the log does
// not hold it any more.
func (s *Service) Grant(ctx context.Context, grantID string) (e Entry, ok bool, err error) {
	name, id, err := ParseGrantID(grantID)
	if err != nil {
		return Entry{}, false, nil
	}
	behind := ID{Ms: id.Ms, Seq: id.Seq + 1}
	page, _, err := s.Log(ctx, name, LogQuery{After: behind, Newest: true, Most: 1})
	if err != nil || len(page.Entries) == 0 || page.Entries[0].ID != id || page.Entries[0].Kind != KindGrant {
		return Entry{}, false, err
	}
	return page.Entries[0], true, nil
}

// Grantee names who was given a grant, by its public id, as Caller.By does; empty
// where the log does not hold the grant any more.
func (s *Service) Grantee(ctx context.Context, grantID string) (by string, err error) {
	e, _, err := s.Grant(ctx, grantID)
	return e.By, err
}

// Adjust books units that were spent elsewhere against a limit of a credential
// or, below zero, gives back what was counted but not spent.
func (s *Service) Adjust(ctx context.Context, credential string, a Adjustment) (Decision, error) {
	account, ok := s.account(credential)
	if !ok {
		return s.unknownCredential(credential), nil
	}
	if _, known := account.credential.Limit(a.Limit); !known {
		return refuse(BadRequest, fmt.Sprintf("credential %q has no limit %q", credential, a.Limit)), nil
	}
	if a.Units == 0 || a.Units < -int64(MaxUnits) || a.Units > int64(MaxUnits) {
		return refuse(BadRequest, fmt.Sprintf("units must be a whole number from %d to %d, not 0", -MaxUnits, MaxUnits)), nil
	}
	return account.correct(ctx, func(ctx context.Context) (Decision, error) { return s.ledger.Adjust(ctx, account.credential, a) })
}

// CloseLimit closes a limit of a credential until a time, or opens it, and reports
// whether that changed anything.
func (s *Service) CloseLimit(ctx context.Context, credential string, k Closing) (d Decision, changed bool, err error) {
	a, ok := s.account(credential)
	if !ok {
		return s.unknownCredential(credential), false, nil
	}
	usage, _, err := s.Usage(ctx, credential)
	if err != nil {
		return Decision{}, false, err
	}
	if err := k.validate(a.credential, usage.Now); err != nil {
		return refuse(BadRequest, err.Error()), false, nil
	}
	if !k.Until.IsZero() {
		k.Until = time.UnixMilli(k.Until.UnixMilli()).UTC()
	}
	d, err = a.correct(ctx, func(ctx context.Context) (Decision, error) {
		var err error
		changed, err = s.ledger.CloseLimit(ctx, a.credential, k)
		return Decision{}, err
	})
	return d, changed, err
}

// Lend makes a limit of a credential higher until a time, or ends its loans, and reports
// whether that changed anything.
func (s *Service) Lend(ctx context.Context, credential string, l Loan) (d Decision, changed bool, err error) {
	a, ok := s.account(credential)
	if !ok {
		return s.unknownCredential(credential), false, nil
	}
	usage, _, err := s.Usage(ctx, credential)
	if err != nil {
		return Decision{}, false, err
	}
	if err := l.validate(a.credential, usage); err != nil {
		return refuse(BadRequest, err.Error()), false, nil
	}
	l.Until = time.UnixMilli(l.Until.UnixMilli()).UTC()
	d, err = a.correct(ctx, func(ctx context.Context) (Decision, error) {
		var err error
		changed, err = s.ledger.Lend(ctx, a.credential, l)
		return Decision{}, err
	})
	return d, changed, err
}

// Reset empties the log of a credential, so that every limit starts from zero.
func (s *Service) Reset(ctx context.Context, credential string, by Caller, note string) (Decision, error) {
	a, ok := s.account(credential)
	if !ok {
		return s.unknownCredential(credential), nil
	}
	return a.correct(ctx, func(ctx context.Context) (Decision, error) {
		return Decision{}, s.ledger.Reset(ctx, a.credential, by, note)
	})
}

// Log returns a page of a credential's log; ok is false when the credential is
// not configured.
func (s *Service) Log(ctx context.Context, credential string, q LogQuery) (page LogPage, ok bool, err error) {
	a, ok := s.account(credential)
	if !ok {
		return LogPage{}, false, nil
	}
	if q.Most < 1 || q.Most > MaxLogPage {
		q.Most = MaxLogPage
	}
	ctx, cancel := context.WithTimeout(ctx, s.deadline)
	defer cancel()
	page, err = s.ledger.Log(ctx, a.credential, q)
	return page, true, err
}

// Usage returns the state of a credential's limits; ok is false when the
// credential is not configured.
func (s *Service) Usage(ctx context.Context, credential string) (u Usage, ok bool, err error) {
	a, ok := s.account(credential)
	if !ok {
		return Usage{}, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.deadline)
	defer cancel()
	u, err = s.ledger.Usage(ctx, a.credential)
	return u, true, err
}

// Health tells how the ledger is.
func (s *Service) Health(ctx context.Context) Health {
	ctx, cancel := context.WithTimeout(ctx, s.deadline)
	defer cancel()
	return s.ledger.Health(ctx)
}

// Waiting returns how many requests of a credential wait for a call in flight to
// end; 0 of an unknown one.
func (s *Service) Waiting(credential string) int {
	a, ok := s.account(credential)
	if !ok {
		return 0
	}
	return a.asks.Waiting()
}

func (s *Service) account(credential string) (*account, bool) {
	a, ok := s.snapshot.Load().accounts[credential]
	return a, ok
}

func (s *Service) unknownCredential(name string) Decision {
	d := refuse(UnknownCredential, fmt.Sprintf("credential %.80q is not configured", name))
	d.Hint = DidYouMean(name, s.Names(), "configured credentials")
	return d
}

func unknownOperation(c *Credential, name string) Decision {
	detail := fmt.Sprintf("operation %q is not listed for credential %q", name, c.Name)
	if near := Nearest(name, slices.Sorted(maps.Keys(c.Operations))); near != "" {
		detail += fmt.Sprintf(", but %q is", near)
	}
	return refuse(UnknownOperation, detail)
}

// neverFits refuses what no amount of waiting would make possible, unless a loan does.
func neverFits(c *Credential, charges []Charge, useReserve bool) (Decision, bool) {
	for _, charge := range charges {
		limit, _ := c.Limit(charge.Limit)
		if limit.DryRun || limit.Lift > 0 {
			continue
		}
		if budget := limit.Budget(useReserve); charge.Units > budget {
			d := refuse(CostExceedsLimit, fmt.Sprintf("%s can never fit limit %q of %s", charge.Units.Text(), limit.Name, budget.Text()))
			d.Hint = "waiting does not help: ask for less at once"
			d.Limit, d.Units = limit.Name, Max(charges)
			return d, true
		}
	}
	return Decision{}, false
}

// Calls are calls of several operations that one job makes.
type Calls struct {
	Job   string           // "" outside any pass
	Count map[string]Units // by operation
	// Pace is how long they may wait for each other: of a limit with a window no longer than
	// that they need no more at once than fits it at all.
	Pace time.Duration
}

// Paced returns what calls that cost so much need at once, if they may, or may not, use the
// reserve.
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
// charges, at most MaxUnits in all. What is not listed costs nothing.
func (c *Credential) Cost(calls Calls) Units {
	var sum Units
	for operation, count := range calls.Count {
		if charges, err := c.Charges(operation, count, calls.Job); err == nil {
			sum = add(sum, Max(charges))
		}
	}
	return sum
}

// Sum returns what calls cost together, in the order of the limits and at most MaxUnits
// in each. It fails for an operation that is not listed, or that costs more than MaxUnits
// by itself.
func (c *Credential) Sum(calls Calls) ([]Charge, error) {
	totals := make([]Units, len(c.Limits))
	for operation, count := range calls.Count {
		if _, known := c.Operations[operation]; !known {
			return nil, fmt.Errorf("operation %q is not listed for credential %q", operation, c.Name)
		}
		charges, err := c.Charges(operation, count, calls.Job)
		if err != nil {
			return nil, err
		}
		for _, charge := range charges {
			i := c.Index(charge.Limit)
			totals[i] = add(totals[i], charge.Units)
		}
	}
	var sum []Charge
	for i, units := range totals {
		if units > 0 {
			sum = append(sum, Charge{Limit: c.Limits[i].Name, Units: units})
		}
	}
	return sum, nil
}

// addTo adds what calls cost to charges, in the limits that those are of.
func (c *Credential) addTo(charges []Charge, calls Calls) error {
	more, err := c.Sum(calls)
	for i, charge := range charges {
		units, _ := ChargeIn(more, charge.Limit)
		charges[i].Units = add(charge.Units, units)
	}
	return err
}
