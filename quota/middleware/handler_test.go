package middleware

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// A limiter answers what its test says, and keeps what it was asked.
type limiter struct {
	answer api.Decision
	err    error
	frozen bool // it answers nothing

	mu    sync.Mutex // guards asked
	asked []api.ClientRequest
}

func (l *limiter) AcquireClient(ctx context.Context, _ string, r api.ClientRequest) (api.Decision, error) {
	l.mu.Lock()
	l.asked = append(l.asked, r)
	l.mu.Unlock()
	if l.frozen {
		<-ctx.Done()
		return api.Decision{}, api.ErrUnreachable
	}
	return l.answer, l.err
}

// limits are those of the tests: one of them is not enforced.
func limits(left int64) []api.Limit {
	return []api.Limit{
		{Name: "minute", Units: 60, Used: 60 - left, Remaining: left, WindowMs: 60_000},
		{Name: "hour", Units: 100, Used: 100, WindowMs: 3_600_000, Observes: true},
		{Name: "day", Units: 1000, Used: 1000 - 10*left, Remaining: 10 * left, WindowMs: 86_400_000},
	}
}

var (
	grant  = api.Decision{Granted: true, Units: 1, Limits: limits(59)}
	denial = api.Decision{Reason: string(quota.LimitExceeded), Limit: "minute", Requested: 1, RetryAfterMs: 2500,
		Limits: limits(0), Detail: "no room for 192.0.2.1"}
	never  = api.Decision{Reason: string(quota.CostExceedsLimit), Limit: "minute", Requested: 61, Limits: limits(60)}
	outage = api.Decision{Granted: true, Units: 1, Mode: "outage"}
)

// serve has a handler answer one request of a client, without a network.
func serve(h http.Handler, change ...func(*http.Request)) *http.Response {
	r := httptest.NewRequest(http.MethodGet, "/things", nil)
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// hello is what stands behind the middleware.
var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello\n") })

// Each answer of the limiter, as the client has it: if the handler is closed, where that makes a difference, and what
// the log has once of three such answers.
func TestAnswers(t *testing.T) {
	const policies = `"minute";q=60;w=60, "day";q=1000;w=86400`
	for _, row := range []struct {
		name         string
		answer       api.Decision
		err          error
		open, closed int
		state, body  string // RateLimit, and part of the body
		logged       string
	}{
		{"a grant", grant, nil, 200, 200, `"minute";r=59, "day";r=590`, "hello", ""},
		{"a denial", denial, nil, 429, 429, `"minute";r=0;t=3, "day";r=0`, `"status":429,` +
			`"detail":"limit \"minute\" has no room for this request now","reason":"limit_exceeded",`, ""},
		{"what never fits", never, nil, 422, 422, `"minute";r=60, "day";r=600`, `this request costs more than limit \"minute\" ever has`, ""},
		{"without the ledger", outage, nil, 200, 200, "", "hello", "calls are granted without the ledger"},
		{"the ledger is away", api.Decision{}, api.NewProblem(api.LedgerUnavailable, "no Redis"), 503, 503, "", "not known", "ledger_unavailable: no Redis"},
		{"an unknown operation", api.Decision{}, api.NewProblem(quota.UnknownOperation, "no x"), 200, 503, "", "", "unknown_operation"},
		{"unknown clients", api.Decision{}, api.NewProblem(quota.UnknownClients, "no [clients.public]"), 200, 503, "", "", "unknown_clients: no [clients.public]"},
		{"not allowed", api.Decision{}, api.NewProblem(quota.Forbidden, "not you"), 200, 503, "", "", "forbidden"},
		{"a fault of the daemon's", api.Decision{}, api.NewProblem(api.InternalError, "oh"), 200, 503, "", "", "internal_error"},
		{"no daemon", api.Decision{}, api.ErrUnreachable, 200, 503, "", "", ": "},
	} {
		for closed, want := range map[bool]int{false: row.open, true: row.closed} {
			var logged strings.Builder
			h := Handler(&limiter{answer: row.answer, err: row.err}, hello,
				Options{Clients: "public", FailClosed: closed, ErrorLog: log.New(&logged, "", 0)})
			for range 3 {
				got := serve(h)
				body, _ := io.ReadAll(got.Body)
				policy, state := strings.Join(got.Header.Values("RateLimit-Policy"), "; "), strings.Join(got.Header.Values("RateLimit"), "; ")
				if got.StatusCode != want || state != row.state || (state != "") != (policy == policies) || !strings.Contains(string(body), row.body) ||
					(want == 429 || want == 503) != (got.Header.Get("Retry-After") != "") || got.Header.Get("Quotad-Mode") != row.answer.Mode ||
					want >= 400 && got.Header.Get("Content-Type") != "application/problem+json" || strings.Contains(string(body), "192.0.2.1") {
					t.Errorf("%s, closed %v: answered %s, %v, %s", row.name, closed, got.Status, got.Header, body)
				}
			}
			if lines := strings.Count(logged.String(), "\n"); !strings.Contains(logged.String(), row.logged) || lines > 1 || (lines == 1) != (row.logged != "") {
				t.Errorf("%s, closed %v: logged %q, want %q once", row.name, closed, logged.String(), row.logged)
			}
		}
	}
}

// Whatever the handler behind it does with the server's own writer, it does; and an outer handler's fields stay.
func TestHandlers(t *testing.T) {
	o := Options{Clients: "public"}
	flush := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		http.NotFound(w, nil)
	})
	answer := serve(Handler(&limiter{answer: grant}, Handler(&limiter{answer: grant}, flush, o), o))
	if got := answer.Header.Values("RateLimit"); len(got) != 2 {
		t.Errorf("RateLimit is %q, want one of each", got)
	}
}

func TestJitterLengthensOnly(t *testing.T) {
	h := Handler(&limiter{answer: denial}, hello, Options{Clients: "public"})
	least, greatest := int64(1<<30), int64(0)
	for range 100 {
		answer := serve(h)
		var p problem
		if err := json.NewDecoder(answer.Body).Decode(&p); err != nil {
			t.Fatal(err)
		}
		least, greatest = min(least, p.RetryAfterMs), max(greatest, p.RetryAfterMs)
		if got := answer.Header.Get("Retry-After"); got != "3" {
			t.Errorf("Retry-After is %s beside %d ms", got, p.RetryAfterMs)
		}
	}
	if least < 2500 || greatest > 2750 || least == greatest {
		t.Errorf("2500 ms have become %v to %v, want up to a tenth more", least, greatest)
	}
}

// A daemon that does not answer is one line in the log when it stops, and one when it goes on. In between one request
// at a time waits for it.
func TestADaemonThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged strings.Builder
		frozen := &limiter{answer: denial, frozen: true}
		h := Handler(frozen, hello, Options{Clients: "public", ErrorLog: log.New(&logged, "", 0)})
		ask := func(want int, took time.Duration) {
			t.Helper()
			begun := time.Now()
			if got := serve(h); got.StatusCode != want || time.Since(begun) != took {
				t.Errorf("answered %s after %v, want %d after %v", got.Status, time.Since(begun), want, took)
			}
		}
		ask(200, defaultTimeout)
		ask(200, 0)
		time.Sleep(retryAfter - time.Nanosecond)
		ask(200, 0)
		time.Sleep(time.Nanosecond)
		go ask(200, defaultTimeout)
		synctest.Wait()
		ask(200, 0) // while the other one waits
		time.Sleep(defaultTimeout + retryAfter)
		frozen.frozen = false
		ask(429, 0)
		ask(429, 0)
		if got := logged.String(); len(frozen.asked) != 4 || strings.Count(got, "\n") != 2 || !strings.Contains(got, "passed on") || !strings.Contains(got, "answers again") {
			t.Errorf("asked %d times, logged %q", len(frozen.asked), got)
		}
	})
}

// A request whose client has gone is not handled, whatever is done without an answer.
func TestAClientThatHasGone(t *testing.T) {
	handled := false
	h := Handler(&limiter{frozen: true}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled = true }), Options{Clients: "public"})
	gone := func(r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		*r = *r.WithContext(ctx)
	}
	if got := serve(h, gone); got.StatusCode != http.StatusServiceUnavailable || handled {
		t.Errorf("answered %s; handled: %v", got.Status, handled)
	}
}

func TestCost(t *testing.T) {
	l := &limiter{answer: grant}
	h := Handler(l, hello, Options{Clients: "public",
		Cost: func(r *http.Request) (string, int64) { return "list", int64(len(r.URL.Query()["id"])) }})
	serve(h, func(r *http.Request) { r.URL.RawQuery = "id=a&id=b&id=c" })
	if got := serve(h); got.StatusCode != http.StatusBadRequest {
		t.Errorf("0 calls are answered with %s", got.Status)
	}
	if got := l.asked; len(got) != 1 || got[0].Operation != "list" || got[0].Count != 3 {
		t.Errorf("the limiter was asked for %v, want 3 × list", got)
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for name, o := range map[string]Options{
		"no clients": {}, "clients that are no name": {Clients: "a b"},
		"no network":                      {Clients: "public", TrustedProxies: []netip.Prefix{{}}},
		"a network that no address is in": {Clients: "public", TrustedProxies: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: the handler was made", name)
				}
			}()
			Handler(nil, hello, o)
		}()
	}
}
