package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

const (
	lastCallTime = 2 * time.Second // of a call to quotad that a pass makes even while it is being ended
	maxReport    = 60_000          // bytes of an answer that quotad takes
)

// call acquires and makes one upstream call. Each has a request id of its own, a repeated one too: upstream charges for
// it again.
func (p *pass) call(ctx context.Context, r request) (got page, err error) {
	if p.metered {
		got, err = p.send(ctx, r)
		got.left = -1
		return got, p.judge(ctx, r.operation, "", err)
	}
	grant, err := p.acquire(ctx, r.operation)
	if err != nil {
		return got, err
	}
	got, err = p.send(ctx, r)
	got.left = grant.Remaining
	return got, p.judge(ctx, r.operation, grant.GrantID, err)
}

func (p *pass) acquire(ctx context.Context, operation string) (api.Decision, error) {
	p.calls++
	id := fmt.Sprintf("%s-%d", p.id, p.calls)
	d, err := p.quota.Acquire(ctx, api.AcquireRequest{Credential: p.credential, Operation: operation, RequestID: id})
	problem := &api.Problem{Reason: quota.Reason(d.Reason), Detail: d.Detail}
	switch {
	case d.Granted:
		return d, nil
	case err != nil && !errors.As(err, &problem):
		return d, &failure{exitUnavailable, fmt.Errorf("cannot ask for units: %w", err), api.Hint(err)}
	}
	f := &failure{exitConfiguration, fmt.Errorf("quotad refused %s: %s", operation, problem.Detail), problem.Hint}
	switch api.NewProblem(problem.Reason, "").Status {
	case http.StatusTooManyRequests:
		f.code = exitDenied
	case http.StatusServiceUnavailable:
		f.code = exitUnavailable
	case http.StatusInternalServerError:
		f.code = exitFailed
	}
	if d.RetryAt != nil {
		f.err = fmt.Errorf("%w; it fits at %s", f.err, d.RetryAt.UTC().Format(time.RFC3339))
	}
	return d, f
}

// judge returns what the error of a call means for the pass. Of an error answer quotad says so, and closes a limit of
// which upstream says that it is used up: other passes then do not waste a call. What came through its proxy, without a
// grant, it knows already. The grant of a call that was never sent is released; else it stays debited, the safe side.
func (p *pass) judge(ctx context.Context, operation, grantID string, err error) error {
	var failed *callError
	if !errors.As(err, &failed) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCallTime)
	defer cancel()
	class := map[int]string{401: "key", 403: "day", 429: "minute"}[failed.status]
	if failed.unsent && grantID != "" {
		if _, err := p.quota.Release(ctx, grantID); err != nil {
			p.say("cannot release the units of a call that was never sent: %v", err)
		}
	} else if failed.err == nil && grantID != "" {
		var header bytes.Buffer
		_ = failed.header.WriteSubset(&header, map[string]bool{"Set-Cookie": true})
		body := strings.ToValidUTF8(string(failed.body[:min(len(failed.body), maxReport)]), "?")
		seen, err := p.quota.Observe(ctx,
			api.Observation{GrantID: grantID, Status: int64(failed.status), Header: header.String(), Body: body})
		if err != nil {
			p.say("cannot report to quotad what upstream answered: %v", err)
		} else if seen.Class != "ok" {
			class = seen.Class
		}
	}
	switch class {
	case "day", "minute", "unknown":
		return &failure{exitDenied, fmt.Errorf("%s was granted, and upstream refuses it: %w", operation, failed),
			"if this repeats, another program spends from the same project, or its limits are below those in quotad's " +
				"configuration: compare with the project's quota page"}
	case "key", "billing":
		return &failure{exitConfiguration, fmt.Errorf("upstream does not accept this configuration: %w", failed),
			"check YOUTUBE_API_KEY, whether its project has the API enabled, and the region's code"}
	}
	return err
}
