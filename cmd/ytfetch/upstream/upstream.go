// Package upstream is a sample of the YouTube Data API in one process: it answers videos.list and search.list, and
// charges each request 1 unit or 100 against a daily quota of its own. ytfetch answers --sample from it, and serves it
// over HTTP. Tests compare what it charged with what quotad debited. upstream.go charges, videos.go answers with pages
// of invented videos. One mutex guards what was charged.
package upstream

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

// Path is the path below which the API lives: a base URL ends in it.
const Path = "/youtube/v3"

// A Config says what the upstream has and allows. The zero value is usable.
type Config struct {
	Quota          int              // units a day, at least 1; 0: 10,000
	PagesPerRegion int              // length of a region's chart in pages of 50, at least 1; 0: 4
	Key            string           // the one key it knows; empty: any key will do
	Now            func() time.Time // its clock; nil: time.Now
}

// An Upstream is an http.Handler, and an http.RoundTripper for clients in the same process. Any number of goroutines
// may use it at the same time.
type Upstream struct {
	config Config

	mu     sync.Mutex // guards what follows
	counts Counts
	day    string // that counts.Units belongs to
}

// Counts are the upstream's own books.
type Counts struct {
	Requests int // that arrived, whatever became of them
	Units    int // charged since the day began, never more than the quota
	Refused  int // requests answered quotaExceeded
}

// New returns an upstream with its whole quota.
func New(config Config) *Upstream {
	config.Quota, config.PagesPerRegion = cmp.Or(config.Quota, 10_000), cmp.Or(config.PagesPerRegion, 4)
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Upstream{config: config}
}

// Counts returns a copy of the books.
func (u *Upstream) Counts() Counts {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.turnDay()
	return u.counts
}

// ServeHTTP charges first and reads the parameters afterwards: an invalid request costs as much as a valid one. A
// request without a known key belongs to no project, and costs nothing.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	units, answer := 1, u.videos
	switch r.Method + r.URL.Path {
	case "GET" + Path + "/videos":
	case "GET" + Path + "/search":
		units, answer = 100, u.search
	default:
		http.NotFound(w, r)
		return
	}
	key := cmp.Or(r.URL.Query().Get("key"), r.Header.Get("X-Goog-Api-Key"))
	var body object
	refused := u.charge(units, key != "" && (u.config.Key == "" || key == u.config.Key))
	if refused == nil {
		body, refused = answer(r.URL.Query())
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	if refused != nil {
		body = refused.envelope()
		w.WriteHeader(refused.status)
	}
	_ = json.NewEncoder(w).Encode(body) // fails only if the client is gone
}

// charge books a request of that many units, if its key is known.
func (u *Upstream) charge(units int, known bool) *refusal {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.counts.Requests++
	if !known {
		return &refusal{http.StatusForbidden, "usageLimits", "dailyLimitExceededUnreg",
			"Daily Limit for Unauthenticated Use Exceeded. Continued use requires signup."}
	}
	u.turnDay()
	if u.counts.Units+units > u.config.Quota {
		u.counts.Refused++
		return &refusal{http.StatusForbidden, "youtube.quota", "quotaExceeded", "The request cannot be completed " +
			`because you have exceeded your <a href="/youtube/v3/getting-started#quota">quota</a>.`}
	}
	u.counts.Units += units
	return nil
}

// turnDay resets the quota at 08:00 UTC, midnight in California in winter. The caller holds mu.
func (u *Upstream) turnDay() {
	if today := u.config.Now().UTC().Add(-8 * time.Hour).Format(time.DateOnly); today != u.day {
		u.day, u.counts.Units = today, 0
	}
}

// RoundTrip answers a request without a network. It fails only if the request's context has ended, and then charges
// nothing.
func (u *Upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	answer := httptest.NewRecorder()
	u.ServeHTTP(answer, r)
	return answer.Result(), nil
}

// A refusal is an error answer.
type refusal struct {
	status                  int
	domain, reason, message string
}

// invalid refuses a request because of one of its parameters.
func invalid(reason, message string) *refusal {
	return &refusal{http.StatusBadRequest, "youtube.parameter", reason, message}
}

// envelope is the documented form.
func (r *refusal) envelope() object {
	entry := object{"message": r.message, "domain": r.domain, "reason": r.reason}
	return object{"error": object{"code": r.status, "message": r.message, "errors": []object{entry}}}
}
