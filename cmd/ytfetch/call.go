package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/upstream"
)

// The operations that ytfetch calls, as quotad's configuration names them.
const (
	videosList = "videos.list"
	searchList = "search.list"
)

// A request is an upstream call that may be repeated.
type request struct {
	operation string
	page      int // which it is for
	send      func(context.Context) (page, error)
}

// unknownLeft is what is left after a call for which the pass asked for no units.
const unknownLeft = -1

// lastCallTime bounds a call to quotad that a pass makes even while it is being ended.
const lastCallTime = 2 * time.Second

// call acquires and makes one upstream call. Each has a request id of its own,
// a repeated one too: upstream charges for it again. Its errors are failures
// if quotad denies or fails, else *callErrors.
func (p *pass) call(ctx context.Context, r request) (got page, left int64, err error) {
	left = unknownLeft
	var grant api.Decision
	if !p.metered {
		p.calls++
		if grant, err = p.acquire(ctx, r.operation, fmt.Sprintf("%s-page-%d-call-%d", p.id, r.page, p.calls)); err != nil {
			return page{}, 0, err
		}
		left = grant.Remaining
	}
	got, err = r.send(ctx)
	if classOf(err) == unsent && !p.metered {
		p.release(ctx, grant.GrantID)
	}
	var failed *callError
	if errors.As(err, &failed) {
		failed.operation, failed.grant = r.operation, grant.GrantID
	}
	return got, left, err
}

func (p *pass) acquire(ctx context.Context, operation, requestID string) (api.Decision, error) {
	d, err := p.quota.Acquire(ctx, api.AcquireRequest{Credential: p.credential, Operation: operation, RequestID: requestID})
	switch {
	case errors.Is(err, api.ErrUnreachable), errors.Is(err, api.ErrLedgerUnavailable), d.Status == http.StatusServiceUnavailable:
		return d, &failure{exitUnavailable, fmt.Errorf("cannot ask for units: %w", err), api.Hint(err)}
	case err != nil && d.Reason != "":
		return d, &failure{exitConfiguration, fmt.Errorf("quotad refused %s: %w", operation, err), api.Hint(err)}
	case err != nil:
		return d, &failure{exitFailed, fmt.Errorf("cannot ask for units: %w", err), api.Hint(err)}
	case d.Granted:
		return d, nil
	case d.Reason == string(quota.LimitClosed), d.Reason == string(quota.RunCapExceeded):
		return d, fail(exitDenied, fmt.Errorf("quotad denied %s: %s", operation, d.Detail))
	case d.Reason == string(quota.LimitExceeded):
		return d, fail(exitDenied, fmt.Errorf("quotad denied %s: %s", operation, shortage(d)))
	default:
		return d, fail(exitConfiguration, fmt.Errorf("quotad refused %s: %s: %s", operation, d.Reason, d.Detail))
	}
}

// shortage says what the limit that denied lacks, and until when.
func shortage(d api.Decision) string {
	left := d.Remaining
	for _, limit := range d.Limits {
		if limit.Name == d.Limit {
			left = limit.Remaining
		}
	}
	text := fmt.Sprintf("%s asked, %s left in limit %s", quota.Count(d.Requested, "unit", "units"), quota.Thousands(left), d.Limit)
	if d.RetryAt == nil {
		return text
	}
	wait := (time.Duration(d.RetryAfterMs) * time.Millisecond).Round(time.Second)
	return fmt.Sprintf("%s, more at %s (in %v)", text, d.RetryAt.UTC().Format(time.RFC3339), wait)
}

// release releases the units of a call that was never sent, also when the pass is being
// ended. A grant that cannot be released stays debited, which is the safe side.
func (p *pass) release(ctx context.Context, grantID string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCallTime)
	defer cancel()
	d, err := p.quota.Release(ctx, grantID)
	if err == nil && !d.Granted {
		err = errors.New(d.Reason)
	}
	if err != nil {
		p.say("cannot release the units of a call that was never sent: %v", err)
	}
}

// observe reports to quotad what upstream answered, if the pass does not retry: other passes
// then do not waste a call. A report that is lost costs each of them one call, and this pass
// nothing.
func (p *pass) observe(ctx context.Context, err error) {
	var failed *callError
	if !errors.As(err, &failed) || failed.status == 0 || failed.grant == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCallTime)
	defer cancel()
	observation := api.Observation{GrantID: failed.grant, Status: int64(failed.status), Header: upstream.FormatHeader(failed.header)}
	if len(failed.body) <= upstream.MaxBody {
		observation.Body = strings.ToValidUTF8(string(failed.body), "?")
	}
	out, err := p.quota.Observe(ctx, observation)
	switch {
	case err != nil:
		p.say("cannot report to quotad what upstream answered: %v", err)
	case out.Changed:
		p.say("limit %s is closed until %s", out.Limit, out.Closed.Until.Format(time.RFC3339))
	}
}

// failure makes a failure of the error that ended the pass.
func (p *pass) failure(err error) *failure {
	f := fail(exitFailed, err)
	errors.As(err, &f)
	var failed *callError
	if errors.As(err, &failed) {
		f = callFailure(failed, err)
	}
	return &failure{f.code, fmt.Errorf("%w; %s stored", f.err, p.store), f.hint}
}

// callFailure makes a failure of the last failed call; err is it, or wraps it.
func callFailure(failed *callError, err error) *failure {
	switch failed.class {
	case withheld:
		return withheldFailure(failed)
	case day:
		return &failure{
			exitDenied, fmt.Errorf("upstream says that %s is gone, though quotad granted the call: their books differ: %w", failed.budget(), err),
			"another program spends from the same project, or the limit in quotad's config is above the project's own: compare with the project's quota page",
		}
	case configuration:
		return &failure{
			exitConfiguration, fmt.Errorf("upstream does not accept this configuration: %w", err),
			"check YOUTUBE_API_KEY, whether its project has the API enabled, and the region's code",
		}
	default:
		return fail(exitFailed, err)
	}
}

// withheldFailure makes a failure of a call that quotad's proxy did not pass on.
func withheldFailure(failed *callError) *failure {
	err := fmt.Errorf("quotad denied %s: %s", failed.operation, printable(failed.quotad.Detail))
	switch failed.quotad.Reason {
	case quota.LimitExceeded, quota.LimitClosed, quota.RunCapExceeded:
		return fail(exitDenied, err)
	case api.LedgerUnavailable, api.Recovering, api.Contended:
		return fail(exitUnavailable, err)
	}
	return &failure{exitConfiguration, err, failed.quotad.Hint}
}
