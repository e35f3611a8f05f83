package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"quotad/quota"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
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
	if grant := s.tokens.Pass(runToken).Decisions[0].GrantID; s.tokens.Owns(runToken, grant) {
		t.Error("the pass may settle what the proxy has sent")
	}
}

// The run token is accepted wherever clients put a key, and the real key alone is sent.
func TestTakesTheTokenAsKey(t *testing.T) {
	var got atomic.Pointer[http.Request]
	s := newScene(t, func(w http.ResponseWriter, r *http.Request) { got.Store(r.Clone(context.Background())); ok(w, r) }, nil)
	base := s.proxy.Root() + "/"
	for name, r := range map[string]struct {
		query  string
		header http.Header
	}{
		"parameter":      {"key=" + runToken + "&part=id", http.Header{}},
		"Google's field": {"part=id", http.Header{apiKeyHeader: {runToken}}},
		"bearer":         {"part=id", http.Header{authorization: {"Bearer " + runToken}}},
		"GitHub's word":  {"part=id", http.Header{authorization: {"token " + runToken}}},
	} {
		t.Run(name, func(t *testing.T) {
			if a := s.do("GET", base+"youtube/v3/videos?"+r.query, r.header, nil); a.status != 200 {
				t.Fatalf("answered %d %s", a.status, a.body)
			}
			r := got.Load()
			if r.URL.RawQuery != "part=id" || r.Header.Get(authorization) != "" || len(r.Header[apiKeyHeader]) != 1 || r.Header.Get(apiKeyHeader) != realKey {
				t.Errorf("sent ?%s with %v", r.URL.RawQuery, r.Header)
			}
		})
	}
}

// An OAuth client keeps its own authorization, unless the key is sent there.
func TestLeavesAnotherAuthorization(t *testing.T) {
	got := make(chan http.Header, 1)
	for _, sent := range []struct{ keyHeader, want string }{{apiKeyHeader, "Bearer ya29.mine"}, {authorization, "Bearer " + realKey}} {
		s := newScene(t, func(w http.ResponseWriter, r *http.Request) { got <- r.Header; ok(w, r) },
			func(_ *Config, target *Target) { target.KeyHeader = sent.keyHeader })
		s.do("GET", s.base+"youtube/v3/videos", http.Header{authorization: {"Bearer ya29.mine"}}, nil)
		if h := <-got; h.Get(authorization) != sent.want {
			t.Errorf("sent %v, want %s", h[authorization], sent.want)
		}
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
	t.Run("reset", func(t *testing.T) {
		s := newScene(t, cut, nil)
		if a := s.get("youtube/v3/videos"); a.status != 502 {
			t.Errorf("answered %d %s", a.status, a.body)
		}
		if s.settled(1); s.used() != 1 {
			t.Errorf("%d units are debited, want 1", s.used())
		}
	})
	for status, billing := range map[int]struct {
		rule Billing
		want quota.Units
	}{500: {Always, 1}, 304: {Not304, 0}, 404: {Not304, 1}} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			s := newScene(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) },
				func(_ *Config, target *Target) { target.Billing = billing.rule })
			if a := s.get("youtube/v3/videos"); a.status != status {
				t.Errorf("answered %d %s", a.status, a.body)
			}
			if s.settled(1); s.used() != billing.want {
				t.Errorf("%d units are debited, want %d", s.used(), billing.want)
			}
		})
	}
}

// The transport sends a GET again where a connection that it kept has ended: each sending
// is paid for before it begins, or not made.
func TestPaysForEachSending(t *testing.T) {
	for _, left := range []struct {
		calls quota.Units // that the run may still make
		want  int         // status
	}{{3, 200}, {2, 403}} {
		t.Run(fmt.Sprint(left.calls), func(t *testing.T) {
			var received atomic.Int64
			s := newScene(t, func(w http.ResponseWriter, r *http.Request) {
				if received.Add(1) == 2 { // of a connection that was used before
					conn, _, _ := w.(http.Hijacker).Hijack()
					conn.Close()
					return
				}
				ok(w, r)
			}, nil)
			s.tokens.May(runToken, false, left.calls)
			s.get("youtube/v3/videos")
			if a := s.get("youtube/v3/videos"); a.status != left.want {
				t.Errorf("answered %d %s", a.status, a.body)
			}
			s.settled(2)
			if got, debited := received.Load(), s.used(); debited != quota.Units(got) || debited != left.calls {
				t.Errorf("the upstream got %d requests, %d units are debited, want %d", got, debited, left.calls)
			}
		})
	}
}

// What the upstream answers on its quota is taken in before the client can ask again.
func TestHearsTheUpstream(t *testing.T) {
	const exhausted = `{"error":{"code":403,"errors":[{"domain":"youtube.quota","reason":"quotaExceeded","message":"you have exceeded your quota"}]}}`
	for _, encoding := range []string{"", "gzip"} {
		t.Run(encoding, func(t *testing.T) {
			received := 0
			s := newScene(t, func(w http.ResponseWriter, r *http.Request) {
				received++
				if encoding == "gzip" {
					w.Header().Set("Content-Encoding", "gzip")
					w.WriteHeader(403)
					w.Write(zip(exhausted))
					return
				}
				w.WriteHeader(403)
				io.WriteString(w, exhausted)
			}, nil)
			header := http.Header{"Accept-Encoding": {"gzip, br"}}
			a := s.do("GET", s.base+"youtube/v3/videos", header, nil)
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
		})
	}
}

// A refusal is observed before the client has its last byte, and can ask again.
func TestObservedBeforeTheEnd(t *testing.T) {
	for name, body := range map[string]*observedBody{
		"of a known length": {ReadCloser: io.NopCloser(strings.NewReader("gone")), left: 4},
		"until it ends":     {ReadCloser: io.NopCloser(iotest.DataErrReader(strings.NewReader("gone"))), left: -1},
	} {
		observed := ""
		body.observe = func(text []byte) { observed = string(text) }
		if n, _ := body.Read(make([]byte, 4)); n != 4 || observed != "gone" {
			t.Errorf("%s: read %d bytes, observed %q", name, n, observed)
		}
	}
}

// Addresses of the upstream lead through the proxy, others stay.
func TestKeepsClientsInside(t *testing.T) {
	var s *scene
	s = newScene(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "https://other.example/there")
		w.Header().Set("Link", "<"+s.upstream.URL+"/files/2?page=2>; rel=\"next\"")
		w.WriteHeader(302)
	}, nil)
	a := s.get("files/1")
	if a.status != 302 || a.header.Get("Location") != "https://other.example/there" || a.header.Get("Link") != "<"+s.base+"files/2?page=2>; rel=\"next\"" {
		t.Errorf("answered %d %v", a.status, a.header)
	}
}

// A denial is worded as the upstream's clients understand it.
func TestSpeaksTheDialect(t *testing.T) {
	const (
		outlived = "do not wait: the pass is ended before that, at 2026-11-21T"
		daylong  = 25 * time.Hour
	)
	for _, c := range []struct {
		name    string
		timeout time.Duration // of the pass, which is denied for 24 hours
		maxWait time.Duration
		dialect Dialect
		status  int
		header  http.Header
		body    []string
	}{
		{"a day", time.Hour, time.Minute, Google, 403, http.Header{"Retry-After": {""}}, []string{outlived, `"code":403`, `"domain":"youtube.quota","reason":"quotaExceeded"`, `"quotad":{"reason":"limit_exceeded","limit":"search"`}},
		{"a day", time.Hour, time.Minute, GitHub, 403, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Limit": {"4000"}, "X-Ratelimit-Reset": {"1795338000"}, "Retry-After": {""}}, []string{`"message":"API rate limit exceeded: quotad: `, outlived}},
		{"a day", time.Hour, time.Minute, Problem, 429, http.Header{"Retry-After": {""}, "Content-Type": {"application/problem+json"}}, []string{`"reason":"limit_exceeded"`, `"retry_at":"2026-11-22T09:00:00Z","type"`, outlived}},
		{"within the pass", daylong, 0, Google, 429, http.Header{"Retry-After": {"86400"}}, []string{`"code":429`, `"domain":"usageLimits","reason":"rateLimitExceeded"`, `"reason":"limit_exceeded"`}},
		{"within the pass", daylong, 0, GitHub, 429, http.Header{"X-Ratelimit-Remaining": {""}, "Retry-After": {"86400"}}, []string{`"message":"You have exceeded a secondary rate limit: quotad: `}},
		{"within the pass", daylong, 0, Problem, 429, http.Header{"Retry-After": {"86400"}}, []string{`"retry_after_ms":86400000`}},
		{"within max_wait", time.Hour, daylong, Google, 429, http.Header{"Retry-After": {""}}, []string{`"reason":"rateLimitExceeded"`, outlived}},
		{"within max_wait", time.Hour, daylong, GitHub, 429, http.Header{"Retry-After": {""}}, []string{"secondary rate limit", outlived}},
	} {
		t.Run(string(c.dialect)+", "+c.name, func(t *testing.T) {
			s := newScene(t, ok, func(_ *Config, target *Target) { target.Dialect = c.dialect })
			s.tokens.Ends(runToken, s.clock.Now().Add(c.timeout), c.maxWait)
			for range 40 {
				s.get("youtube/v3/search")
			}
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
	for dialect, want := range map[Dialect]string{Google: "backendError", GitHub: "ledger_unavailable", Problem: "ledger_unavailable"} {
		service := servertest.NewService(t, away{}, servertest.YouTube())
		s := newScene(t, ok, func(c *Config, target *Target) { c.Service, target.Dialect = service, dialect })
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

// A client that goes away takes its call with it, and what was sent stays debited.
func TestClientGoesAway(t *testing.T) {
	received, gone := make(chan struct{}), make(chan struct{})
	s := newScene(t, func(_ http.ResponseWriter, r *http.Request) {
		close(received)
		<-r.Context().Done()
		close(gone)
	}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	r, _ := http.NewRequestWithContext(ctx, "GET", s.base+"youtube/v3/videos", nil)
	go func() { <-received; cancel() }()
	if _, err := s.client.Do(r); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	<-gone
	if done := s.settled(1)[0]; done.Sent != 1 || s.used() != 1 {
		t.Errorf("told of %+v, %d units are debited", done, s.used())
	}
}
