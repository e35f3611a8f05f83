package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"quotad/cmd/ytfetch/upstream"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
)

const (
	secret   = "AIzaSy-secret+key/of the=project"
	runToken = "token-of-the-pass"
)

// A bed is what a pass lives in: a quotad that serves its API on a Unix socket,
// an upstream with books of its own, and a clock for both that only moves when
// somebody moves it.
type bed struct {
	clock    *clock
	upstream *upstream.Upstream
	tube     *httptest.Server
	ledger   *ledger
	tokens   *tokens
	marks    *bookmarks
	server   *server.Server
	served   chan error
	dir      string // short: it holds the socket
}

type bedConfig struct {
	limit int64 // units of quotad's limit, of which ordinary callers may use all
	quota int   // units of the upstream's own day
	pages int   // of a region's chart; 0: 4
}

func openBed(c bedConfig) (*bed, error) {
	b := &bed{clock: &clock{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}, tokens: &tokens{}, marks: &bookmarks{}, served: make(chan error, 1)}
	var err error
	b.upstream, err = upstream.New(upstream.Config{Quota: c.quota, PagesPerRegion: c.pages, Key: secret, Now: b.clock.Now})
	if err != nil {
		return nil, err
	}
	b.ledger = &ledger{Model: ledgertest.NewModel(b.clock.Now)}
	keeper, err := quota.NewService(b.ledger, []*quota.Credential{{
		Name:       "youtube",
		Limits:     []quota.Limit{{Name: "daily", Units: quota.Units(c.limit), Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{operation: {Every: 1}},
	}}, time.Second)
	if err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp("", "ytf"); err != nil {
		return nil, err
	}
	put := server.Route{Method: http.MethodPut, Path: "/v1/bookmark", Access: server.Spend, Does: "leave something", Handle: server.Handle(b.marks.leave)}
	if b.server, err = server.New(server.Config{Keeper: keeper, Tokens: b.tokens, Version: "test", Routes: []server.Route{put}}); err != nil {
		return nil, err
	}
	listener, err := server.Listen(b.socket())
	if err != nil {
		return nil, err
	}
	go func() { b.served <- b.server.Serve(listener) }()
	b.tube = httptest.NewServer(b.upstream)
	return b, nil
}

func (b *bed) socket() string  { return filepath.Join(b.dir, "quotad.sock") }
func (b *bed) baseURL() string { return b.tube.URL + upstream.Path }

func (b *bed) close() error {
	b.tube.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	err := b.server.Shutdown(ctx)
	if served := <-b.served; err == nil {
		err = served
	}
	os.RemoveAll(b.dir)
	return err
}

// used is what quotad's books hold.
func (b *bed) used() (int64, error) {
	client := &api.Client{Socket: b.socket()}
	status, err := client.Status(context.Background())
	if err != nil {
		return 0, err
	}
	return status.Credentials[0].Limits[0].Used, nil
}

// compare checks that quotad has debited exactly what upstream has charged.
func (b *bed) compare() error {
	debited, err := b.used()
	if err != nil {
		return err
	}
	if charged := b.upstream.Counts().Units; debited != int64(charged) {
		return fmt.Errorf("quotad's books hold %d units, upstream charged %d", debited, charged)
	}
	return nil
}

// A clock moves when somebody sleeps by it.
type clock struct {
	mu  sync.Mutex // guards now
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// A ledger is the model, until it goes down.
type ledger struct {
	*ledgertest.Model
	mu   sync.Mutex // guards down
	down bool
}

func (l *ledger) Acquire(ctx context.Context, c *quota.Credential, asks []quota.Ask) ([]quota.Decision, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return nil, quota.ErrUnavailable
	}
	return l.Model.Acquire(ctx, c, asks)
}

func (l *ledger) goDown() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
}

// Tokens knows one pass, and what it asked for.
type tokens struct {
	mu       sync.Mutex // guards what follows
	grants   []string
	requests []quota.Request
}

var _ server.Tokens = (*tokens)(nil)

func (k *tokens) Bearer(token string) (quota.Bearer, bool) {
	return quota.Bearer{Caller: quota.Caller{Job: "trending", Region: "DE", Run: "run-1", UID: -1}, Credential: "youtube"}, token == runToken
}

func (k *tokens) Admit(_ string, r quota.Request, _ quota.Units) (func(quota.Decision, error), quota.Decision) {
	return func(d quota.Decision, err error) {
		if err != nil {
			return
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.requests, k.grants = append(k.requests, r), append(k.grants, d.GrantID)
	}, quota.Decision{}
}

func (k *tokens) Owns(_, grantID string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Contains(k.grants, grantID)
}

func (k *tokens) Settled(string, string, quota.Units) {}

func (k *tokens) asked() []quota.Request {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.requests)
}

// Bookmarks are what passes left, one after the other.
type bookmarks struct {
	broken bool // none can be left

	mu   sync.Mutex // guards left
	left []string
}

func (m *bookmarks) leave(_ context.Context, _ *server.Session, in jobsapi.Bookmark) (jobsapi.Bookmark, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken {
		return in, quota.ErrUnavailable
	}
	m.left = append(m.left, in.Bookmark)
	return in, nil
}

func (m *bookmarks) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.left)
}
