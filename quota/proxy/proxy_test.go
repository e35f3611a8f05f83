package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
	"quotad/quota/upstream"
)

func TestMetersACall(t *testing.T) {
	var got *http.Request
	var counted quota.Units // when it is sent
	var s *scene
	s = newScene(t, func(w http.ResponseWriter, r *http.Request) {
		got, counted = r.Clone(context.Background()), s.used()
		w.Header().Set("Etag", "abc")
		ok(w, r)
	}, nil)
	a := s.get("youtube/v3/search?part=snippet&q=a%20b&key=dummy&maxResults=50")
	if a.status != 200 || a.body != `{"items":[]}` || a.header.Get("Etag") != "abc" {
		t.Errorf("answered %d %v %q", a.status, a.header, a.body)
	}
	if got.URL.RequestURI() != "/youtube/v3/search?part=snippet&q=a%20b&maxResults=50" {
		t.Errorf("sent %s", got.URL.RequestURI())
	}
	if "http://"+got.Host != s.upstream.URL || got.Header.Get(apiKeyHeader) != realKey {
		t.Errorf("sent to %s with %v", got.Host, got.Header)
	}
	for name, values := range got.Header {
		if strings.Contains(strings.Join(values, " "), runToken) || strings.HasPrefix(name, "X-Forwarded") {
			t.Errorf("sent %s: %q", name, values)
		}
	}
	want := Finished{Credential: "youtube", Operation: "search.list", Caller: s.tokens.Pass(runToken).Bearer.Caller, Status: 200, Sent: 1}
	done := s.settled(1)[0]
	if done.Took = 0; done != want {
		t.Errorf("told of %+v, want %+v", done, want)
	}
	if s.used() != 100 || counted != 100 {
		t.Errorf("%d units are debited, %d of them before it was sent, want 100", s.used(), counted)
	}
	if address := s.proxy.AddressFor("other", runToken); address != "" {
		t.Errorf("a credential that is not proxied has the address %s", address)
	}
	if grant := s.tokens.Pass(runToken).Decisions[0].GrantID; s.tokens.Owns(runToken, grant) {
		t.Error("the pass may settle what the proxy has sent")
	}
}

// What was never sent is given back; whatever may have arrived is not.
func TestChargesWhatWasSent(t *testing.T) {
	t.Run("no connection", func(t *testing.T) {
		s := newScene(t, ok, nil)
		s.upstream.Close()
		if a := s.get("youtube/v3/videos"); a.status != 502 || !strings.Contains(a.body, "backendError") {
			t.Errorf("answered %d %s", a.status, a.body)
		}
		if done := s.settled(1)[0]; s.used() != 0 || done.Sent != 0 || done.Err == nil {
			t.Errorf("%d units are debited of %+v", s.used(), done)
		}
		want := "no answer from " + strings.TrimPrefix(s.upstream.URL, "http://") + ": connection refused"
		if refused := s.tokens.Pass(runToken).Refused; len(refused) != 1 || refused[0] != want {
			t.Errorf("refused of the pass: %q, want %q", refused, want)
		}
		if settled := s.tokens.Pass(runToken).Settled; len(settled) != 1 || !strings.HasSuffix(settled[0], "=0") {
			t.Errorf("the pass was told of %q", settled)
		}
	})
	t.Run("no connection, and no release", func(t *testing.T) {
		s := newScene(t, ok, nil)
		s.upstream.Close()
		s.full.Store(true)
		s.get("youtube/v3/videos")
		if s.settled(1); s.used() != 1 || len(s.tokens.Pass(runToken).Settled) > 0 {
			t.Errorf("%d units are debited, the pass was told of %q", s.used(), s.tokens.Pass(runToken).Settled)
		}
	})
}

// The transport sends a GET again where a connection that it kept has ended: each sending is counted in each limit.
func TestCountsEachSending(t *testing.T) {
	var received atomic.Int64
	s := newScene(t, func(w http.ResponseWriter, r *http.Request) {
		if received.Add(1) == 2 { // of a connection that was used before
			conn, _, _ := w.(http.Hijacker).Hijack()
			conn.Close()
			return
		}
		ok(w, r)
	}, nil)
	c := servertest.YouTube()
	c.Limits = append(c.Limits, quota.Limit{Name: "calls", Units: 100, Window: quota.Sliding(time.Hour)})
	c.Operations["videos.list"] = quota.Cost{Per: map[string]quota.Units{"daily": 5, "calls": 1}}
	servertest.Must(t, s.service.SetCredentials([]*quota.Credential{c}))
	for range 2 {
		if a := s.get("youtube/v3/videos"); a.status != 200 {
			t.Errorf("answered %d %s", a.status, a.body)
		}
	}
	s.settled(2)
	usage, err := s.service.Usage(t.Context(), "youtube")
	calls := usage.Limits[len(usage.Limits)-1]
	if got := quota.Units(received.Load()); err != nil || got != 3 || s.used() != 5*got || calls.Used != got {
		t.Errorf("the upstream got %d requests, %d units and %d calls are debited: %v", got, s.used(), calls.Used, err)
	}
}

// What an answer says is read before the client can ask again. It is charged for by the upstream's rule, and passed on as
// it is, but for the key in errors, however short it is, and for addresses that lead past the proxy.
func TestAnswers(t *testing.T) {
	const (
		rate      = `{"error":{"errors":[{"reason":"rateLimitExceeded"}]}}`
		exhausted = `{"error":{"code":403,"errors":[{"domain":"youtube.quota","reason":"quotaExceeded","message":"you have exceeded your quota"}]}}`
		own       = "sk-own-0123456789"
		incorrect = `{"message":"Incorrect API key: ` + own + `"}`
		spellings = "Se+cret/Key== ?api_key=Se%2Bcret%2FKey%3D%3D /Se+cret%2FKey==/"
		hidden    = "************* ?api_key=********************* /***************/"
	)
	long := strings.Repeat("x", upstream.MaxBody) + " end"
	refusedFree := func(target *Target) { target.RefusedFree = true }
	notModified := func(target *Target) { target.Free = []int{304} }
	reads := func(target *Target) { target.ReadsAll = true }
	demo := func(target *Target) { target.Key = FixedKey("DEMO_KEY") }
	keyless := func(target *Target) { target.Key = nil }
	inQuery := func(target *Target) { target.Key, target.KeyParameter = FixedKey("Se+cret/Key=="), "api_key" }
	for _, row := range []struct {
		name    string
		edit    func(*Target)
		query   string
		header  http.Header // of the request
		status  int
		lines   []string // of the answer's header; UPSTREAM is the upstream's address
		body    string
		want    string      // body; empty: as it came
		has     []string    // the answer's header, with BASE for the address of the pass
		units   quota.Units // for one call
		closes  bool        // a limit, so that a second call is not sent
		trouble string
	}{
		{name: "trouble", edit: refusedFree, status: 500, units: 1, trouble: "youtube answers 500"},
		{name: "not modified, free", edit: notModified, status: 304},
		{name: "not modified", status: 304, units: 1},
		{name: "not found", edit: notModified, status: 404, units: 1},
		{name: "refused, free", edit: refusedFree, status: 429, body: rate, closes: true},
		{name: "refused", status: 429, body: rate, units: 1, closes: true},
		{name: "good, where what is refused is free", edit: refusedFree, status: 200, units: 1},
		{name: "exhausted", status: 403, body: exhausted, units: 1, closes: true},
		{name: "exhausted with 200", edit: reads, status: 200, lines: []string{"Content-Type: application/json"},
			body: `{"status":"OVER_QUERY_LIMIT"}`, units: 1, closes: true},
		{name: "nothing found with 200", edit: reads, status: 200, lines: []string{"Content-Type: application/json"},
			body: `{"status":"ZERO_RESULTS"}`, units: 1},
		{name: "the key", status: 400, lines: []string{"X-Key: it is " + realKey}, body: "bad key " + realKey + " " + long,
			want: "bad key ***************** " + long, has: []string{"X-Key: it is *****************"}, units: 1},
		{name: "a short key", edit: demo, status: 400, body: "bad key DEMO_KEY " + long, want: "bad key ******** " + long, units: 1},
		{name: "a key in an address", edit: inQuery, status: 404, lines: []string{"X-Asked: " + spellings}, body: "no " + spellings,
			want: "no " + hidden, has: []string{"X-Asked: " + hidden}, units: 1},
		{name: "a key in a redirect", edit: inQuery, status: 302, lines: []string{"X-To: " + spellings}, has: []string{"X-To: " + hidden}, units: 1},
		{name: "the key in a good answer", edit: demo, status: 200, body: "DEMO_KEY", units: 1},
		{name: "a client's own key", edit: keyless, header: http.Header{authorization: {"Bearer " + own}},
			status: 401, body: incorrect, units: 1},
		{name: "a client's own key in the query", edit: keyless, query: "?access_token=" + own, status: 401, body: incorrect, units: 1},
		{name: "addresses", edit: func(target *Target) { target.Upstream.Path = "/base" }, status: 302, units: 1,
			lines: []string{"Location: UPSTREAM/base/files/3", "Content-Location: UPSTREAM/base/files/4",
				"Link: <UPSTREAM/base/files/2?page=2>; rel=\"next\"", "Link: <https://other.example/there>, <UPSTREAM/basement/1>"},
			has: []string{"Location: BASEfiles/3", "Content-Location: BASEfiles/4",
				"Link: <BASEfiles/2?page=2>; rel=\"next\" <https://other.example/there>, <UPSTREAM/basement/1>"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var s *scene
			sent, says := 0, []string(nil)
			s = newScene(t, func(w http.ResponseWriter, r *http.Request) {
				if sent++; r.Header.Get("Accept-Encoding") != "identity" {
					t.Errorf("asked for %q", r.Header.Get("Accept-Encoding"))
				}
				for _, line := range row.lines {
					name, value, _ := strings.Cut(line, ": ")
					w.Header().Add(name, strings.ReplaceAll(value, "UPSTREAM", s.upstream.URL))
				}
				w.WriteHeader(row.status)
				io.WriteString(w, row.body)
			}, func(c *Config, target *Target) {
				if row.edit != nil {
					row.edit(target)
				}
				reason, _ := upstream.ParsePointer("/status")
				format := upstream.Format{Reason: []upstream.Pointer{reason}, Reasons: upstream.Reasons{"OVER_QUERY_LIMIT": upstream.Day}}
				c.Observer = upstream.NewObserver(c.Service, map[string]upstream.Profile{"youtube": {Format: format}},
					func(out upstream.Outcome) { says = append(says, out.Says) })
			})
			header := http.Header{"Accept-Encoding": {"gzip, br"}}
			maps.Copy(header, row.header)
			a := s.do("GET", s.base+"youtube/v3/videos"+row.query, header, nil)
			if a.status != row.status || a.body != cmp.Or(row.want, row.body) {
				t.Errorf("answered %d %.99q, %d bytes", a.status, a.body, len(a.body))
			}
			for _, line := range row.has {
				name, want, _ := strings.Cut(line, ": ")
				want = strings.NewReplacer("BASE", s.base, "UPSTREAM", s.upstream.URL).Replace(want)
				if got := strings.Join(a.header[name], " "); got != want {
					t.Errorf("%s: %s, want %s", name, got, want)
				}
			}
			calls := 2
			if row.closes {
				calls = 1
			}
			s.do("GET", s.base+"youtube/v3/videos"+row.query, header, nil)
			pass, done := s.tokens.Pass(runToken), s.settled(2)[0]
			if s.used() != row.units*quota.Units(calls) || sent != calls || row.closes != slices.Equal(pass.Observed, []string{"daily"}) {
				t.Errorf("%d units of %d calls are debited; the pass was told of %q", s.used(), sent, pass.Observed)
			}
			if done.Silent != row.trouble || slices.Contains(pass.Refused, row.trouble) != (row.trouble != "") {
				t.Errorf("told of %+v; the pass: %q", done, pass.Refused)
			}
			if strings.Contains(strings.Join(says, ""), own) {
				t.Errorf("quotad keeps %q", says)
			}
		})
	}
}

// What the transport says of a call holds neither the real key nor the client's own, also where they are escaped.
func TestAnErrorHoldsNoKey(t *testing.T) {
	x := &exchange{call: &call{query: "token=My%2FOwn%2FKey"}, key: "Se+cret/Key=="}
	err := errors.New("Get /?token=My%2FOwn%2FKey&key=Se%2Bcret%2FKey%3D%3D: Se+cret/Key== My/Own/Key /Se+cret%2FKey==")
	const want = "Get /?token=**************&key=*********************: ************* ********** /***************"
	if got := x.withoutKey(err); got.Error() != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := errors.New("EOF"); x.withoutKey(err) != err {
		t.Error("an error without a key is another one")
	}
}

// A key is overwritten in whatever way an answer spells it.
func TestHide(t *testing.T) {
	for _, spelled := range []string{
		"a+/&=é", "A+/&=É", "a%2B%2F%26%3D%C3%A9", "a%2b%2f%26%3d%c3%a9", "a+%2F&=%C3%A9", // in an address
		`a+\/&=é`, `a\u002b\u002F\u0026=\u00e9`, // in JSON
		"a+/&amp;=é", "a&#43;/&#38;=&#233;", "a&#x2B;/&#x26;=&#xe9;", // in HTML
	} {
		if got := Hide("("+spelled+")", "a+/&=é"); got != "("+strings.Repeat("*", len(spelled))+")" {
			t.Errorf("%s became %s", spelled, got)
		}
	}
	if got := Hide("a+/&=e a b", "a+/&=é", ""); got != "a+/&=e a b" {
		t.Errorf("what is no key became %s", got)
	}
	if got := Hide("of keys", "", "key", "keys"); got != "of ****" {
		t.Errorf("the longer of two keys became %s", got)
	}
	if got := Hide("of one+two three%20four", "one two", "three four"); got != "of ******* ************" {
		t.Errorf("keys with a space became %s", got)
	}
}

// A denial is worded as the upstream's clients understand it.
func TestSpeaksTheDialect(t *testing.T) {
	const (
		outlived = "do not wait: the pass is ended before that, at 2026-11-21T"
		daylong  = 25 * time.Hour
		almost   = 24*time.Hour - 200*time.Millisecond
	)
	for _, c := range []struct {
		name    string
		after   time.Duration // all is spent, which returns in 24 hours
		timeout time.Duration // of the pass
		maxWait time.Duration
		dialect Dialect
		status  int
		header  http.Header
		body    []string
	}{
		{"a day", 0, time.Hour, time.Minute, Google, 403, http.Header{"Retry-After": {""}}, []string{outlived, `"code":403`, `"domain":"youtube.quota","reason":"quotaExceeded"`, `"quotad":{"reason":"limit_exceeded","limit":"search"`, `"retry_at":"2026-11-22T09:00:00Z"`, "; it fits at 2026-11-22T09:00:00Z"}},
		{"a day", 0, time.Hour, time.Minute, Problem, 429, http.Header{"Retry-After": {""}, "Content-Type": {"application/problem+json"}}, []string{`"reason":"limit_exceeded"`, `"retry_at":"2026-11-22T09:00:00Z","status"`, outlived}},
		{"within the pass", 0, daylong, 0, Google, 429, http.Header{"Retry-After": {"86400"}}, []string{`"code":429`, `"domain":"usageLimits","reason":"rateLimitExceeded"`, `"reason":"limit_exceeded"`}},
		{"within the pass", 0, daylong, 0, Problem, 429, http.Header{"Retry-After": {"86400"}}, []string{`"retry_after_ms":86400000`}},
		{"a part of a second", time.Second / 2, daylong, 0, Google, 429, http.Header{"Retry-After": {"86400"}}, nil},
		{"the last part of a second", almost, daylong, 0, Google, 429, http.Header{"Retry-After": {"1"}}, nil},
		{"within max_wait", 0, time.Hour, daylong, Google, 429, http.Header{"Retry-After": {""}}, []string{`"reason":"rateLimitExceeded"`, outlived}},
	} {
		t.Run(string(c.dialect)+", "+c.name, func(t *testing.T) {
			s := newScene(t, ok, func(_ *Config, target *Target) { target.Refusals = c.dialect })
			s.tokens.Ends(runToken, s.clock.Now().Add(c.timeout), c.maxWait)
			for range 40 {
				s.get("youtube/v3/search")
			}
			s.clock.Add(c.after)
			a := s.get("youtube/v3/search")
			if a.status != c.status {
				t.Errorf("answered %d, want %d", a.status, c.status)
			}
			for name, want := range c.header {
				if got := a.header.Get(name); got != want[0] {
					t.Errorf("%s: %q, want %q", name, got, want[0])
				}
			}
			for _, want := range c.body {
				if !strings.Contains(a.body, want) {
					t.Errorf("answered %s, want %s", a.body, want)
				}
			}
			if done := s.settled(41)[40]; done.Refused != quota.LimitExceeded || done.Sent != 0 {
				t.Errorf("told of %+v", done)
			}
			if denied := s.tokens.Pass(runToken).Decisions[40]; !denied.Denied() {
				t.Errorf("the pass was told of %+v", denied)
			}
		})
	}
}

// A ledger that cannot decide is nobody's exhaustion.
func TestLedgerAway(t *testing.T) {
	for dialect, want := range map[Dialect]string{Google: "backendError", Problem: "ledger_unavailable"} {
		service := servertest.NewService(t, away{}, servertest.YouTube())
		s := newScene(t, ok, func(c *Config, target *Target) { c.Service, target.Refusals = service, dialect })
		if a := s.get("youtube/v3/videos"); a.status != 503 || a.header.Get("Retry-After") != "1" || !strings.Contains(a.body, want) {
			t.Errorf("%s: answered %d %v %s", dialect, a.status, a.header, a.body)
		}
	}
}

// away is a ledger that is not there.
type away struct{ quota.Ledger }

func (away) Acquire(context.Context, *quota.Credential, quota.Ask) (quota.Decision, error) {
	return quota.Decision{}, fmt.Errorf("%w: it is away", quota.ErrUnavailable)
}

var _ server.Tokens = (*servertest.Tokens)(nil)
