package middleware

import (
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"quotad/quota"
	"quotad/quota/api"
)

// A scriptedDaemon answers what its test says, to show what a daemon hardly ever says. It
// keeps what it was asked.
type scriptedDaemon struct {
	client *api.Client
	decide func(api.ClientRequest) api.Decision

	mu      sync.Mutex // guards what follows
	calls   []api.ClientRequest
	refusal *api.Problem  // instead of decisions
	frozen  chan struct{} // nothing is answered before it is closed; nil: everything is
}

func startScripted(t *testing.T, decide func(api.ClientRequest) api.Decision) *scriptedDaemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "q") // names of sockets stop at 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	d := &scriptedDaemon{client: &api.Client{Socket: filepath.Join(dir, "s")}, decide: decide}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/clients/public/acquire", d.answer)
	server := &http.Server{Handler: mux}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	return d
}

func (s *scriptedDaemon) answer(w http.ResponseWriter, r *http.Request) {
	call := api.ClientRequest{Subject: r.PostFormValue("subject"), Operation: r.PostFormValue("operation"), Count: 1}
	if count := r.PostFormValue("count"); count != "" {
		call.Count, _ = strconv.ParseInt(count, 10, 64)
	}
	decision := s.decide(call)
	s.mu.Lock()
	s.calls = append(s.calls, call)
	refusal, frozen := s.refusal, s.frozen
	s.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
	status, body := http.StatusOK, any(decision)
	if refusal != nil {
		status, body = refusal.Status, refusal
	} else if !decision.Granted {
		status = api.NewProblem(quota.Reason(decision.Reason), "").Status
	}
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

// asked returns the calls so far.
func (s *scriptedDaemon) asked() []api.ClientRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// freeze has nothing answered until thaw is called.
func (s *scriptedDaemon) freeze(t *testing.T) (thaw func()) {
	frozen := make(chan struct{})
	s.mu.Lock()
	s.frozen = frozen
	s.mu.Unlock()
	thaw = sync.OnceFunc(func() {
		s.mu.Lock()
		s.frozen = nil
		s.mu.Unlock()
		close(frozen)
	})
	t.Cleanup(thaw)
	return thaw
}

func (s *scriptedDaemon) refuse(p *api.Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = p
}

// limits are those of the tests: one that refuses, one that is not enforced.
func limits(left int64) []api.Limit {
	return []api.Limit{
		{Name: "minute", Units: 60, Used: 60 - left, Remaining: left, WindowMs: 60_000},
		{Name: "hour", Units: 100, Used: 100, WindowMs: 3_600_000, Observes: true},
		{Name: "day", Units: 1000, Used: 1000 - 10*left, Remaining: 10 * left, WindowMs: 86_400_000},
	}
}

func grant(api.ClientRequest) api.Decision {
	return api.Decision{Granted: true, Units: 1, Limits: limits(59)}
}

func denial(api.ClientRequest) api.Decision {
	return api.Decision{Reason: string(quota.LimitExceeded), Limit: "minute", Requested: 1, RetryAfterMs: 2500,
		Limits: limits(0), ViolatedPolicies: []string{"minute", "day"}, Detail: "no room for 192.0.2.1"}
}

func refusal(reason quota.Reason) func(api.ClientRequest) api.Decision {
	return func(api.ClientRequest) api.Decision { return api.Decision{Reason: string(reason), Limit: "minute"} }
}

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

// options wait long, and tell the test's log.
func options(t *testing.T) Options {
	return Options{Clients: "public", Timeout: patience, ErrorLog: log.New(t.Output(), "", 0)}
}

// lines is a log that a test reads.
type lines struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
