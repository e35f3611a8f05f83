package jobs

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"quotad/quota"
)

// A Gate tells whether calls could be afforded; a quota.Service is one.
type Gate interface {
	// Peek decides what would become of calls of several operations together,
	// operation to count, of a job that may, or may not, use the reserve. It moves
	// nothing. An error means that nobody can tell.
	Peek(ctx context.Context, credential string, calls map[string]quota.Units, useReserve bool) (quota.Decision, error)
	// Cost returns what calls cost, as a run counts them; 0 where nobody can tell.
	Cost(credential string, calls map[string]quota.Units) quota.Units
}

// A reserved is what passes are expected to spend that were let through the gate, or
// are at it, and are not over: units that are spoken for, on this host. The zero value
// is ready to use.
type reserved struct {
	mu   sync.Mutex  // guards list, and the tokens in it
	list []*expected // in the order in which they came to the gate
}

// An expected is what one pass is expected to spend.
type expected struct {
	credential string
	calls      map[string]quota.Units // by operation
	token      string                 // of the pass; empty until it is launched
}

// reserve adds what a pass is expected to spend, and returns as well what it would
// take together with all that came before it: its own calls, and what those are
// expected to spend still. Of two that come at once, the first does not count the
// second.
func (r *reserved) reserve(credential string, calls map[string]quota.Units, t *Tokens) (own *expected, all map[string]quota.Units) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all = maps.Clone(calls)
	for _, e := range r.list {
		if e.credential != credential {
			continue
		}
		made := t.made(e.token)
		for operation, count := range e.calls {
			if left := count - made[operation]; left > 0 {
				all[operation] = min(quota.MaxUnits, all[operation]+left)
			}
		}
	}
	own = &expected{credential: credential, calls: calls}
	r.list = append(r.list, own)
	return own, all
}

// launched notes by which token a pass spends from now on. A pass that is expected to
// spend nothing has no reservation.
func (r *reserved) launched(e *expected, token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e != nil {
		e.token = token
	}
}

// release takes back what a pass was expected to spend.
func (r *reserved) release(e *expected) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, other := range r.list {
		if other == e {
			r.list = append(r.list[:i], r.list[i+1:]...)
			return
		}
	}
}

// refusal says why the gate let a pass not through; spokenFor says that it counted
// what others are expected to spend.
func refusal(d quota.Decision, spokenFor bool) *stop {
	others := ""
	if spokenFor {
		others = " with those under way"
	}
	switch d.Reason {
	case quota.LimitExceeded:
		return &stop{
			reason:  Unaffordable,
			detail:  fmt.Sprintf("a pass%s expects %s, %s", others, d.Units.Text(), whatIsLeft(d)),
			retryAt: d.RetryAt,
		}
	case quota.LimitClosed:
		return &stop{
			reason:  Unaffordable,
			detail:  fmt.Sprintf("limit %q is closed until %s: %s", d.Limit, d.Closed().Until.UTC().Format(time.RFC3339), d.Closed().Says),
			retryAt: d.RetryAt,
		}
	case quota.CostExceedsLimit:
		if spokenFor {
			return &stop{reason: Unaffordable, detail: "with the passes under way: " + d.Detail}
		}
		return &stop{reason: Unaffordable, detail: d.Detail}
	default:
		return &stop{reason: Reason(d.Reason), detail: d.Detail}
	}
}

// whatIsLeft says what the limit that refused has. One that counts as spent holds
// nothing back: what it holds is not known.
func whatIsLeft(d quota.Decision) string {
	for _, l := range d.Limits {
		if l.Name == d.Limit && !l.CatchingUp.IsZero() {
			return fmt.Sprintf("limit %q counts as spent until its log is as long as its window", d.Limit)
		}
	}
	return fmt.Sprintf("limit %q has %s", d.Limit, quota.Thousands(d.Remaining()))
}
