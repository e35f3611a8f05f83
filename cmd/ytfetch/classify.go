package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"quotad/quota/api"
	"quotad/quota/upstream"
)

// What a failed call means for the calls after it is what it says of the quota, to quotad too, or
// one of these.
const (
	refused    upstream.Class = "refused"     // this call is not accepted, whatever the quota; asking again is useless
	staleToken upstream.Class = "stale token" // the page token is not valid any more
	transient  upstream.Class = "transient"   // the upstream's or the network's own trouble; the call is spent
	unsent     upstream.Class = "unsent"      // no connection was made, so nothing is spent
	withheld   upstream.Class = "withheld"    // quotad's proxy answered, and upstream was not called
)

// A withheldWhy says why quotad's proxy did not call upstream, and when the call fits.
type withheldWhy struct {
	api.Problem
	RetryAt *time.Time `json:"retry_at"`
}

// A callError says why a call brought no page.
type callError struct {
	class  upstream.Class
	status int // 0: no answer came

	// Of an answer, as upstream wrote it.
	domain, reason, message string
	limit                   string // what the answer calls the limit, "Queries per day"

	quotad withheldWhy // by quotad's proxy; zero: upstream answered

	err error // of the network, or of reading the answer; never holds the URL

	// For the report to quotad: the operation and its grant, and what came back.
	operation, grant string
	header           http.Header
	body             []byte
}

// classOf returns the class of a call's error; any other error is like a refusal.
func classOf(err error) upstream.Class {
	var failed *callError
	if errors.As(err, &failed) {
		return failed.class
	}
	return refused
}

func (e *callError) Unwrap() error { return e.err }

func (e *callError) Error() string {
	switch {
	case e.class == unsent:
		return upstream.Line(fmt.Sprintf("cannot reach upstream: %v", e.err))
	case e.status == 0:
		return upstream.Line(fmt.Sprintf("upstream was called but did not answer: %v", e.err))
	}
	text := fmt.Sprintf("upstream answered %d", e.status)
	if named := strings.TrimSpace(e.domain + " " + e.reason); named != "" {
		text += " " + named
	}
	if e.message != "" {
		text += ": " + e.message
	}
	if e.err != nil {
		text += fmt.Sprintf(": %v", e.err)
	}
	return upstream.Line(text)
}

// failure makes a failure of the last failed call; err is it, or wraps it.
func (e *callError) failure(err error) *failure {
	switch e.class {
	case withheld:
		f := fail(codeOf(e.quotad.Reason), fmt.Errorf("quotad denied %s: %s", e.operation, denial(upstream.Line(e.quotad.Detail), e.quotad.RetryAt)))
		if f.code == exitConfiguration {
			f.hint = e.quotad.Hint
		}
		return f
	case upstream.Day:
		gone := "the day's quota"
		if e.limit != "" {
			gone = fmt.Sprintf("its limit %q", e.limit)
		}
		return &failure{
			exitDenied, fmt.Errorf("upstream says that %s is gone, though quotad granted the call: their books differ: %w", gone, err),
			"another program spends from the same project, or the limit in quotad's config is above the project's own: compare with the project's quota page",
		}
	case upstream.Key, upstream.Billing:
		return &failure{
			exitConfiguration, fmt.Errorf("upstream does not accept this configuration: %w", err),
			"check YOUTUBE_API_KEY, whether its project has the API enabled, and the region's code",
		}
	default:
		return fail(exitFailed, err)
	}
}

// An envelope is the documented form of an error answer; members vary.
type envelope struct {
	Error struct {
		Message string
		Errors  []struct{ Domain, Reason, Message string }
	}
	Quotad withheldWhy // what quotad's proxy adds to an answer of its own
}

// format is what is particular to YouTube's answers: that these two are no quota's.
var format = upstream.Format{Reasons: map[string]upstream.Class{"forbidden": upstream.Key, "invalidRegionCode": upstream.Key}}

// classify reads an error answer. What it says of the quota is what quotad makes of it too. An
// answer that is no envelope, of a proxy perhaps, is judged by its status.
func classify(status int, header http.Header, body []byte, now time.Time) *callError {
	e := &callError{status: status, header: header, body: body}
	var said envelope
	if json.Unmarshal(body, &said) == nil {
		e.message, e.quotad = said.Error.Message, said.Quotad
		if len(said.Error.Errors) > 0 {
			first := said.Error.Errors[0]
			e.domain, e.reason, e.message = first.Domain, first.Reason, cmp.Or(first.Message, e.message)
		}
	}
	if e.quotad.Reason != "" && e.quotad.Reason != api.UpstreamUnreachable {
		e.class = withheld
		return e
	}
	text := bytes.ToValidUTF8(body[:min(len(body), upstream.MaxBody)], []byte("?"))
	verdict, err := upstream.Classify(upstream.Answer{Status: status, Header: header, Body: text}, format, now)
	if err != nil {
		verdict.Class = upstream.OK // what cannot be read says nothing of the quota
	}
	if len(verdict.Names) > 0 {
		e.limit = verdict.Names[0]
	}
	if e.class = verdict.Class; e.class == upstream.OK {
		e.class = e.classOfStatus()
	}
	return e
}

// classOfStatus returns the class of an answer that says nothing of the quota.
func (e *callError) classOfStatus() upstream.Class {
	switch {
	case e.reason == "invalidPageToken":
		return staleToken
	case e.reason == "badRequest" && strings.Contains(e.message, "API key"): // which has no reason of its own
		return upstream.Key
	case e.status == http.StatusTooManyRequests, e.status == http.StatusForbidden:
		return upstream.Unknown
	case e.status >= 500, e.status == http.StatusRequestTimeout:
		return transient
	default:
		return refused
	}
}
