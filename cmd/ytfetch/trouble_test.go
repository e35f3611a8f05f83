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

func TestDayLimitUnderTheReasonOfARateLimit(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	r.upstream.Inject(nil, refuse(429, "global", "rateLimitExceeded", fmt.Sprintf(quotaTemplate, "Queries", "Queries per day")))
	r.ends(t.Context(), ending{exitDenied, []int{50}, 2, `its limit "Queries per day" is gone`})
	if r.pauses != nil {
		t.Errorf("the pass cooled down for %v, though the day is over", r.pauses)
	}
}

func TestMinuteLimitCoolsDown(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	r.pass.deadline = r.clock.Now().Add(2 * time.Minute)
	r.upstream.Inject(nil, minuteLimit)
	r.ends(t.Context(), ending{exitOK, []int{50, 50, 50, 50}, 5, "trying again in 1m0s"})
	if !slices.Equal(r.pauses, []time.Duration{time.Minute}) {
		t.Errorf("got pauses %v, want one minute", r.pauses)
	}
}

func TestMinuteLimitIsNotTriedForEver(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	r.upstream.Inject(nil, minuteLimit, minuteLimit, minuteLimit)
	r.ends(t.Context(), ending{exitFailed, []int{50}, 4, "limit 'Queries per minute'"})
}

func TestCoolDownEndsInADenial(t *testing.T) {
	r := newRun(t, envConfig{limit: 2, quota: 100})
	r.upstream.Inject(nil, minuteLimit)
	r.ends(t.Context(), ending{exitDenied, []int{50}, 2, "quotad denied"})
}

func TestUnknownRefusalIsAMinuteFirst(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	r.upstream.Inject(refuse(403, "global", "somethingNew", "no"))
	r.ends(t.Context(), ending{exitOK, []int{50, 50, 50, 50}, 5, "somethingNew"})
}

func TestUnknownRefusalThatRepeatsIsADay(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	r.upstream.Inject(refuse(403, "global", "somethingNew", "no"), refuse(403, "global", "somethingNew", "no"))
	r.ends(t.Context(), ending{exitDenied, nil, 2, "the day's quota is gone"})
}

func TestUnknownRefusalWithoutTimeForASecondLook(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	r.pass.deadline = r.clock.Now().Add(time.Minute)
	r.upstream.Inject(refuse(429, "", "", ""))
	r.ends(t.Context(), ending{exitFailed, nil, 1, "no time to try again"})
}

func TestKeyThatUpstreamEchoesStaysHidden(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	r.upstream.Inject(refuse(400, "usageLimits", "keyInvalid", "Bad key "+secret))
	r.ends(t.Context(), ending{exitConfiguration, nil, 1, "Bad key [key]"})
}

func TestStaleTokenStartsTheRegionOver(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	r.upstream.Inject(nil, nil, invalidPageToken)
	r.ends(t.Context(), ending{exitOK, []int{50, 50, 50, 50}, 7, "invalidPageToken"})
}

func TestStaleTokenStartsOverOnce(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	r.upstream.Inject(nil, nil, invalidPageToken, nil, invalidPageToken)
	r.ends(t.Context(), ending{exitFailed, []int{50, 50}, 5, "; 100 videos on 2 pages stored"})
}

func TestChartThatShrankLeavesNoOldPages(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	last := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"items":[{"id":"a"}]}`) }
	r.upstream.Inject(nil, nil, invalidPageToken, last)
	r.ends(t.Context(), ending{exitOK, []int{1}, 4, "done: 1 video on 1 page"})
}

func TestServerErrorIsTriedAgain(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	r.upstream.Inject(nil, serverError, serverError)
	r.ends(t.Context(), ending{exitOK, []int{50, 50, 50, 50}, 6, "backendError"})
	if want := []time.Duration{time.Second, 2 * time.Second}; !slices.Equal(r.pauses, want) {
		t.Errorf("got pauses %v, want %v", r.pauses, want)
	}
}

func TestServerErrorIsNotTriedForEver(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	r.upstream.Inject(serverError, serverError, serverError)
	r.ends(t.Context(), ending{exitFailed, nil, 3, "backendError"})
}

// Each of upstream's charges has a grant of its own: nothing below the pass
// repeats a call whose answer was lost.
func TestLostAnswerCostsAGrantOfItsOwn(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	r.upstream.Inject(nil, drop, nil, drop)
	r.ends(t.Context(), ending{exitOK, []int{50, 50, 50, 50}, 6, "upstream was called but did not answer: "})
}

func TestAnswerThatIsNoPage(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	portal := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"welcome":"sign in"}`) }
	r.upstream.Inject(portal, portal, portal)
	r.ends(t.Context(), ending{exitFailed, nil, 3, "not a page of videos"})
}

func TestUpstreamThatIgnoresTokens(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	same := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"items":[],"nextPageToken":"CDIQAA"}`) }
	r.upstream.Inject(same, same, same)
	r.ends(t.Context(), ending{exitFailed, []int{0, 0}, 2, "ignore page tokens"})
}

func TestRedirectIsNotFollowed(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	r.upstream.Inject(func(w http.ResponseWriter, req *http.Request) { http.Redirect(w, req, "/elsewhere", http.StatusFound) })
	r.ends(t.Context(), ending{exitFailed, nil, 1, "upstream answered 302"})
}
