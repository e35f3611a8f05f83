package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"quotad/quota/api"
)

func TestDeniedPassKeepsItsPages(t *testing.T) {
	r := newRun(t, envConfig{limit: 2, quota: 100})
	r.ends(t.Context(), ending{exitDenied, []int{50, 50}, 2,
		"ytfetch: stopped: quotad denied videos.list: no room for 1 unit in limit daily, which has 0 left; it fits at 2026-11-22T12:00:00Z; 100 videos on 2 pages stored\n"})
	if r.pauses != nil {
		t.Errorf("the pass slept %v for budget", r.pauses)
	}
}

func TestWithoutALedgerNothingIsFetched(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	r.ledger.goDown()
	r.ends(t.Context(), ending{exitUnavailable, nil, 0, "cannot ask for units: ledger unavailable"})
}

// So answers a quotad that is busy, or that cannot serve because of its configuration.
func TestQuotadThatCannotServeIsUnavailable(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	listener, err := net.Listen("unix", filepath.Join(r.dir, "other.sock"))
	if err != nil {
		t.Fatal(err)
	}
	busy := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_ = json.NewEncoder(w).Encode(api.NewProblem(api.NotServing, "the state directory is read-only"))
	})}
	go busy.Serve(listener)
	defer busy.Close()
	r.pass.quota = &api.Client{Socket: listener.Addr().String()}
	r.ends(t.Context(), ending{exitUnavailable, nil, 0, "cannot ask for units: the state directory is read-only"})
}

func TestRefusalThatIsNoDenialIsConfiguration(t *testing.T) {
	for name, change := range map[string]func(*pass){
		"another credential": func(p *pass) { p.credential = "other" },
		"a dead token":       func(p *pass) { p.quota = &api.Client{Socket: p.quota.Socket, Token: "dead"} },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, envConfig{limit: 100, quota: 100})
			change(r.pass)
			r.ends(t.Context(), ending{exitConfiguration, nil, 0, "quotad refused videos.list: "})
		})
	}
}

// The grant of a call that was never sent goes back even when the pass is being
// ended: check compares the books.
func TestInterruptedBeforeTheCallIsSent(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	ctx, cancel := context.WithCancel(t.Context())
	r.pass.tube.client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	r.ends(ctx, ending{exitInterrupted, nil, 0, "interrupted"})
}

func TestInterruptedWhileCoolingDown(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	ctx, cancel := context.WithCancel(t.Context())
	r.pass.sleep = func(context.Context, time.Duration) bool {
		cancel()
		return false
	}
	r.upstream.Inject(minuteLimit)
	r.ends(ctx, ending{exitInterrupted, nil, 1, "interrupted; 0 videos on 0 pages stored"})
}

// The budget holds against passes that run at the same time, and upstream never
// has to refuse: what quotad promises.
func TestBudgetHoldsOverManyPasses(t *testing.T) {
	r := newRun(t, envConfig{limit: 20, quota: 20})
	codes := make(chan int, 8)
	for range cap(codes) {
		own := *r.pass
		var log bytes.Buffer
		own.say = func(format string, args ...any) {}
		own.out = t.TempDir()
		go func() { codes <- report(&log, own.start(t.Context())) }()
	}
	var all []int
	for range cap(codes) {
		all = append(all, <-codes)
	}
	if slices.Contains(all, exitFailed) || !slices.Contains(all, exitDenied) {
		t.Errorf("got exit codes %v, want 0 and 75 only", all)
	}
	if got := r.upstream.Counts(); got.Units != 20 || got.Refused != 0 {
		t.Errorf("got %+v, want 20 units and nothing refused", got)
	}
}
