package middleware

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// patience ends a test that hangs.
const patience = 3 * time.Minute

func TestGrantedAnswersTellTheLimits(t *testing.T) {
	d := startScripted(t, grant)
	for _, row := range []struct {
		name   string
		answer http.HandlerFunc
		status int
	}{
		{"at once", hello, http.StatusOK},
		{"nothing", func(http.ResponseWriter, *http.Request) {}, http.StatusOK},
		{"not found", http.NotFound, http.StatusNotFound},
		{"an error", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }, http.StatusInternalServerError},
		{"a redirection", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }, http.StatusFound},
		{"no content", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, http.StatusNoContent},
		{"a stream", func(w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			io.WriteString(w, "hello\n")
		}, http.StatusOK},
	} {
		t.Run(row.name, func(t *testing.T) {
			answer := serve(Handler(d.client, row.answer, options(t)))
			if answer.StatusCode != row.status {
				t.Errorf("answered %s", answer.Status)
			}
			checkFields(t, answer.Header, `"minute";q=60;w=60, "day";q=1000;w=86400`, `"minute";r=59, "day";r=590`)
			if got := answer.Header.Get("Retry-After"); got != "" {
				t.Errorf("a grant has Retry-After %s", got)
			}
		})
	}
}

func checkFields(t *testing.T, h http.Header, policy, state string) {
	t.Helper()
	for name, want := range map[string]string{"RateLimit-Policy": policy, "RateLimit": state} {
		if got := strings.Join(h.Values(name), "; "); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// What stands behind the middleware has the ResponseWriter of the server itself.
func TestHandlerHasTheServersWriter(t *testing.T) {
	d := startScripted(t, grant)
	var got http.ResponseWriter
	h := Handler(d.client, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { got = w }), options(t))
	outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.ServeHTTP(w, r); got != w {
			t.Errorf("a %T has become a %T", w, got)
		}
	})
	serve(outer)
}

// A handler inside another one adds its limits to the outer one's.
func TestOneLimitAroundAnother(t *testing.T) {
	d := startScripted(t, grant)
	answer := serve(Handler(d.client, Handler(d.client, hello, options(t)), options(t)))
	if got := answer.Header.Values("RateLimit"); len(got) != 2 {
		t.Errorf("RateLimit is %q, want one of each", got)
	}
}

func TestDenial(t *testing.T) {
	answer := serve(Handler(startScripted(t, denial).client, hello, options(t)))
	checkFields(t, answer.Header, `"minute";q=60;w=60, "day";q=1000;w=86400`, `"minute";r=0;t=3, "day";r=0`)
	checkProblem(t, answer, map[string]any{
		"type": "https://iana.org/assignments/http-problem-types#quota-exceeded", "title": "Quota exceeded", "status": 429.0,
		"detail": `limit "minute" has no room for this request now`, "violated-policies": []any{"minute", "day"}, "retry_after_ms": "soon",
	})
	if got := answer.Header.Get("Retry-After"); got != "3" {
		t.Errorf("Retry-After is %s, want 3", got)
	}
}

// checkProblem holds an answer's whole body against what is wanted of it.
func checkProblem(t *testing.T, answer *http.Response, want map[string]any) {
	t.Helper()
	if got := answer.StatusCode; float64(got) != want["status"] {
		t.Errorf("the status is %d, want %v", got, want["status"])
	}
	if got := answer.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("the content type is %q", got)
	}
	var got map[string]any
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if ms, _ := got["retry_after_ms"].(float64); ms >= 2500 && ms <= 2750 { // at random
		got["retry_after_ms"] = "soon"
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the problem is %v, want %v", got, want)
	}
}

func TestWhatNeverFits(t *testing.T) {
	d := startScripted(t, func(api.ClientRequest) api.Decision {
		return api.Decision{Reason: string(quota.CostExceedsLimit), Limit: "minute", Requested: 61, Limits: limits(60)}
	})
	answer := serve(Handler(d.client, hello, options(t)))
	checkFields(t, answer.Header, `"minute";q=60;w=60, "day";q=1000;w=86400`, `"minute";r=60, "day";r=600`)
	checkProblem(t, answer, map[string]any{"type": "about:blank", "title": "Unprocessable Entity", "status": 422.0,
		"detail": `this request costs more than limit "minute" ever has`})
	if got := answer.Header.Get("Retry-After"); got != "" {
		t.Errorf("Retry-After is %s, of what is refused for ever", got)
	}
}

func TestJitterLengthensOnly(t *testing.T) {
	h := Handler(startScripted(t, denial).client, hello, options(t))
	least, greatest := int64(1<<30), int64(0)
	for range 100 {
		answer := serve(h)
		var p problem
		if err := json.NewDecoder(answer.Body).Decode(&p); err != nil {
			t.Fatal(err)
		}
		least, greatest = min(least, p.RetryAfterMs), max(greatest, p.RetryAfterMs)
		if want := fmt.Sprint((p.RetryAfterMs + 999) / 1000); answer.Header.Get("Retry-After") != want {
			t.Errorf("Retry-After is %s beside %d ms", answer.Header.Get("Retry-After"), p.RetryAfterMs)
		}
	}
	if least < 2500 || greatest > 2750 || least == greatest {
		t.Errorf("2500 ms have become %v to %v, want up to a tenth more", least, greatest)
	}
}

func TestWhoIsAskedFor(t *testing.T) {
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Add(name, value) }
	}
	byUser := ByUser(func(r *http.Request) string { return r.Header.Get("User") })
	long := strings.Repeat("k", 1<<20)
	for _, row := range []struct {
		name     string
		identify []Identify
		change   []func(*http.Request)
		want     string
	}{
		{"nobody is known", nil, nil, "192.0.2.1"},
		{"behind a proxy", nil, []func(*http.Request){header(forwardedFor, "203.0.113.9"), from("10.0.0.1:1")}, "203.0.113.9"},
		{"no key, no user", []Identify{ByHeader("X-API-Key"), byUser}, nil, "192.0.2.1"},
		{"a key", []Identify{ByHeader("X-API-Key"), byUser}, []func(*http.Request){header("X-API-Key", "secret"), header("User", "ann")}, "key:" + digest("secret")},
		{"a user", []Identify{ByHeader("X-API-Key"), byUser}, []func(*http.Request){header("User", "ann")}, "user:ann"},
		{"the first that knows", []Identify{byUser, ByHeader("X-API-Key")}, []func(*http.Request){header("X-API-Key", "secret"), header("User", "ann")}, "user:ann"},
		{"a key of 1 MB", []Identify{ByHeader("X-API-Key")}, []func(*http.Request){header("X-API-Key", long)}, "key:" + digest(long)},
		{"a user of 1 MB", []Identify{byUser}, []func(*http.Request){header("User", long)}, "#" + digest("user:"+long)},
		{"a user that is not UTF-8", []Identify{byUser}, []func(*http.Request){header("User", "\xff\x00")}, "user:\xff\x00"},
		{"one's own", []Identify{func(*http.Request) string { return "tenant-7" }}, nil, "tenant-7"},
		{"one's own that looks like a digest", []Identify{func(*http.Request) string { return "#" + digest("x") }}, nil, "#" + digest("#"+digest("x"))},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := startScripted(t, grant)
			o := options(t)
			o.Identify, o.TrustedProxies = row.identify, proxies
			serve(Handler(d.client, hello, o), row.change...)
			if got := d.asked(); len(got) != 1 || got[0].Subject != row.want {
				t.Errorf("the daemon was asked for %.100v, want %s", got, row.want)
			}
		})
	}
}

func from(peer string) func(*http.Request) {
	return func(r *http.Request) { r.RemoteAddr = peer }
}

func TestCost(t *testing.T) {
	d := startScripted(t, grant)
	o := options(t)
	o.Cost = func(r *http.Request) (string, int64) { return "list", int64(len(r.URL.Query()["id"])) }
	h := Handler(d.client, hello, o)
	path := func(text string) func(*http.Request) {
		return func(r *http.Request) {
			r.URL.Path, r.URL.RawQuery, _ = strings.Cut(text, "?")
		}
	}
	serve(h, path("/things?id=a&id=b&id=c"))
	if got := d.asked(); len(got) != 1 || got[0].Operation != "list" || got[0].Count != 3 {
		t.Errorf("the daemon was asked for %v, want 3 × list", got)
	}
	checkProblem(t, serve(h, path("/things")), map[string]any{"type": "about:blank", "title": "Bad Request", "status": 400.0,
		"detail": "the number of calls of this request cannot be counted"})
	if len(d.asked()) != 1 {
		t.Error("the daemon was asked for 0 calls")
	}
}

// What a client is told where the daemon refuses, by what it says.
func TestRefusalsOfTheDaemon(t *testing.T) {
	for _, row := range []struct {
		name         string
		decide       func(api.ClientRequest) api.Decision
		refusal      *api.Problem
		operation    string
		open, closed int
		logged       string
	}{
		{"one is malformed", refusal(quota.BadRequest), nil, "", 400, 400, ""},
		{"the ledger is away for one", refusal(api.LedgerUnavailable), nil, "", 503, 503, "ledger_unavailable"},
		{"the ledger is away", grant, api.NewProblem(api.LedgerUnavailable, "no Redis"), "", 503, 503, "ledger_unavailable: no Redis"},
		{"an unknown operation", refusal(quota.UnknownOperation), nil, "list", 200, 503, "unknown_operation"},
		{"unknown clients", grant, api.NewProblem(quota.UnknownClients, "no [clients.public]"), "", 200, 503, "unknown_clients: no [clients.public]"},
		{"an older daemon", grant, api.NewProblem(api.NotFound, "no such path"), "", 200, 503, "not_found"},
		{"not allowed", grant, api.NewProblem(quota.Forbidden, "not you"), "", 200, 503, "forbidden"},
		{"too many connections", grant, api.NewProblem(api.TooManyConnections, "256"), "", 200, 503, "too_many_connections"},
		{"a fault of the daemon's", grant, api.NewProblem(api.InternalError, "oh"), "", 200, 503, "internal_error"},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, closed := range []bool{false, true} {
				d := startScripted(t, row.decide)
				d.refuse(row.refusal)
				var logged lines
				o := options(t)
				o.FailClosed, o.ErrorLog = closed, log.New(&logged, "", 0)
				o.Cost = func(*http.Request) (string, int64) { return row.operation, 1 }
				want := row.open
				if closed {
					want = row.closed
				}
				h := Handler(d.client, hello, o)
				for range 3 {
					if got := serve(h); got.StatusCode != want || want == 503 && got.Header.Get("Retry-After") == "" {
						t.Errorf("FailClosed %v: answered %s, %v", closed, got.Status, got.Header)
					}
				}
				if once := strings.Count(logged.String(), row.logged) == 1; row.logged != "" && !once || row.logged == "" && logged.String() != "" {
					t.Errorf("FailClosed %v: logged %q, want %q once", closed, logged.String(), row.logged)
				}
			}
		})
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for _, row := range []struct {
		name string
		o    Options
	}{
		{"no clients", Options{}},
		{"clients that are no name", Options{Clients: "a b"}},
		{"no network", Options{Clients: "public", TrustedProxies: []netip.Prefix{{}}}},
		{"a network that no address is in", Options{Clients: "public", TrustedProxies: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("the handler was made")
				}
			}()
			Handler(nil, hello, row.o)
		})
	}
}
