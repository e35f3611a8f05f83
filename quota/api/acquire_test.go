package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/ledgertest"
)

func TestGrant(t *testing.T) {
	h := open(t, nil)
	for _, row := range []struct{ name, kind, body string }{
		{"JSON", asJSON, `{"credential":"youtube","operation":"search.list","count":2}`},
		{"JSON in UTF-8", asJSON + "; charset=utf-8", `{"credential":"youtube","operation":"search.list","count":2}`},
		{"form, as curl sends it", asForm, "credential=youtube&operation=search.list&count=2"},
	} {
		t.Run(row.name, func(t *testing.T) {
			before := int64(h.used("youtube"))
			got := h.dial().call("POST", "/v1/acquire", row.body, row.kind)
			if got.status != 200 || got.fields["granted"] != true || got.text("units") != "200" {
				t.Fatalf("got %d %s, want a grant of 200 units", got.status, got.body)
			}
			if got.header.Get("Content-Type") != "application/json" {
				t.Errorf("content type %q", got.header.Get("Content-Type"))
			}
			// 4,000 for searches are nearer than 9,500 for everything.
			if want := fmt.Sprint(4000 - before - 200); got.text("remaining") != want {
				t.Errorf("remaining %s, want %s", got.text("remaining"), want)
			}
			limits := got.fields["limits"].([]any)
			daily := limits[0].(map[string]any)
			if len(limits) != 2 || daily["name"] != "daily" || daily["window"] != "24h0m0s" || daily["used"] != float64(before+200) {
				t.Errorf("limits %v", limits)
			}
			if !strings.HasPrefix(got.text("grant_id"), "youtube:") {
				t.Errorf("grant id %q", got.text("grant_id"))
			}
		})
	}
}

func TestAbsentCountIsOne(t *testing.T) {
	h := open(t, nil)
	if got := h.acquire("", api.AcquireRequest{Credential: "youtube", Operation: "videos.list"}); got.Units != 1 {
		t.Errorf("units %d, want 1", got.Units)
	}
}

func TestTheOnlyCredentialNeedsNoName(t *testing.T) {
	clock := &clock{now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)}
	h := open(t, func(c *api.Config) { c.Keeper = newKeeper(t, ledgertest.NewModel(clock.Now), youtube()) })
	if d := h.acquire("", api.AcquireRequest{Operation: "videos.list"}); !d.Granted || !strings.HasPrefix(d.GrantID, "youtube:") {
		t.Errorf("got %+v, want a grant of youtube's", d)
	}
	h = open(t, nil)
	d := h.acquire("", api.AcquireRequest{Operation: "videos.list"})
	if d.Status != 400 || d.Detail != "credential is missing, and several are configured: youtube, other" || d.Hint != "name one of them" {
		t.Errorf("got %+v, want a refusal that lists both", d)
	}
	h = open(t, func(c *api.Config) { c.Keeper = newKeeper(t, ledgertest.NewModel(clock.Now)) })
	if d := h.acquire("", api.AcquireRequest{Operation: "videos.list"}); d.Status != 400 || d.Detail != "credential is missing, and none is configured" {
		t.Errorf("got %+v, want a refusal", d)
	}
}

func TestDenied(t *testing.T) {
	h := open(t, nil)
	h.acquire("", api.AcquireRequest{Credential: "youtube", Operation: "search.list", Count: 39})
	h.clock.advance(500 * time.Millisecond)
	h.acquire("", api.AcquireRequest{Credential: "youtube", Operation: "search.list"})

	got := h.dial().call("POST", "/v1/acquire", "credential=youtube&operation=search.list", asForm)
	if got.status != 429 || got.header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("got %d %v", got.status, got.header)
	}
	for name, want := range map[string]string{
		"type":              "https://iana.org/assignments/http-problem-types#quota-exceeded",
		"title":             "Quota exceeded",
		"status":            "429",
		"granted":           "false",
		"reason":            "limit_exceeded",
		"limit":             "search",
		"requested":         "100",
		"remaining":         "0",
		"violated-policies": "[search]",
		"retry_after_ms":    "8.63995e+07",
		"retry_at":          "2026-11-22T09:00:00Z",
	} {
		if got.text(name) != want {
			t.Errorf("%s is %q, want %q", name, got.text(name), want)
		}
	}
	for name, want := range map[string]string{
		"Retry-After":      "86400", // half a second less, rounded up
		"RateLimit-Policy": `"daily";q=9500;w=86400, "search";q=4000;w=86400`,
		"RateLimit":        `"daily";r=5500, "search";r=0;t=86400`,
	} {
		if value := got.header.Get(name); value != want {
			t.Errorf("%s: %s, want %s", name, value, want)
		}
	}
	if used := h.used("youtube"); used != 4000 {
		t.Errorf("used %d after a denial, want 4000 as before", used)
	}
}

func TestGrantedAtRetryAfterAndNotBefore(t *testing.T) {
	h := open(t, nil)
	// Each asks under an id of its own: the ledger's clock runs ahead of the one
	// by which refusals are remembered.
	ask := func(id string) api.Decision {
		return h.acquire("", api.AcquireRequest{Credential: "other", Operation: "get", RequestID: id})
	}
	ask("1")
	h.clock.advance(250 * time.Millisecond)
	ask("2")
	d := ask("3")
	if d.RetryAfterMs != 59_750 || d.Status != 429 {
		t.Fatalf("decision %+v, want 59,750 ms to wait", d)
	}
	h.clock.advance(time.Duration(d.RetryAfterMs-1) * time.Millisecond)
	last := h.dial().call("POST", "/v1/acquire", "credential=other&operation=get&request_id=4", asForm)
	if last.status != 429 || last.header.Get("Retry-After") != "1" {
		t.Errorf("a millisecond early: %d, Retry-After %s, want 429 and 1", last.status, last.header.Get("Retry-After"))
	}
	h.clock.advance(time.Millisecond)
	if d := ask("5"); !d.Granted {
		t.Errorf("in time: %+v, want a grant", d)
	}
}

func TestRefusals(t *testing.T) {
	h := open(t, nil)
	ask := api.AcquireRequest{Credential: "youtube", Operation: "videos.list", RequestID: "page-1"}
	first := h.acquire("", ask)
	if again := h.acquire("", ask); !again.Replayed || again.GrantID != first.GrantID {
		t.Errorf("asked again: %+v, want %s replayed", again, first.GrantID)
	}
	for _, row := range []struct {
		name, body string
		status     int
		reason     quota.Reason
	}{
		{"can never fit", "credential=youtube&operation=search.list&count=41", 422, quota.CostExceedsLimit},
		{"unknown credential", "credential=vimeo&operation=videos.list", 404, quota.UnknownCredential},
		{"unknown operation", "credential=youtube&operation=videos.delete", 404, quota.UnknownOperation},
		{"another use of a request id", "credential=youtube&operation=videos.list&count=2&request_id=page-1", 409, quota.RequestIDConflict},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := h.dial().call("POST", "/v1/acquire", row.body, asForm)
			if got.status != row.status || got.text("reason") != string(row.reason) || got.fields["granted"] != false {
				t.Errorf("got %d %s, want %d %s", got.status, got.body, row.status, row.reason)
			}
			if got.text("status") != fmt.Sprint(row.status) || got.text("type") != "about:blank" || got.text("detail") == "" {
				t.Errorf("not a whole problem: %s", got.body)
			}
			if _, there := got.fields["retry_at"]; there || got.header.Get("Retry-After") != "" {
				t.Errorf("names a time: %s", got.body)
			}
		})
	}
	if used := h.used("youtube"); used != 1 {
		t.Errorf("used %d, want 1", used)
	}
}

func TestBadRequests(t *testing.T) {
	huge := strings.Repeat("x", 1<<20)
	for _, row := range []struct {
		name, kind, body string
		status           int
		says             string
	}{
		{"no body", asJSON, "", 400, "credential is missing"},
		{"not JSON", asJSON, `{"operation":`, 400, "malformed JSON"},
		{"trailing comma", asJSON, `{"credential":"youtube","operation":"videos.list",}`, 400, "malformed JSON"},
		{"a list", asJSON, `[]`, 400, "not an object"},
		{"null", asJSON, `null`, 400, "not an object"},
		{"two objects", asJSON, `{"credential":"youtube","operation":"videos.list"}{}`, 400, "follows the object"},
		{"not UTF-8", asJSON, "{\"credential\":\"youtube\",\"operation\":\"videos.list\",\"request_id\":\"\xff\"}", 400, "UTF-8"},
		{"unknown field", asJSON, `{"credential":"youtube","operation":"videos.list","units":1}`, 400, `unknown field "units"`},
		{"unknown field beside a missing one", asJSON, `{"credential":"youtube","operatoin":"videos.list"}`, 400, `unknown field "operatoin"`},
		{"field in other case", asJSON, `{"Credential":"youtube","operation":"videos.list"}`, 400, `unknown field "Credential"`},
		{"field twice", asJSON, `{"credential":"youtube","operation":"videos.list","count":1,"count":2}`, 400, "count is given twice"},
		{"object as a value", asJSON, `{"credential":{"a":1},"operation":"videos.list"}`, 400, "credential must be a string, not an object"},
		{"list as a text", asJSON, `{"credential":["youtube"],"operation":"videos.list"}`, 400, "credential must be a string"},
		{"number as a text", asJSON, `{"credential":"youtube","operation":5}`, 400, "operation must be a string, not a number"},
		{"null as a text", asJSON, `{"credential":"youtube","operation":null}`, 400, "operation must be a string, not null"},
		{"text as a bool", asJSON, `{"credential":"youtube","operation":"videos.list","use_reserve":"true"}`, 400, "use_reserve must be true or false"},
		{"text of a kilobyte", asJSON, `{"credential":"` + huge[:1024] + `","operation":"videos.list"}`, 400, "at most 256 bytes"},
		{"no credential", asJSON, `{"operation":"videos.list"}`, 400, "credential is missing"},
		{"no operation", asJSON, `{"credential":"youtube"}`, 400, "operation is missing"},
		{"long request id", asForm, "credential=youtube&operation=videos.list&request_id=" + huge[:129], 400, "request_id has 129 bytes"},
		{"unprintable request id", asForm, "credential=youtube&operation=videos.list&request_id=a%00b", 400, "unprintable"},

		{"count 0", asJSON, withCount("0"), 400, "whole number from 1"},
		{"count -1", asJSON, withCount("-1"), 400, "whole number from 1"},
		{"count 1.5", asJSON, withCount("1.5"), 400, "count must be a whole number"},
		{"count 1.0", asJSON, withCount("1.0"), 400, "count must be a whole number"},
		{"count 1e3", asJSON, withCount("1e3"), 400, "count must be a whole number"},
		{"count -0", asJSON, withCount("-0"), 400, "count must be a whole number"},
		{"count 2^53", asJSON, withCount("9007199254740992"), 400, "count must be a whole number"},
		{"count 2^64", asJSON, withCount("18446744073709551616"), 400, "count must be a whole number"},
		{"count of 200 digits", asJSON, withCount(strings.Repeat("9", 200)), 400, "count must be a whole number"},
		{"count that multiplies past 2^53", asJSON, `{"credential":"youtube","operation":"search.list","count":9007199254740991}`, 400, "exceed the greatest amount"},
		{"count as a string", asJSON, withCount(`"5"`), 400, "count must be a number, not a string"},
		{"count null", asJSON, withCount("null"), 400, "count must be a number, not null"},
		{"count true", asJSON, withCount("true"), 400, "count must be a number, not true or false"},

		{"form: count 0", asForm, "credential=youtube&operation=videos.list&count=0", 400, "whole number from 1"},
		{"form: count empty", asForm, "credential=youtube&operation=videos.list&count=", 400, "count must be a whole number"},
		{"form: count 05", asForm, "credential=youtube&operation=videos.list&count=05", 400, "count must be a whole number"},
		{"form: count ++5", asForm, "credential=youtube&operation=videos.list&count=%2B%2B5", 400, "count must be a whole number"},
		{"form: count twice", asForm, "credential=youtube&operation=videos.list&count=1&count=2", 400, "count is given 2 times"},
		{"form: bool 1", asForm, "credential=youtube&operation=videos.list&use_reserve=1", 400, "use_reserve must be true or false"},
		{"form: unknown field", asForm, "credential=youtube&operation=videos.list&x=1", 400, `unknown field "x"`},
		{"form: bad escape", asForm, "credential=youtube&operation=videos.list%zz", 400, "malformed form"},
		{"form: not UTF-8", asForm, "credential=youtube&operation=videos.list&request_id=%ff", 400, "UTF-8"},
		{"form: JSON sent by curl -d", asForm, `{"credential":"youtube","operation":"videos.list"}`, 400, "the body looks like JSON"},
		{"form: fields without end", asForm, manyFields(), 400, "more than 32 fields"},

		{"no content type", "X: y", `{"credential":"youtube","operation":"videos.list"}`, 400, "content type"},
		{"plain text", "Content-Type: text/plain", `{"credential":"youtube","operation":"videos.list"}`, 400, "content type"},
		{"JSON in Latin 1", asJSON + "; charset=iso-8859-1", `{"credential":"youtube","operation":"videos.list"}`, 400, "content type"},
		{"a byte too much", asForm, "credential=" + huge[:64<<10-10], 413, "more than 65536 bytes"},
		{"a megabyte", asJSON, huge, 413, "more than 65536 bytes"},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := open(t, nil)
			wire := h.dial()
			got := wire.call("POST", "/v1/acquire", row.body, row.kind)
			if got.status != row.status || got.text("reason") != "bad_request" || got.text("status") != fmt.Sprint(row.status) {
				t.Errorf("got %d %s, want %d bad_request", got.status, got.body, row.status)
			}
			if !strings.Contains(got.text("detail"), row.says) {
				t.Errorf("it says %q, want %q in it", got.text("detail"), row.says)
			}
			if used := h.used("youtube"); used != 0 {
				t.Errorf("used %d, want 0", used)
			}
			next := wire.call("POST", "/v1/acquire", "credential=youtube&operation=videos.list", asForm)
			if next.status != 200 {
				t.Errorf("the next request of the connection: %d %s", next.status, next.body)
			}
		})
	}
}

func withCount(count string) string {
	return `{"credential":"youtube","operation":"videos.list","count":` + count + `}`
}

func manyFields() string {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "f%d=1&", i)
	}
	return b.String()
}

func TestChunkedBodyIsBoundedToo(t *testing.T) {
	h := open(t, nil)
	wire := h.dial()
	chunk := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", 1<<20, strings.Repeat("x", 1<<20))
	got := wire.raw("POST", "/v1/acquire", chunk, asJSON, "Transfer-Encoding: chunked")
	if got.status != 413 {
		t.Errorf("got %d %s, want 413", got.status, got.body)
	}
	if next := wire.call("GET", "/healthz", ""); next.status != 200 {
		t.Errorf("the next request of the connection: %d", next.status)
	}
}

func TestFieldsBelongInTheBody(t *testing.T) {
	h := open(t, nil)
	got := h.dial().call("POST", "/v1/acquire?credential=youtube&operation=videos.list", "")
	if got.status != 400 || !strings.Contains(got.text("detail"), "body") {
		t.Errorf("got %d %s, want 400", got.status, got.body)
	}
}
