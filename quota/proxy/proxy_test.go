package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
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
	cut := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	}
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
	t.Run("reset", func(t *testing.T) {
		s := newScene(t, cut, nil)
		if a := s.get("youtube/v3/videos"); a.status != 502 {
			t.Errorf("answered %d %s", a.status, a.body)
		}
		if s.settled(1); s.used() != 1 {
			t.Errorf("%d units are debited, want 1", s.used())
		}
	})
	const refusal = `{"error":{"errors":[{"reason":"rateLimitExceeded"}]}}`
	for _, row := range []struct {
		status  int
		free    []int
		refused bool // it is free
		want    quota.Units
	}{{500, nil, true, 1}, {304, []int{304}, false, 0}, {304, nil, false, 1}, {404, []int{304}, false, 1}, {429, nil, true, 0}, {429, nil, false, 1}, {200, nil, true, 1}} {
		t.Run(fmt.Sprint(row), func(t *testing.T) {
			s := newScene(t, func(w http.ResponseWriter, _ *http.Request) {
				if w.WriteHeader(row.status); row.status == 429 {
					io.WriteString(w, refusal)
				}
			}, func(_ *Config, target *Target) { target.Free, target.RefusedFree = row.free, row.refused })
			if a := s.get("youtube/v3/videos"); a.status != row.status {
				t.Errorf("answered %d %s", a.status, a.body)
			}
			if s.settled(1); s.used() != row.want {
				t.Errorf("%d units are debited, want %d", s.used(), row.want)
			}
		})
	}
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
	if err := s.service.SetCredentials([]*quota.Credential{c}); err != nil {
		t.Fatal(err)
	}
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

// What the upstream answers on its quota is taken in before the client can ask again.
func TestHearsTheUpstream(t *testing.T) {
	const exhausted = `{"error":{"code":403,"errors":[{"domain":"youtube.quota","reason":"quotaExceeded","message":"you have exceeded your quota"}]}}`
	received := 0
	s := newScene(t, func(w http.ResponseWriter, r *http.Request) {
		if received++; r.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("asked for %q", r.Header.Get("Accept-Encoding"))
		}
		w.WriteHeader(403)
		io.WriteString(w, exhausted)
	}, nil)
	a := s.do("GET", s.base+"youtube/v3/videos", http.Header{"Accept-Encoding": {"gzip, br"}}, nil)
	if a.status != 403 || a.body != exhausted {
		t.Errorf("answered %d %q", a.status, a.body)
	}
	again := s.get("youtube/v3/videos")
	if again.status != 403 || !strings.Contains(again.body, `"reason":"limit_closed"`) || again.header.Get("Retry-After") != "" || received != 1 {
		t.Errorf("answered %d %q, after %d calls", again.status, again.body, received)
	}
	if observed := s.tokens.Pass(runToken).Observed; len(observed) != 1 || observed[0] != "daily" {
		t.Errorf("the pass was told of %q", observed)
	}
}

// Where a file says where an answer has its reason, an answer refuses whatever its status is.
func TestRefusedWith200(t *testing.T) {
	reason, err := upstream.ParsePointer("/status")
	if err != nil {
		t.Fatal(err)
	}
	for status, want := range map[string]int{"OVER_QUERY_LIMIT": 1, "ZERO_RESULTS": 2} {
		received := 0
		s := newScene(t, func(w http.ResponseWriter, _ *http.Request) {
			received++
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"status":"`+status+`"}`)
		}, func(c *Config, target *Target) {
			target.ReadsAll = true
			c.Observer = upstream.NewObserver(c.Service, map[string]upstream.Profile{"youtube": {Format: upstream.Format{
				Reason: []upstream.Pointer{reason}, Reasons: upstream.Reasons{"OVER_QUERY_LIMIT": upstream.Day},
			}}}, func(upstream.Outcome) {})
		})
		for range 2 {
			s.get("youtube/v3/videos")
		}
		if received != want {
			t.Errorf("%s: the upstream got %d calls, want %d", status, received, want)
		}
	}
}

// The key is overwritten in errors that repeat it, however short it is, in the header and the body; the rest of a long
// error, and one that is cut, are passed on as they come.
func TestOverwritesTheKeyInErrors(t *testing.T) {
	for _, key := range []string{"DEMO_KEY", realKey} {
		long := strings.Repeat("x", upstream.MaxBody) + " end"
		s := newScene(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Key", "it is "+key)
			if r.URL.Query().Get("good") != "" {
				io.WriteString(w, key)
				return
			}
			w.WriteHeader(400)
			io.WriteString(w, "bad key "+key+" "+long)
		}, func(_ *Config, target *Target) { target.Key = FixedKey(key) })
		stars := strings.Repeat("*", len(key))
		if a := s.get("youtube/v3/videos"); a.body != "bad key "+stars+" "+long || a.header.Get("X-Key") != "it is "+stars {
			t.Errorf("answered %v %.60q, %d bytes", a.header, a.body, len(a.body))
		}
		if a := s.get("youtube/v3/videos?good=1"); a.body != key {
			t.Errorf("a good answer: %q, want it as it came", a.body)
		}
	}
}

// A client's own key comes back to it, and nothing that quotad keeps holds it.
func TestAClientsOwnKey(t *testing.T) {
	var says []string
	const own = "sk-own-0123456789"
	s := newScene(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(401)
		io.WriteString(w, `{"message":"Incorrect API key: `+own+`"}`)
	}, func(c *Config, target *Target) {
		target.Key = nil
		c.Observer = upstream.NewObserver(c.Service, nil, func(out upstream.Outcome) { says = append(says, out.Says) })
	})
	for query, header := range map[string]http.Header{
		"": {authorization: {"Bearer " + own}}, "?access_token=" + own: nil,
	} {
		says = nil
		a := s.do("GET", s.base+"youtube/v3/videos"+query, header, nil)
		if !strings.Contains(a.body, own) || len(says) != 1 || strings.Contains(says[0], own) {
			t.Errorf("answered %q, told of %q", a.body, says)
		}
	}
}

// An upstream that answers 5xx serves no pass, and the pass learns why.
func TestAnswersOfTrouble(t *testing.T) {
	s := newScene(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, nil)
	s.get("youtube/v3/videos")
	pass, done := s.tokens.Pass(runToken), s.settled(1)[0]
	if len(pass.Refused) != 1 || pass.Refused[0] != "youtube answers 500" || len(pass.Observed) != 0 || done.Silent != pass.Refused[0] {
		t.Errorf("told of %+v; the pass: %+v", done, pass)
	}
}

// Addresses of the upstream lead through the proxy, others stay.
func TestKeepsClientsInside(t *testing.T) {
	var s *scene
	s = newScene(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", s.upstream.URL+"/base/files/3")
		w.Header().Set("Content-Location", s.upstream.URL+"/base/files/4")
		w.Header().Set("Link", "<"+s.upstream.URL+"/base/files/2?page=2>; rel=\"next\"")
		w.Header().Add("Link", "<https://other.example/there>, <"+s.upstream.URL+"/basement/1>")
		w.WriteHeader(302)
	}, func(_ *Config, target *Target) { target.Upstream.Path = "/base" })
	a := s.get("files/1")
	for name, want := range map[string]string{
		"Location": s.base + "files/3", "Content-Location": s.base + "files/4",
		"Link": "<" + s.base + "files/2?page=2>; rel=\"next\" <https://other.example/there>, <" + s.upstream.URL + "/basement/1>",
	} {
		if got := strings.Join(a.header[name], " "); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
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
		{"a day", 0, time.Hour, time.Minute, Problem, 429, http.Header{"Retry-After": {""}, "Content-Type": {"application/problem+json"}}, []string{`"reason":"limit_exceeded"`, `"retry_at":"2026-11-22T09:00:00Z","type"`, outlived}},
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
