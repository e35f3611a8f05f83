package jobs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"quotad/quota"
)

// A Gate tells whether calls could be afforded; a quota.Service is one.
type Gate interface {
	// Peek decides what would become of a job's calls, behind those that others are
	// about to make, if it may, or may not, use the reserve. It moves nothing. An error
	// means that nobody can tell.
	Peek(ctx context.Context, credential string, own quota.Calls, others []quota.Calls, useReserve bool) (quota.Decision, error)
	// Cost returns what calls cost, as a run counts them; 0 where nobody can tell.
	Cost(credential string, calls quota.Calls) quota.Units
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
	calls      quota.Calls
	token      string // of the pass; empty until it is launched
}

// reserve adds what a pass is expected to spend, and returns as well what all that came
// before it are expected to spend still. Of two that come at once, the first does not
// count the second.
func (r *reserved) reserve(credential string, calls quota.Calls, t *Tokens) (own *expected, others []quota.Calls) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.list {
		if e.credential != credential {
			continue
		}
		if left := stillExpected(e.calls.Count, t.made(e.token)); len(left) > 0 {
			others = append(others, quota.Calls{Job: e.calls.Job, Count: left})
		}
	}
	own = &expected{credential: credential, calls: calls}
	r.list = append(r.list, own)
	return own, others
}

// stillExpected returns the calls that a pass is expected to make besides those that it made.
func stillExpected(calls, made map[string]quota.Units) map[string]quota.Units {
	left := make(map[string]quota.Units)
	for operation, count := range calls {
		if more := count - made[operation]; more > 0 {
			left[operation] = more
		}
	}
	return left
}

// elsewhere returns what passes of other jobs, on other hosts, are expected to spend still, of
// those that came to the gate before this pass: all hosts say that they come before they look. If
// they cannot be asked, nobody knows, and the ledger decides.
func (e *executor) elsewhere(ctx context.Context, p Pass) (list []quota.Calls) {
	j := e.state
	if j.hosts == nil {
		return nil
	}
	if _, err := j.decide(ctx, func() ([]record, error) { return []record{{ID: e.id, Gate: &p}}, nil }, nil); err != nil {
		return nil
	}
	at := j.atGate(p)
	var others []*jobControl
	for _, other := range e.runner.all() {
		if other != j && other.current().Credential == e.job.Credential {
			others = append(others, other)
		}
	}
	e.runner.look(others)
	for _, other := range others {
		list = append(list, other.expected(at, j.name)...)
	}
	return list
}

// atGate returns where the log of the hosts says that a pass asked the gate.
func (j *jobControl) atGate(p Pass) quota.ID {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, g := range j.story.Gate {
		if g.Region == p.Region && g.Attempt == p.Attempt {
			return g.At
		}
	}
	return quota.ID{}
}

// expected returns what the passes of a job on another host are expected to spend still, of
// those that came to the gate before one of another job.
func (j *jobControl) expected(at quota.ID, job string) []quota.Calls {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.executor != nil { // they are reserved here
		return nil
	}
	return j.story.expected(at, job)
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
			return &stop{reason: Unaffordable, detail: fmt.Sprintf("a pass with those under way expects %s, more than limit %q ever has: it fits when they are over", d.Units.Text(), d.Limit)}
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
