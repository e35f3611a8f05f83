package main

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

func TestUpstreamsDayIsOverBeforeQuotads(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 2})
	r.ends(t.Context(), ending{exitDenied, []int{50, 50}, 3, "the day's quota is gone, though quotad granted the call: their books differ: upstream answered 403 youtube.quota quotaExceeded: "})
	if refused := r.upstream.Counts().Refused; refused != 1 {
		t.Errorf("got %d calls refused for quota, want 1: a day that is over is not asked again", refused)
	}
	// quotad debits before a call, whatever becomes of it; upstream charged nobody for this one.
	if d, err := r.pass.quota.Release(t.Context(), r.tokens.Pass(runToken).Decisions[2].GrantID); err != nil || !d.Granted {
		t.Errorf("cannot release the third grant: %+v, %v", d, err)
	}
}

// What upstream's next answers are, how the pass ends, and how long it slept before it called again.
func TestTroubleUpstream(t *testing.T) {
	text := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }
	}
	const second, minute = time.Second, time.Minute
	whole := []int{50, 50, 50, 50}
	dayIsOver := refuse(429, "global", "rateLimitExceeded", fmt.Sprintf(quotaTemplate, "Queries", "Queries per day"))
	unknown, nameless := refuse(403, "global", "somethingNew", "no"), refuse(429, "", "", "")
	portal, same := text(`{"welcome":"sign in"}`), text(`{"items":[],"nextPageToken":"CDIQAA"}`)
	moved := func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }
	type answers []http.HandlerFunc // nil: a page
	for _, row := range []struct {
		name     string
		deadline time.Duration // 0: none
		answers  answers
		ends     ending
		pauses   []time.Duration
	}{
		{"a limit of the day, under the reason of a rate limit", 0, answers{nil, dayIsOver}, ending{exitDenied, []int{50}, 2, `its limit "Queries per day" is gone`}, nil},
		{"a limit of the minute cools down", 2 * minute, answers{nil, minuteLimit}, ending{exitOK, whole, 5, "trying again in 1m0s"}, []time.Duration{minute}},
		{"but is not tried for ever", 0, answers{nil, minuteLimit, minuteLimit, minuteLimit}, ending{exitFailed, []int{50}, 4, "limit 'Queries per minute'"}, []time.Duration{minute, minute}},
		{"an unknown refusal is a minute first", 0, answers{unknown}, ending{exitOK, whole, 5, "somethingNew"}, []time.Duration{minute}},
		{"and a day when it repeats", 0, answers{unknown, unknown}, ending{exitDenied, nil, 2, "the day's quota is gone"}, []time.Duration{minute}},
		{"without time for a second look", minute, answers{nameless}, ending{exitFailed, nil, 1, "no time to try again"}, nil},
		{"a key that is echoed stays hidden", 0, answers{refuse(400, "usageLimits", "keyInvalid", "Bad key "+secret)}, ending{exitConfiguration, nil, 1, "Bad key [key]"}, nil},
		{"a stale token starts the region over", 0, answers{nil, nil, invalidPageToken}, ending{exitOK, whole, 7, "invalidPageToken"}, nil},
		{"but once", 0, answers{nil, nil, invalidPageToken, nil, invalidPageToken}, ending{exitFailed, []int{50, 50}, 5, "; 100 videos on 2 pages stored"}, nil},
		{"a chart that shrank leaves no old pages", 0, answers{nil, nil, invalidPageToken, text(`{"items":[{"id":"a"}]}`)}, ending{exitOK, []int{1}, 4, "done: 1 video on 1 page"}, nil},
		{"a server error is tried again", 0, answers{nil, serverError, serverError}, ending{exitOK, whole, 6, "backendError"}, []time.Duration{second, 2 * second}},
		{"but not for ever", 0, answers{serverError, serverError, serverError}, ending{exitFailed, nil, 3, "backendError"}, []time.Duration{second, 2 * second}},
		// Each of upstream's charges has a grant of its own: nothing below the pass repeats a call.
		{"an answer that is lost", 0, answers{nil, drop, nil, drop}, ending{exitOK, whole, 6, "upstream was called but did not answer: "}, []time.Duration{second, second}},
		{"an answer that is no page", 0, answers{portal, portal, portal}, ending{exitFailed, nil, 3, "not a page of videos"}, []time.Duration{second, 2 * second}},
		{"tokens that are ignored", 0, answers{same, same, same}, ending{exitFailed, []int{0, 0}, 2, "ignore page tokens"}, nil},
		{"a redirect is not followed", 0, answers{moved}, ending{exitFailed, nil, 1, "upstream answered 302"}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRun(t, envConfig{limit: 100, quota: 100})
			if row.deadline > 0 {
				r.pass.deadline = r.clock.Now().Add(row.deadline)
			}
			r.upstream.Inject(row.answers...)
			r.ends(t.Context(), row.ends)
			if !slices.Equal(r.pauses, row.pauses) {
				t.Errorf("got pauses %v, want %v", r.pauses, row.pauses)
			}
		})
	}
}

func TestCoolDownEndsInADenial(t *testing.T) {
	r := newRun(t, envConfig{limit: 2, quota: 100})
	r.upstream.Inject(nil, minuteLimit)
	r.ends(t.Context(), ending{exitDenied, []int{50}, 2, "quotad denied"})
}
