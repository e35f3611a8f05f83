package jobs

import (
	"fmt"

	"quotad/quota"
)

// askGate asks the gate whether a pass can be afforded, on top of what others are expected to spend
// still; spokenFor returns whether they are. One pass of this host is at the gate at a time: so it
// counts those that came before. When two hosts launch for the last units, the ledger denies one.
func (e *executor) askGate(token string) (d quota.Decision, spokenFor bool, err error) {
	select {
	case e.runner.gate <- struct{}{}:
		defer func() { <-e.runner.gate }()
	case <-e.launching.Done():
		return d, false, e.launching.Err()
	}
	others := e.runner.config.Tokens.reserve(token, e.job.Calls())
	d, err = e.runner.config.Gate.Peek(e.launching, e.job.Credential, e.job.Calls(), others, e.job.UseReserve)
	return d, len(others) > 0, err
}

// refusal returns why the gate refused a pass; spokenFor says that it counted what others are
// expected to spend.
func refusal(d quota.Decision, spokenFor bool) *Stop {
	switch d.Reason {
	case quota.LimitExceeded:
		if spokenFor {
			d.Detail += ", with the passes under way"
		}
		return &Stop{Reason: DoesNotFit, Detail: d.Detail, Limit: d.Limit, RetryAt: d.RetryAt}
	case quota.LimitClosed:
		return &Stop{Reason: Closed, Detail: d.Detail, Limit: d.Limit, RetryAt: d.RetryAt}
	case quota.CostExceedsLimit:
		if spokenFor {
			d.Detail = fmt.Sprintf("a pass with those under way expects %s, more than limit %s ever has: it fits when they are over", d.Units.Text(), d.Limit)
		}
		return &Stop{Reason: DoesNotFit, Detail: d.Detail, Limit: d.Limit}
	}
	return &Stop{Reason: Reason(d.Reason), Detail: d.Detail}
}
