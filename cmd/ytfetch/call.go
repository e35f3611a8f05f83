package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"quotad/quota/api"
)

const (
	lastCallTime = 2 * time.Second // of a call to quotad that a pass makes even while it is being ended
	maxReport    = 60_000          // bytes of an answer that quotad takes
)

// call acquires and makes one upstream call. It never waits for units, and never calls again: that is the next pass's.
func (p *pass) call(ctx context.Context, r request) (got page, err error) {
	grant, err := p.acquire(ctx, r.operation)
	if err != nil {
		return got, err
	}
	got, err = p.send(ctx, r)
	got.left = grant.Remaining
	return got, p.judge(ctx, r.operation, grant.GrantID, err)
}

// acquire asks quotad for a call. Each has a request id of its own.
func (p *pass) acquire(ctx context.Context, operation string) (api.Decision, error) {
	p.calls++
	id := fmt.Sprintf("%s-%d", p.id, p.calls)
	d, err := p.quota.Acquire(ctx, api.AcquireRequest{Credential: p.credential, Operation: operation, RequestID: id})
	switch {
	case err != nil:
		err = &failure{exitFailed, fmt.Errorf("quotad did not grant %s: %w", operation, err), api.Hint(err)}
	case d.Granted:
	case d.RetryAt == nil: // it can never fit
		err = &failure{exitFailed, fmt.Errorf("quotad refused %s: %s", operation, d.Detail), d.Hint}
	default:
		at := d.RetryAt.UTC().Format(time.RFC3339)
		err = &failure{exitDenied, fmt.Errorf("quotad refused %s: %s; it fits at %s", operation, d.Detail, at), d.Hint}
	}
	return d, err
}

// judge returns what the error of a call means for the pass. Of an error answer quotad says so, and closes a limit of
// which upstream says that it is used up: other passes then do not waste a call. The grant of a call that was never sent
// is released; else it stays debited, the safe side.
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
		return &failure{exitFailed, fmt.Errorf("upstream does not accept this configuration: %w", failed),
			"check YOUTUBE_API_KEY, whether its project has the API enabled, and the region's code"}
	}
	return err
}
