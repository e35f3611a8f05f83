package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"quotad/cmd/ytfetch/upstream"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

const (
	secret   = "AIzaSy-secret+key/of the=project"
	runToken = "token-of-the-pass"
)

// A testEnv is what a pass meets: a quotad that serves its API on a Unix socket, an
// upstream that counts what it charges, and a clock for both that moves when a pass
// sleeps or a test says so.
type testEnv struct {
	clock    *ledgertest.Clock
	upstream *upstream.Upstream
	tube     *httptest.Server
	ledger   *ledger
	tokens   servertest.Tokens
	marks    *bookmarks
	frontend *server.Frontend
	served   chan error
	dir      string // short: it holds the socket
}

type envConfig struct {
	limit int64 // units of quotad's limit, of which ordinary callers may use all
	quota int   // units of the upstream's own day
	pages int   // of a region's chart; 0: 4
}

func openEnv(c envConfig) (*testEnv, error) {
	e := &testEnv{clock: ledgertest.NewClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)), marks: &bookmarks{}, served: make(chan error, 1)}
	e.tokens.Issue(runToken, "trending", "DE", "youtube")
	e.upstream = upstream.New(upstream.Config{Quota: c.quota, PagesPerRegion: c.pages, Key: secret, Now: e.clock.Now})
	e.ledger = &ledger{Model: ledgertest.NewModel(e.clock.Now)}
	service, err := quota.NewService(e.ledger, []*quota.Credential{{
		Name:       "youtube",
		Limits:     []quota.Limit{{Name: "daily", Units: quota.Units(c.limit), Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{videosList: {Every: 1}, searchList: {Every: 100}},
	}}, time.Second)
	if err != nil {
		return nil, err
	}
	if e.dir, err = os.MkdirTemp("", "ytf"); err != nil {
		return nil, err
	}
	s, err := server.New(server.Config{Service: service, Tokens: &e.tokens, Version: "test"})
	if err != nil {
		return nil, err
	}
	e.frontend = server.NewFrontend(server.FrontendConfig{})
	e.frontend.PassTo(s)
	listener, err := server.Listen(e.socket())
	if err != nil {
		return nil, err
	}
	go func() { e.served <- e.frontend.Serve(listener) }()
	e.tube = httptest.NewServer(e.upstream)
	return e, nil
}

func (e *testEnv) socket() string  { return filepath.Join(e.dir, "quotad.sock") }
func (e *testEnv) baseURL() string { return e.tube.URL + upstream.Path }

func (e *testEnv) close() error {
	e.tube.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	err := e.frontend.Shutdown(ctx)
	if served := <-e.served; err == nil {
		err = served
	}
	os.RemoveAll(e.dir)
	return err
}

// used is what quotad's books hold.
func (e *testEnv) used() (int64, error) {
	client := &api.Client{Socket: e.socket()}
	status, err := client.Status(context.Background())
	if err != nil {
		return 0, err
	}
	return status.Credentials[0].Limits[0].Used, nil
}

// compare checks that quotad has debited exactly what upstream has charged.
func (e *testEnv) compare() error {
	debited, err := e.used()
	if err != nil {
		return err
	}
	if charged := e.upstream.Counts().Units; debited != int64(charged) {
		return fmt.Errorf("quotad's books hold %d units, upstream charged %d", debited, charged)
	}
	return nil
}

// A ledger is the model, until it goes down.
type ledger struct {
	*ledgertest.Model
	mu   sync.Mutex // guards down
	down bool
}

func (l *ledger) Acquire(ctx context.Context, c *quota.Credential, ask quota.Ask) (quota.Decision, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return quota.Decision{}, quota.ErrUnavailable
	}
	return l.Model.Acquire(ctx, c, ask)
}

func (l *ledger) goDown() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
}

// Bookmarks are what passes left, one after the other.
type bookmarks struct {
	broken bool // none can be left

	mu   sync.Mutex // guards left
	left []string
}

func (m *bookmarks) keep(text string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken {
		return quota.ErrUnavailable
	}
	if text != "" {
		m.left = append(m.left, text)
	}
	return nil
}

func (m *bookmarks) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.left)
}
