package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"quotad/quota"
)

// A Gate decides whether calls could be afforded; a quota.Service is one.
type Gate interface {
	// Peek decides what would become of a job's calls, after those that others are about to make,
	// with or without the reserve. It moves nothing. An error means that this is unknown.
	Peek(ctx context.Context, credential string, own quota.Calls, others []quota.Calls, useReserve bool) (quota.Decision, error)
	// Cost returns what calls cost, as a run counts them; 0 if unknown.
	Cost(credential string, calls quota.Calls) quota.Units
	// Spent returns what a job was granted since an instant, by region.
	Spent(ctx context.Context, credential, job string, since time.Time) (map[string]quota.Spent, error)
}

// stillExpected returns the calls that a pass is expected to make beyond those that it made.
func stillExpected(calls quota.Calls, made map[string]quota.Units) (list []quota.Calls) {
	left := make(map[string]quota.Units)
	for operation, count := range calls.Count {
		if more := count - made[operation]; more > 0 {
			left[operation] = more
		}
	}
	if len(left) > 0 {
		list = append(list, quota.Calls{Job: calls.Job, Count: left})
	}
	return list
}

// askGate asks the gate whether a pass can be afforded, on top of what others are expected to spend
// still; spokenFor returns whether they are. One pass of this host is at the gate at a time: so it
// counts those that came before, and the hosts' logs have the passes of a host in the same order.
func (e *executor) askGate(p Pass, token string) (d quota.Decision, spokenFor bool, err error) {
	if !occupy(e.launching, e.runner.gate) {
		return d, false, e.launching.Err()
	}
	defer func() { <-e.runner.gate }()
	others := append(e.elsewhere(e.launching, p), e.runner.config.Tokens.reserve(token, e.job.Calls())...)
	d, err = e.runner.config.Gate.Peek(e.launching, e.job.Credential, e.job.Calls(), others, e.job.UseReserve)
	return d, len(others) > 0, err
}

// silentTime is how long a pass at the gate waits for the logs of the hosts while they do not answer.
const silentTime = hostsTime / 10

// elsewhere returns what passes of other jobs, on other hosts, are expected to spend still, of
// those that came to the gate before this pass. Each publishes that it comes before it reads the
// other logs. If the hosts cannot be asked, the ledger decides. Those of this host are not among
// them: Tokens.reserve has them.
func (e *executor) elsewhere(ctx context.Context, p Pass) (list []quota.Calls) {
	j := e.control
	if j.hosts == nil {
		return nil
	}
	wait := hostsTime
	if e.runner.silent.Load() { // all passes of this host wait behind this one
		wait = silentTime
	}
	asking, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var came int64 // by the clock of the log, in ms
	_, err := j.decide(asking, func() ([]record, error) { return []record{{ID: e.run.ID, Gate: &p}}, nil }, func() { came = j.state.Seen.Ms })
	if ctx.Err() == nil {
		e.runner.silent.Store(err != nil)
	}
	if err != nil {
		return nil
	}
	// Passes of the same millisecond are ordered by the names of their jobs. Once it is over, the
	// logs have all of them.
	const tick = 2 * time.Millisecond
	sleep(ctx, tick)
	others := slices.DeleteFunc(slices.Clone(e.runner.all()), func(other *jobControl) bool { return other == j })
	e.runner.readAll(others)
	for _, other := range others {
		list = append(list, other.expected(e.job.Credential, came, j.name)...)
	}
	return list
}

// expected returns what passes of a job on another host are expected to spend still from a
// credential, of those that came to the gate before a pass of another job.
func (j *jobControl) expected(credential string, came int64, job string) (list []quota.Calls) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := &j.state
	if j.executor != nil || s.running() == nil || s.Terms == nil || s.Terms.Credential != credential {
		return nil // what is under way here is reserved here
	}
	for _, g := range s.Gate {
		before := g.At.Ms < came || g.At.Ms == came && j.name < job
		if !before && !g.At.Time().After(j.hosts.clock) { // else it came before the clock was set back
			continue
		}
		var made Made
		if p := s.Last.attempt(g.Region, g.Attempt); p != nil {
			made = p.Made
		}
		list = append(list, stillExpected(quota.Calls{Job: j.name, Count: s.Terms.Expects}, made)...)
	}
	return list
}

// refusal returns why the gate refused a pass; spokenFor says that it counted what others are
// expected to spend.
func refusal(d quota.Decision, spokenFor bool) *stop {
	others := ""
	if spokenFor {
		others = " with those under way"
	}
	switch d.Reason {
	case quota.LimitExceeded:
		return &stop{Unaffordable, fmt.Sprintf("a pass%s does not fit: %s", others, d.Detail), d.RetryAt}
	case quota.LimitClosed:
		return &stop{Unaffordable, d.Detail, d.RetryAt}
	case quota.CostExceedsLimit:
		if spokenFor {
			d.Detail = fmt.Sprintf("a pass%s expects %s, more than limit %s ever has: it fits when they are over", others, d.Units.Text(), d.Limit)
		}
		return &stop{reason: Unaffordable, detail: d.Detail}
	}
	return &stop{reason: Reason(d.Reason), detail: d.Detail}
}
