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

// lastCallTime bounds a call to quotad that a pass makes even while it is being ended.
const lastCallTime = 2 * time.Second

// call acquires and makes one upstream call. Each has a request id of its own,
// a repeated one too: upstream charges for it again. Its errors are failures
// if quotad denies or fails, else *callErrors.
func (p *pass) call(ctx context.Context, number int, r request) (got page, err error) {
	grant := api.Decision{Remaining: unknownLeft}
	if !p.metered {
		p.calls++
		if grant, err = p.acquire(ctx, r.operation, fmt.Sprintf("%s-page-%d-call-%d", p.id, number, p.calls)); err != nil {
			return page{}, err
		}
	}
	got, err = p.tube.send(ctx, r)
	if got.left = grant.Remaining; grant.Granted && len(grant.Limits) == 0 {
		got.left = unknownLeft // no limit counts the call
	}
	var failed *callError
	if errors.As(err, &failed) {
		failed.operation, failed.grant = r.operation, grant.GrantID
		if failed.class == unsent && grant.GrantID != "" {
			p.release(ctx, grant.GrantID)
		}
	}
	return got, err
}

func (p *pass) acquire(ctx context.Context, operation, requestID string) (api.Decision, error) {
	d, err := p.quota.Acquire(ctx, api.AcquireRequest{Credential: p.credential, Operation: operation, RequestID: requestID})
	if d.Granted {
		return d, nil
	}
	reason, hint := quota.Reason(d.Reason), api.Hint(err)
	var problem *api.Problem
	if errors.As(err, &problem) {
		reason = problem.Reason
	}
	code := codeOf(reason)
	if errors.Is(err, api.ErrUnreachable) {
		code = exitUnavailable
	}
	switch {
	case err != nil && code == exitConfiguration:
		err = fmt.Errorf("quotad refused %s: %w", operation, err)
	case err != nil:
		err = fmt.Errorf("cannot ask for units: %w", err)
	case code == exitDenied:
		err = fmt.Errorf("quotad denied %s: %s", operation, denial(d.Detail, d.RetryAt))
	default:
		err = fmt.Errorf("quotad refused %s: %s", operation, d.Detail)
	}
	return d, &failure{code, err, hint}
}

// codeOf returns the exit code of a refusal by quotad.
func codeOf(reason quota.Reason) int {
	switch api.NewProblem(reason, "").Status {
	case http.StatusTooManyRequests:
		return exitDenied
	case http.StatusServiceUnavailable:
		return exitUnavailable
	case http.StatusInternalServerError: // also of a reason that is not known
		return exitFailed
	default:
		return exitConfiguration
	}
}

// denial is why quotad denied a call, and when it fits.
func denial(detail string, fits *time.Time) string {
	if fits == nil {
		return detail
	}
	return detail + "; it fits at " + fits.UTC().Format(time.RFC3339)
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
func (p *pass) observe(ctx context.Context, failed *callError) {
	if failed.status == 0 || failed.grant == "" {
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
	var failed *callError
	if !errors.As(err, &f) && errors.As(err, &failed) {
		f = failed.failure(err)
	}
	return &failure{f.code, fmt.Errorf("%w; %s stored", f.err, p.stored), f.hint}
}
