package server_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// A heldLedger decides when it is let.
type heldLedger struct {
	*ledgertest.Model
	entered, release chan struct{}
}

func (l *heldLedger) Acquire(ctx context.Context, c *quota.Credential, ask quota.Ask) (quota.Decision, error) {
	l.entered <- struct{}{}
	select {
	case <-l.release:
		return l.Model.Acquire(ctx, c, ask)
	case <-ctx.Done():
		return quota.Decision{}, ctx.Err()
	}
}

// A caller who goes away while others are decided says nothing of the ledger: its call is
// counted as cancelled, and is no refusal.
func TestCallersWhoGoAwayAreCancelled(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	ledger := &heldLedger{ledgertest.NewModel(clock.Now), make(chan struct{}, 2), make(chan struct{})}
	service, err := quota.NewService(ledger, []*quota.Credential{servertest.YouTube()}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	results := make(chan string, 2)
	tokens := &servertest.Tokens{}
	tokens.Issue("token", "trending", "US", "youtube")
	h := servertest.Start(t, func(c *server.Config) {
		c.Tokens, c.Service, c.Emit = tokens, service, func(e any) { results <- e.(server.Decided).Result() }
	})
	ask := func(ctx context.Context) <-chan error {
		answered := make(chan error, 1)
		go func() {
			_, err := h.Client("token").Acquire(ctx, api.AcquireRequest{Operation: "videos.list"})
			answered <- err
		}()
		return answered
	}
	first := ask(t.Context())
	<-ledger.entered
	ctx, leave := context.WithCancel(t.Context())
	second := ask(ctx)
	<-ledger.entered
	leave()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("who left got %v", err)
	}
	if got := <-results; got != "cancelled" {
		t.Errorf("the call is counted as %s, want cancelled", got)
	}
	close(ledger.release)
	if err := <-first; err != nil {
		t.Errorf("who stayed got %v", err)
	}
	if got := <-results; got != server.Granted {
		t.Errorf("the other call is counted as %s", got)
	}
	if got, err := h.Client("").Log(t.Context(), api.LogQuery{Denied: true}); err != nil || len(got.Entries) > 0 {
		t.Errorf("denied are %+v, %v", got, err)
	}
}
