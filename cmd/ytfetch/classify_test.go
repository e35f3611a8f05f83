package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"quotad/quota/upstream"
)

// quotaTemplate is how Google words an exceeded limit.
const quotaTemplate = "Quota exceeded for quota metric '%s' and limit '%s' of service 'youtube.googleapis.com' for consumer 'project_number:1'."

// The documented error answers: status, domain, reason, message and what they mean.
func TestClassifyDocumentedAnswers(t *testing.T) {
	exceeded := func(metric, limit string) string { return fmt.Sprintf(quotaTemplate, metric, limit) }
	for _, row := range []struct {
		name           string
		status         int
		domain, reason string
		message        string
		want           upstream.Class
		wantLimit      string
	}{
		{name: "searches of the day, as 429 rateLimitExceeded", status: 429, domain: "global", reason: "rateLimitExceeded",
			message: exceeded("Search Queries", "Search Queries per day"), want: upstream.Day, wantLimit: "Search Queries per day"},
		{name: "uploads of the day, as 429 rateLimitExceeded", status: 429, domain: "global", reason: "rateLimitExceeded",
			message: exceeded("Video Uploads", "Video Uploads per day"), want: upstream.Day, wantLimit: "Video Uploads per day"},
		{name: "queries of the minute, 429", status: 429, domain: "global", reason: "rateLimitExceeded",
			message: exceeded("Queries", "Queries per minute"), want: upstream.Minute, wantLimit: "Queries per minute"},
		{name: "queries of the minute and user, 403", status: 403, domain: "usageLimits", reason: "userRateLimitExceeded",
			message: exceeded("Queries", "Queries per minute per user"), want: upstream.Minute, wantLimit: "Queries per minute per user"},
		{name: "the limit outranks the reason", status: 403, domain: "youtube.quota", reason: "quotaExceeded",
			message: exceeded("Queries", "Queries per minute"), want: upstream.Minute, wantLimit: "Queries per minute"},
		{name: "rate limit without a name", status: 403, domain: "usageLimits", reason: "rateLimitExceeded", message: "Rate Limit Exceeded", want: upstream.Minute},
		{name: "shared limit", status: 403, domain: "youtube.quota", reason: "quotaExceeded",
			message: `The request cannot be completed because you have exceeded your <a href="/youtube/v3/getting-started#quota">quota</a>.`, want: upstream.Day},
		{name: "shared limit, legacy form", status: 403, domain: "usageLimits", reason: "dailyLimitExceeded",
			message: "Daily Limit Exceeded. The quota will be reset at midnight Pacific Time (PT).", want: upstream.Day},
		{name: "no key or an unknown one", status: 403, domain: "usageLimits", reason: "dailyLimitExceededUnreg", want: upstream.Key},
		{name: "invalid key", status: 400, domain: "usageLimits", reason: "keyInvalid", message: "Bad Request", want: upstream.Key},
		{name: "invalid key, newer form", status: 400, domain: "global", reason: "badRequest",
			message: "API key not valid. Please pass a valid API key.", want: upstream.Key},
		{name: "API not enabled", status: 403, domain: "usageLimits", reason: "accessNotConfigured", message: "Access Not Configured.", want: upstream.Key},
		{name: "not authorised", status: 403, reason: "forbidden", want: upstream.Key},
		{name: "unknown region", status: 400, domain: "youtube.parameter", reason: "invalidRegionCode", want: upstream.Key},
		{name: "the channel's own upload limit", status: 400, reason: "uploadLimitExceeded",
			message: "The user has exceeded the number of videos they may upload.", want: refused},
		{name: "bad parameter", status: 400, domain: "global", reason: "badRequest", message: "Bad Request", want: refused},
		{name: "stale page token", status: 400, domain: "youtube.parameter", reason: "invalidPageToken", want: staleToken},
		{name: "backend error", status: 503, domain: "global", reason: "backendError", want: transient},
		{name: "403 that fits no rule", status: 403, domain: "global", reason: "somethingNew", want: upstream.Unknown},
		{name: "429 that fits no rule", status: 429, want: upstream.Unknown},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := classify(row.status, nil, envelopeOf(t, row.status, row.domain, row.reason, row.message), time.Now())
			if got.class != row.want || got.limit != row.wantLimit {
				t.Errorf("got class %q, limit %q; want class %q, limit %q", got.class, got.limit, row.want, row.wantLimit)
			}
			if got.status != row.status || got.domain != row.domain || got.reason != row.reason || got.message != row.message {
				t.Errorf("got %+v, want the answer's own words", got)
			}
		})
	}
}

// envelopeOf escapes '<' as \u003c, as some answers do.
func envelopeOf(t *testing.T, status int, domain, reason, message string) []byte {
	t.Helper()
	entry := map[string]any{"message": message, "domain": domain, "reason": reason, "extendedHelp": "https://example.com"}
	body, err := json.Marshal(map[string]any{"error": map[string]any{
		"errors": []any{entry}, "code": status, "message": message, "status": "SOMETHING", "details": []any{map[string]any{"a": 1}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestClassifyAnswersWithoutTheEnvelope(t *testing.T) {
	for _, row := range []struct {
		name   string
		status int
		body   string
		want   upstream.Class
	}{
		{"a proxy's page", 502, "<html>Bad Gateway</html>", transient},
		{"an empty body", 500, "", transient},
		{"a timeout", 408, "", transient},
		{"no list of errors", 429, `{"error":{"code":429,"message":"slow down"}}`, upstream.Unknown},
		{"the message alone names the limit", 429, `{"error":{"message":"limit 'Search Queries per day' of"}}`, upstream.Day},
		{"an error that is a text", 401, `{"error":"invalid_grant"}`, upstream.Key},
		{"a captive portal", 302, "", refused},
		{"a path that does not exist", 404, "404 page not found", refused},
		{"null", 403, "null", upstream.Unknown},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := classify(row.status, nil, []byte(row.body), time.Now()); got.class != row.want {
				t.Errorf("got class %q, want %q", got.class, row.want)
			}
		})
	}
}

func TestCallErrorIsOneReadableLine(t *testing.T) {
	e := classify(403, nil, envelopeOf(t, 403, "youtube.quota", "quotaExceeded", "gone\n\x1b[31mred "+strings.Repeat("x", 1000)), time.Now())
	got := e.Error()
	if strings.ContainsAny(got, "\n\x1b") || len(got) > 500 {
		t.Errorf("got %q, want one short line without escape sequences", got)
	}
	if want := "upstream answered 403 youtube.quota quotaExceeded: gone"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want it to begin with %q", got, want)
	}
}
