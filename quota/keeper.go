package quota

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"
)

// A Keeper decides requests: it knows the configured credentials, turns
// requests into charges and has the ledger decide them. Any number of
// goroutines may use it at the same time.
type Keeper struct {
	ledger   Ledger
	deadline time.Duration
	book     atomic.Pointer[book]
}

// A book is one set of configured credentials; it is replaced, never changed.
type book struct {
	credentials []*Credential
	lanes       map[string]*lane
}

// NewKeeper returns a keeper of the credentials' ledger, which stays the
// caller's to close. Each ledger call is given at most deadline.
func NewKeeper(ledger Ledger, credentials []*Credential, deadline time.Duration) (*Keeper, error) {
	k := &Keeper{ledger: ledger, deadline: deadline}
	if err := k.SetCredentials(credentials); err != nil {
		return nil, err
	}
	return k, nil
}

// SetCredentials replaces what is configured. Changed limits apply from the
// next decision on to what the log already holds. After an error nothing has
// changed.
func (k *Keeper) SetCredentials(credentials []*Credential) error {
	next := &book{lanes: make(map[string]*lane, len(credentials))}
	for _, c := range credentials {
		if wrong := c.Validate(); wrong != nil {
			return fmt.Errorf("credential %q: %w", c.Name, wrong[0])
		}
		if next.lanes[c.Name] != nil {
			return fmt.Errorf("credential %q is defined twice", c.Name)
		}
		c = c.prepared()
		next.credentials = append(next.credentials, c)
		next.lanes[c.Name] = &lane{credential: c, ledger: k.ledger, deadline: k.deadline}
	}
	k.book.Store(next)
	return nil
}

// Credentials returns what is configured, in the order of configuration. The
// result must not be changed.
func (k *Keeper) Credentials() []*Credential { return k.book.Load().credentials }

// Names returns what the configured credentials are called, in the order of
// configuration.
func (k *Keeper) Names() []string {
	credentials := k.Credentials()
	names := make([]string, len(credentials))
	for i, c := range credentials {
		names[i] = c.Name
	}
	return names
}

// Credential returns the configured credential of that name.
func (k *Keeper) Credential(name string) (*Credential, bool) {
	l, ok := k.lane(name)
	if !ok {
		return nil, false
	}
	return l.credential, true
}

// Acquire decides a request. A refusal is a decision, not an error; the errors
// are those of Decider, and the context's own while the request still waits for
// its turn.
func (k *Keeper) Acquire(ctx context.Context, r Request) (Decision, error) {
	l, charges, refused := k.price(r)
	if l == nil {
		return refused, nil
	}
	if d, never := neverFits(l.credential, charges, r.UseReserve); never {
		return d, nil
	}
	return l.acquire(ctx, Ask{Request: r, Charges: charges})
}

// price returns the lane that a request goes to and what it costs there, or no
// lane and why it is refused without asking the ledger.
func (k *Keeper) price(r Request) (*lane, []Charge, Decision) {
	if err := r.Validate(); err != nil {
		return nil, nil, refuse(BadRequest, err.Error())
	}
	l, ok := k.lane(r.Credential)
	if !ok {
		return nil, nil, k.unknownCredential(r.Credential)
	}
	if _, known := l.credential.Operations[r.Operation]; !known {
		return nil, nil, unknownOperation(l.credential, r.Operation)
	}
	charges, err := l.credential.Charges(r.Operation, r.Count)
	if err != nil {
		return nil, nil, refuse(BadRequest, err.Error())
	}
	return l, charges, Decision{}
}

// Peek decides what would become of calls of several operations together,
// operation to count, without debiting anything.
func (k *Keeper) Peek(ctx context.Context, credential string, calls map[string]Units) (Decision, error) {
	l, ok := k.lane(credential)
	if !ok {
		return k.unknownCredential(credential), nil
	}
	charges, err := l.credential.Sum(calls)
	if err != nil {
		return refuse(BadRequest, err.Error()), nil
	}
	if len(charges) == 0 {
		return Decision{}, nil
	}
	if d, never := neverFits(l.credential, charges, false); never {
		return d, nil
	}
	return l.acquire(ctx, Ask{
		Request:    Request{Credential: credential},
		Charges:    charges,
		Peek:       true,
		Operations: slices.Sorted(maps.Keys(calls)),
	})
}

// Settle sets a grant, by its public id, to what was really spent.
func (k *Keeper) Settle(ctx context.Context, grantID string, units Units, caller Caller) (Decision, error) {
	name, id, err := ParseGrantID(grantID)
	if err != nil {
		return refuse(UnknownGrant, err.Error()), nil
	}
	if units < 0 || units > MaxUnits {
		return refuse(BadRequest, fmt.Sprintf("units must be a whole number from 0 to %d", MaxUnits)), nil
	}
	l, ok := k.lane(name)
	if !ok {
		return refuse(UnknownGrant, fmt.Sprintf("credential %q of this grant is not configured", name)), nil
	}
	return l.correct(ctx, func(ctx context.Context) (Decision, error) {
		return k.ledger.Settle(ctx, l.credential, Settlement{Grant: id, Units: units, Caller: caller})
	})
}

// Adjust books units that were spent elsewhere against a limit of a credential
// or, below zero, gives back what was counted but not spent.
func (k *Keeper) Adjust(ctx context.Context, credential string, a Adjustment) (Decision, error) {
	l, ok := k.lane(credential)
	if !ok {
		return k.unknownCredential(credential), nil
	}
	if _, known := l.credential.Limit(a.Limit); !known {
		return refuse(BadRequest, fmt.Sprintf("credential %q has no limit %q", credential, a.Limit)), nil
	}
	if a.Units == 0 || a.Units < -int64(MaxUnits) || a.Units > int64(MaxUnits) {
		return refuse(BadRequest, fmt.Sprintf("units must be a whole number from %d to %d, not 0", -MaxUnits, MaxUnits)), nil
	}
	return l.correct(ctx, func(ctx context.Context) (Decision, error) { return k.ledger.Adjust(ctx, l.credential, a) })
}

// Reset empties the log of a credential, so that every limit starts from zero.
func (k *Keeper) Reset(ctx context.Context, credential string, by Caller, note string) (Decision, error) {
	l, ok := k.lane(credential)
	if !ok {
		return k.unknownCredential(credential), nil
	}
	return l.correct(ctx, func(ctx context.Context) (Decision, error) {
		return Decision{}, k.ledger.Reset(ctx, l.credential, by, note)
	})
}

// Log returns a page of a credential's log; ok is false when the credential is
// not configured.
func (k *Keeper) Log(ctx context.Context, credential string, q LogQuery) (page LogPage, ok bool, err error) {
	l, ok := k.lane(credential)
	if !ok {
		return LogPage{}, false, nil
	}
	if q.Most < 1 || q.Most > MaxLogPage {
		q.Most = MaxLogPage
	}
	ctx, cancel := context.WithTimeout(ctx, k.deadline)
	defer cancel()
	page, err = k.ledger.Log(ctx, l.credential, q)
	return page, true, err
}

// Usage returns the state of a credential's limits; ok is false when the
// credential is not configured.
func (k *Keeper) Usage(ctx context.Context, credential string) (u Usage, ok bool, err error) {
	l, ok := k.lane(credential)
	if !ok {
		return Usage{}, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, k.deadline)
	defer cancel()
	u, err = k.ledger.Usage(ctx, l.credential)
	return u, true, err
}

// Health tells how the ledger is.
func (k *Keeper) Health(ctx context.Context) Health {
	ctx, cancel := context.WithTimeout(ctx, k.deadline)
	defer cancel()
	return k.ledger.Health(ctx)
}

// Waiting returns how many requests of a credential wait for a call in flight to
// end; 0 of an unknown one.
func (k *Keeper) Waiting(credential string) int {
	l, ok := k.lane(credential)
	if !ok {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

func (k *Keeper) lane(credential string) (*lane, bool) {
	l, ok := k.book.Load().lanes[credential]
	return l, ok
}

func (k *Keeper) unknownCredential(name string) Decision {
	d := refuse(UnknownCredential, fmt.Sprintf("credential %.80q is not configured", name))
	d.Hint = DidYouMean(name, k.Names(), "configured credentials")
	return d
}

func unknownOperation(c *Credential, name string) Decision {
	detail := fmt.Sprintf("operation %q is not listed for credential %q", name, c.Name)
	if near := Nearest(name, slices.Sorted(maps.Keys(c.Operations))); near != "" {
		detail += fmt.Sprintf(", but %q is", near)
	}
	return refuse(UnknownOperation, detail)
}

// neverFits refuses what no amount of waiting would make possible.
func neverFits(c *Credential, charges []Charge, useReserve bool) (Decision, bool) {
	for _, charge := range charges {
		limit := c.Limits[charge.Limit]
		if budget := limit.Budget(useReserve); charge.Units > budget {
			d := refuse(CostExceedsLimit, fmt.Sprintf("%s can never fit limit %q of %s", charge.Units.Text(), limit.Name, budget.Text()))
			d.Hint = "waiting does not help: ask for less at once"
			d.Limit, d.Units = limit.Name, Greatest(charges)
			return d, true
		}
	}
	return Decision{}, false
}

// Sum returns what calls of several operations cost together, operation to count,
// in the order of the limits and at most MaxUnits in each. It fails for an operation
// that is not listed, or that costs more than MaxUnits by itself.
func (c *Credential) Sum(calls map[string]Units) ([]Charge, error) {
	totals := make([]Units, len(c.Limits))
	for operation, count := range calls {
		if _, known := c.Operations[operation]; !known {
			return nil, fmt.Errorf("operation %q is not listed for credential %q", operation, c.Name)
		}
		charges, err := c.Charges(operation, count)
		if err != nil {
			return nil, err
		}
		for _, charge := range charges {
			totals[charge.Limit] = add(totals[charge.Limit], charge.Units)
		}
	}
	var sum []Charge
	for i, units := range totals {
		if units > 0 {
			sum = append(sum, Charge{Limit: i, Units: units})
		}
	}
	return sum, nil
}
