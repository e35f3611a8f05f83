package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"quotad/quota/api"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

func TestGrant(t *testing.T) {
	h := servertest.Start(t, nil)
	for _, row := range []struct{ name, kind, body string }{
		{"JSON", servertest.JSON, `{"credential":"youtube","operation":"search.list","count":2}`},
		{"JSON in UTF-8", servertest.JSON + "; charset=utf-8", `{"credential":"youtube","operation":"search.list","count":2}`},
		{"form, as curl sends it", servertest.Form, "credential=youtube&operation=search.list&count=2"},
	} {
		t.Run(row.name, func(t *testing.T) {
			before := int64(h.Used("youtube"))
			got := h.Dial().Call("POST", "/v1/acquire", row.body, row.kind)
			if got.Status != 200 || got.Fields["granted"] != true || got.Text("units") != "200" {
				t.Fatalf("got %d %s, want a grant of 200 units", got.Status, got.Body)
			}
			if got.Header.Get("Content-Type") != "application/json" {
				t.Errorf("content type %q", got.Header.Get("Content-Type"))
			}
			// 4,000 for searches are nearer than 9,500 for everything.
			if want := fmt.Sprint(4000 - before - 200); got.Text("remaining") != want {
				t.Errorf("remaining %s, want %s", got.Text("remaining"), want)
			}
			limits := got.Fields["limits"].([]any)
			daily := limits[0].(map[string]any)
			if len(limits) != 2 || daily["name"] != "daily" || daily["window"] != "24h" || daily["used"] != float64(before+200) {
				t.Errorf("limits %v", limits)
			}
			if !strings.HasPrefix(got.Text("grant_id"), "youtube:") {
				t.Errorf("grant id %q", got.Text("grant_id"))
			}
		})
	}
}

func TestAbsentCountIsOne(t *testing.T) {
	h := servertest.Start(t, nil)
	if got := h.Acquire("", api.AcquireRequest{Credential: "youtube", Operation: "videos.list"}); got.Units != 1 {
		t.Errorf("units %d, want 1", got.Units)
	}
}

func TestTheOnlyCredentialNeedsNoName(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	h := servertest.Start(t, func(c *server.Config) {
		c.Service = servertest.NewService(t, ledgertest.NewModel(clock.Now), servertest.YouTube())
	})
	if d := h.Acquire("", api.AcquireRequest{Operation: "videos.list"}); !d.Granted || !strings.HasPrefix(d.GrantID, "youtube:") {
		t.Errorf("got %+v, want a grant of youtube's", d)
	}
	h = servertest.Start(t, nil)
	d := h.Acquire("", api.AcquireRequest{Operation: "videos.list"})
	if d.Status != 400 || d.Detail != "credential is missing, and several are configured: youtube, other" || d.Hint != "name one of them" {
		t.Errorf("got %+v, want a refusal that lists both", d)
	}
	h = servertest.Start(t, func(c *server.Config) { c.Service = servertest.NewService(t, ledgertest.NewModel(clock.Now)) })
	if d := h.Acquire("", api.AcquireRequest{Operation: "videos.list"}); d.Status != 400 || d.Detail != "credential is missing, and none is configured" {
		t.Errorf("got %+v, want a refusal", d)
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

func TestGrantedAtRetryAfterAndNotBefore(t *testing.T) {
	h := servertest.Start(t, nil)
	// Each asks under an id of its own: the ledger's clock runs ahead of the one by which refusals are remembered.
	ask := func(id string) api.Decision {
		return h.Acquire("", api.AcquireRequest{Credential: "other", Operation: "get", RequestID: id})
	}
	ask("1")
	h.Clock.Add(250 * time.Millisecond)
	ask("2")
	d := ask("3")
	if d.RetryAfterMs != 59_750 || d.Status != 429 {
		t.Fatalf("decision %+v, want 59,750 ms to wait", d)
	}
	h.Clock.Add(time.Duration(d.RetryAfterMs-1) * time.Millisecond)
	last := h.Dial().Call("POST", "/v1/acquire", "credential=other&operation=get&request_id=4", servertest.Form)
	if last.Status != 429 || last.Header.Get("Retry-After") != "1" {
		t.Errorf("a millisecond early: %d, Retry-After %s, want 429 and 1", last.Status, last.Header.Get("Retry-After"))
	}
	h.Clock.Add(time.Millisecond)
	if d := ask("5"); !d.Granted {
		t.Errorf("in time: %+v, want a grant", d)
	}
}

func manyFields() string {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "f%d=1&", i)
	}
	return b.String()
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

// With headers, what is left stands in the fields of a grant, too.
func TestHeadersOfAGrant(t *testing.T) {
	conn := servertest.Start(t, nil).Dial()
	const search = "credential=youtube&operation=search.list"
	got := conn.Call("POST", "/v1/acquire", search+"&count=30&headers=true", servertest.Form)
	policy, left := got.Header.Get("RateLimit-Policy"), got.Header.Get("RateLimit")
	if got.Status != 200 || left != `"daily";r=6500, "search";r=1000` || got.Header.Get("Retry-After") != "" ||
		policy != `"daily";q=9500;w=86400, "search";q=4000;w=86400` {
		t.Errorf("got %d %v, want a grant and what is left", got.Status, got.Header)
	}
	got = conn.Call("POST", "/v1/acquire", search, servertest.Form)
	if got.Status != 200 || got.Header.Get("RateLimit") != "" {
		t.Errorf("got %d %v, want no field that nobody asked for", got.Status, got.Header)
	}
}
