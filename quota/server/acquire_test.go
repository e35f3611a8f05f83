package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"quotad/quota/api"
	"quotad/quota/server/servertest"
)

// A grant says what is left of each limit.
func TestGrant(t *testing.T) {
	conn := servertest.Start(t, nil).Dial()
	const search = "credential=youtube&operation=search.list"
	got := conn.Call("POST", "/v1/acquire", search+"&count=30", servertest.Form)
	if got.Status != 200 || got.Text("granted") != "true" || got.Text("units") != "3000" || !strings.HasPrefix(got.Text("grant_id"), "youtube:") {
		t.Fatalf("got %d %s, want a grant of 3000 units", got.Status, got.Body)
	}
	limits := got.Fields["limits"].([]any)
	daily := limits[0].(map[string]any)
	if len(limits) != 2 || daily["name"] != "daily" || daily["window"] != "24h" || daily["used"] != 3000.0 {
		t.Errorf("limits %v", limits)
	}
	// 4,000 for searches are nearer than 9,500 for everything.
	answers(t, got, map[string]string{"remaining": "1000"}, map[string]string{
		"Content-Type": "application/json", "RateLimit-Policy": "", "RateLimit": "", "Retry-After": "",
	})
	got = conn.Call("POST", "/v1/acquire", search, servertest.Form)
	if got.Text("units") != "100" {
		t.Errorf("got %s, want one call", got.Body)
	}
}

// answers fails unless members and headers of an answer have these values.
func answers(t *testing.T, got servertest.Response, members, headers map[string]string) {
	t.Helper()
	for name, want := range members {
		if got.Text(name) != want {
			t.Errorf("%s is %q, want %q", name, got.Text(name), want)
		}
	}
	for name, want := range headers {
		if value := got.Header.Get(name); value != want {
			t.Errorf("%s: %s, want %s", name, value, want)
		}
	}
}

func TestDenied(t *testing.T) {
	h := servertest.Start(t, nil)
	h.Acquire("", api.AcquireRequest{Credential: "youtube", Operation: "search.list", Count: 39})
	h.Clock.Add(500 * time.Millisecond)
	h.Acquire("", api.AcquireRequest{Credential: "youtube", Operation: "search.list"})

	got := h.Dial().Call("POST", "/v1/acquire", "credential=youtube&operation=search.list", servertest.Form)
	if got.Status != 429 || got.Header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("got %d %v", got.Status, got.Header)
	}
	answers(t, got, map[string]string{
		"type":           "https://iana.org/assignments/http-problem-types#quota-exceeded",
		"title":          "Quota exceeded",
		"status":         "429",
		"granted":        "false",
		"reason":         "limit_exceeded",
		"limit":          "search",
		"requested":      "100",
		"remaining":      "0",
		"retry_after_ms": "8.63995e+07",
		"retry_at":       "2026-11-22T09:00:00Z",
	}, map[string]string{
		"Retry-After":      "86400", // half a second less, rounded up
		"RateLimit-Policy": `"daily";q=9500;w=86400, "search";q=4000;w=86400`,
		"RateLimit":        `"daily";r=5500, "search";r=0;t=86400`,
	})
	if used := h.Used("youtube"); used != 4000 {
		t.Errorf("used %d after a denial, want 4000 as before", used)
	}
}

// A denial that outlasts its pass names no time to wait, and says so. One that ends before it does.
func TestADenialThatOutlastsItsPass(t *testing.T) {
	h := servertest.Start(t, nil)
	h.Tokens.Issue("TOKEN", "trending", "US", "other")
	ask := func() servertest.Response {
		return h.Dial().Call("POST", "/v1/acquire", "operation=get", "Authorization: Bearer TOKEN", servertest.Form)
	}
	ask()
	ask()
	for _, c := range []struct {
		timeout      time.Duration
		header, hint string
	}{{time.Minute - time.Millisecond, "", "do not wait: the pass is ended before that, at 2026-11-21T09:00:59Z"}, {time.Minute, "60", ""}} {
		h.Tokens.Ends("TOKEN", h.Clock.Now().Add(c.timeout), 0)
		got := ask()
		_, ms := got.Fields["retry_after_ms"]
		if got.Status != 429 || got.Header.Get("Retry-After") != c.header || ms != (c.header != "") || got.Text("retry_at") == "" || !strings.Contains(got.Body, c.hint) || strings.Contains(got.Body, "do not wait") != (c.hint != "") {
			t.Errorf("%v: %d, Retry-After %q, %s", c.timeout, got.Status, got.Header.Get("Retry-After"), got.Body)
		}
	}
}

func TestChunkedBodyIsBoundedToo(t *testing.T) {
	h := servertest.Start(t, nil)
	wire := h.Dial()
	chunk := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", 1<<20, strings.Repeat("x", 1<<20))
	got := wire.Raw("POST", "/v1/acquire", chunk, servertest.JSON, "Transfer-Encoding: chunked")
	if got.Status != 413 {
		t.Errorf("got %d %s, want 413", got.Status, got.Body)
	}
	if next := wire.Call("GET", "/healthz", ""); next.Status != 200 {
		t.Errorf("the next request of the connection: %d", next.Status)
	}
}
