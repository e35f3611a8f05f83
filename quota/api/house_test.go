package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/ledgertest"
)

// A house is a server on a socket of its own, on a ledger in memory.
type house struct {
	t      *testing.T
	socket string
	clock  *clock
	keeper *quota.Service
	tokens *tokens
	server *api.Server

	mu     sync.Mutex // guards events
	events []api.Event
}

// youtube has 9,500 units a day for ordinary callers, 4,000 of them for searches.
func youtube() *quota.Credential {
	return &quota.Credential{
		Name: "youtube",
		Limits: []quota.Limit{
			{Name: "daily", Units: 10_000, Reserve: 500, Window: quota.Sliding(24 * time.Hour)},
			{Name: "search", Units: 4_000, Window: quota.Sliding(24 * time.Hour), Only: []string{"search.list"}},
		},
		Operations: map[string]quota.Cost{"search.list": {Every: 100}, "videos.list": {Every: 1}},
	}
}

func other() *quota.Credential {
	return &quota.Credential{
		Name:       "other",
		Limits:     []quota.Limit{{Name: "few", Units: 2, Window: quota.Sliding(time.Minute)}},
		Operations: map[string]quota.Cost{"get": {Every: 1}},
	}
}

// open starts a house; edit changes its configuration first.
func open(t *testing.T, edit func(*api.Config)) *house {
	t.Helper()
	h := &house{t: t, clock: &clock{now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)}, tokens: newTokens()}
	h.keeper = newKeeper(t, ledgertest.NewModel(h.clock.Now), youtube(), other())
	config := api.Config{Keeper: h.keeper, Tokens: h.tokens, Version: "v1.2.3", Observe: h.observe}
	if edit != nil {
		edit(&config)
	}
	h.socket = filepath.Join(shortDir(t), "quotad.sock")
	listener, err := api.Listen(h.socket)
	if err != nil {
		t.Fatal(err)
	}
	h.server = serve(t, config, listener)
	return h
}

func newKeeper(t testing.TB, ledger quota.Ledger, credentials ...*quota.Credential) *quota.Service {
	t.Helper()
	keeper, err := quota.NewService(ledger, credentials, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return keeper
}

// serve runs a server until the test is over.
func serve(t testing.TB, config api.Config, listener net.Listener) *api.Server {
	t.Helper()
	server, err := api.NewServer(config)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Shutdown(canceled()) // cuts what a failed test left
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return server
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// shortDir is a directory whose sockets' paths stay below 108 bytes, and which
// every user may enter.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "q")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (h *house) observe(e api.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

func (h *house) client(token string) *api.Client {
	return &api.Client{Socket: h.socket, Token: token}
}

// used is what the credential's first limit holds.
func (h *house) used(credential string) quota.Units {
	h.t.Helper()
	usage, _, err := h.keeper.Usage(context.Background(), credential)
	if err != nil {
		h.t.Fatal(err)
	}
	return usage.Limits[0].Used
}

func (h *house) acquire(token string, r api.AcquireRequest) api.Decision {
	h.t.Helper()
	d, err := h.client(token).Acquire(context.Background(), r)
	if refused := new(api.Problem); err != nil && !errors.As(err, &refused) {
		h.t.Fatalf("acquire %+v: %v", r, err)
	}
	return d
}

// A wire is one connection on which requests follow each other.
type wire struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func (h *house) dial() *wire {
	h.t.Helper()
	conn, err := net.Dial("unix", h.socket)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(3 * time.Minute)) // it hangs
	return &wire{t: h.t, conn: conn, in: bufio.NewReader(conn)}
}

// A response is an answer and its body, as fields.
type response struct {
	status int
	header http.Header
	fields map[string]any
	body   string
}

func (r response) text(name string) string { return fmt.Sprint(r.fields[name]) }

// call sends a request; headers are "Name: value" lines.
func (w *wire) call(method, path, body string, headers ...string) response {
	w.t.Helper()
	if body != "" {
		headers = append(headers, fmt.Sprintf("Content-Length: %d", len(body)))
	}
	return w.raw(method, path, body, headers...)
}

// raw is call without a length.
func (w *wire) raw(method, path, body string, headers ...string) response {
	w.t.Helper()
	if !slices.ContainsFunc(headers, func(h string) bool { return strings.HasPrefix(h, "Host:") }) {
		headers = append(headers, "Host: quotad")
	}
	message := method + " " + path + " HTTP/1.1\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n" + body
	// A server may answer before it has read everything.
	sent := make(chan struct{})
	go func() { defer close(sent); io.WriteString(w.conn, message) }()
	answer, err := http.ReadResponse(w.in, &http.Request{Method: method})
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	read, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	<-sent
	r := response{status: answer.StatusCode, header: answer.Header, body: string(read)}
	json.Unmarshal(read, &r.fields) // lists are read from body
	return r
}

// begin sends a request and returns the front of its answer.
func (w *wire) begin(method, path string) *http.Response {
	w.t.Helper()
	if _, err := fmt.Fprintf(w.conn, "%s %s HTTP/1.1\r\nHost: quotad\r\n\r\n", method, path); err != nil {
		w.t.Fatal(err)
	}
	answer, err := http.ReadResponse(w.in, &http.Request{Method: method})
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer
}

const (
	asJSON = "Content-Type: application/json"
	asForm = "Content-Type: application/x-www-form-urlencoded"
)

type clock struct {
	mu  sync.Mutex // guards now
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// tokens is a record of passes as a scheduler would keep it.
type tokens struct {
	mu     sync.Mutex // guards passes
	passes map[string]*pass
}

type pass struct {
	bearer  quota.Bearer
	left    quota.Units // of the run
	decided []quota.Decision
	settled []string
}

func newTokens() *tokens { return &tokens{passes: make(map[string]*pass)} }

func (t *tokens) issue(token, job, region, credential string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passes[token] = &pass{
		bearer: quota.Bearer{Caller: quota.Caller{Job: job, Region: region, Run: job + "-1"}, Credential: credential}, left: quota.MaxUnits,
	}
}

func (t *tokens) revoke(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.passes, token)
}

func (t *tokens) pass(token string) pass {
	t.mu.Lock()
	defer t.mu.Unlock()
	return *t.passes[token]
}

// may changes how a pass may spend.
func (t *tokens) may(token string, useReserve bool, left quota.Units) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passes[token].bearer.UseReserve, t.passes[token].left = useReserve, left
}

func (t *tokens) Bearer(token string) (quota.Bearer, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.passes[token]
	if p == nil {
		return quota.Bearer{}, false
	}
	return p.bearer, true
}

func (t *tokens) Admit(token string, _ quota.Request, units quota.Units) (func(quota.Decision, error), quota.Decision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.passes[token]
	if units > p.left {
		return nil, quota.Decision{Reason: quota.RunCapExceeded, Units: units, Detail: "the run has spent what it may"}
	}
	p.left -= units
	return func(d quota.Decision, err error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if err == nil {
			p.decided = append(p.decided, d)
		}
	}, quota.Decision{}
}

func (t *tokens) Owns(token, grantID string) bool {
	return slices.ContainsFunc(t.pass(token).decided, func(d quota.Decision) bool { return d.GrantID == grantID })
}

func (t *tokens) Settled(token, grantID string, units quota.Units) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passes[token].settled = append(t.passes[token].settled, fmt.Sprintf("%s=%d", grantID, units))
}
