package jobs

import (
	"context"
	"fmt"
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
// counts those that came before. When two hosts launch for the last units, the ledger denies one.
func (e *executor) askGate(token string) (d quota.Decision, spokenFor bool, err error) {
	if !occupy(e.launching, e.runner.gate) {
		return d, false, e.launching.Err()
	}
	defer func() { <-e.runner.gate }()
	others := e.runner.config.Tokens.reserve(token, e.job.Calls())
	d, err = e.runner.config.Gate.Peek(e.launching, e.job.Credential, e.job.Calls(), others, e.job.UseReserve)
	return d, len(others) > 0, err
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
