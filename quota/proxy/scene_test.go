package proxy

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/server/servertest"
	"quotad/quota/upstream"
)

const (
	runToken = "LIVETOKENLIVETOKENLIVETOKE"
	realKey  = "AIza-the-real-key"
)

// A scene is a proxy before an upstream that a test writes, on a ledger in memory.
type scene struct {
	testing.TB
	clock    *ledgertest.Clock
	service  *quota.Service
	tokens   *servertest.Tokens
	proxy    *Proxy
	base     string // where the pass calls the upstream, with a slash at its end
	upstream *httptest.Server
	client   *http.Client
	full     atomic.Bool // the ledger takes no settlement

	mu    sync.Mutex // guards what follows
	done  []Finished
	ended sync.Cond // of mu: a request is over
}

// routes are those of the credential youtube.
var routes = map[string]string{
	"GET /youtube/v3/search":  "search.list",
	"GET /youtube/v3/videos":  "videos.list",
	"POST /youtube/v3/videos": "search.list",
	"GET /files/**":           "videos.list",
	"POST /files/**":          "videos.list",
}

// newScene starts a proxy; edit, unless it is nil, changes what it is made of and where
// the calls of youtube go to.
func newScene(t testing.TB, answer http.HandlerFunc, edit func(*Config, *Target)) *scene {
	s := &scene{TB: t, clock: ledgertest.NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)), tokens: new(servertest.Tokens)}
	s.ended.L = &s.mu
	s.service = servertest.NewService(t, hasty{ledgertest.NewModel(s.clock.Now), &s.full}, servertest.YouTube(), servertest.Other())
	s.tokens.Issue(runToken, "trending", "US", "youtube")
	s.tokens.Ends(runToken, s.clock.Now().Add(5*time.Minute), time.Minute)
	s.upstream = httptest.NewServer(answer)
	t.Cleanup(s.upstream.Close)
	listener := servertest.TCP(t)
	config := Config{
		Address: listener.Addr().String(), Service: s.service, Tokens: s.tokens,
		Observer: upstream.NewObserver(s.service, nil, func(upstream.Outcome) {}),
		Emit: func(event any) {
			if e, over := event.(Finished); over {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.done = append(s.done, e)
				s.ended.Broadcast()
			}
		},
	}
	address, _ := url.Parse(s.upstream.URL)
	table, wrong := NewRoutes(routes)
	if wrong != nil {
		t.Fatal(wrong)
	}
	target := &Target{Credential: "youtube", Upstream: address, Key: FixedKey(realKey), KeyHeader: apiKeyHeader, Refusals: Google, Routes: table}
	if edit != nil {
		edit(&config, target)
	}
	s.proxy = New(config)
	s.proxy.SetTargets([]*Target{target})
	s.base = s.proxy.AddressFor("youtube", runToken)
	served := make(chan error, 1)
	go func() { served <- s.proxy.Serve(listener) }()
	s.client = &http.Client{Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		s.proxy.Shutdown(servertest.Canceled())
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s
}

// A hasty ledger does nothing more for a caller who has gone, as one behind a connection.
type hasty struct {
	quota.Ledger
	full *atomic.Bool
}

func (l hasty) Settle(ctx context.Context, c *quota.Credential, s quota.Settlement) (quota.Decision, error) {
	if ctx.Err() != nil || l.full.Load() {
		return quota.Decision{}, cmp.Or(ctx.Err(), quota.ErrUnavailable)
	}
	return l.Ledger.Settle(ctx, c, s)
}

func (l hasty) Usage(ctx context.Context, c *quota.Credential) (quota.Usage, error) {
	if ctx.Err() != nil {
		return quota.Usage{}, ctx.Err()
	}
	return l.Ledger.Usage(ctx, c)
}

// An answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   string
	closes bool // the connection
}

func (s *scene) get(path string) answer { return s.do("GET", s.base+path, nil, nil) }

func (s *scene) do(method, address string, header http.Header, body io.Reader) answer {
	s.Helper()
	r, err := http.NewRequest(method, address, body)
	servertest.Must(s, err)
	if header != nil {
		r.Header = header
	}
	return s.send(r)
}

func (s *scene) send(r *http.Request) answer {
	s.Helper()
	res, err := s.client.Do(r)
	servertest.Must(s, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	servertest.Must(s, err)
	return answer{res.StatusCode, res.Header, string(text), res.Close}
}

// settled waits until so many requests are over, and returns them.
func (s *scene) settled(n int) []Finished {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.done) < n {
		s.ended.Wait()
	}
	return s.done
}

// used is what is debited of the daily limit.
func (s *scene) used() quota.Units {
	s.Helper()
	usage, err := s.service.Usage(context.Background(), "youtube")
	servertest.Must(s, err)
	return usage.Limits[0].Used
}

func ok(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"items":[]}`) }
