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

// A heldLedger decides nothing before its caller leaves.
type heldLedger struct {
	*ledgertest.Model
	entered chan struct{}
}

func (l *heldLedger) Acquire(ctx context.Context, _ *quota.Credential, _ quota.Ask) (quota.Decision, error) {
	l.entered <- struct{}{}
	<-ctx.Done()
	return quota.Decision{}, ctx.Err()
}

// A caller who goes away says nothing of the ledger: its call is counted as cancelled, and is no refusal.
func TestCallersWhoGoAwayAreCancelled(t *testing.T) {
	ledger := &heldLedger{ledgertest.NewModel(time.Now), make(chan struct{})}
	service, err := quota.NewService(ledger, []*quota.Credential{servertest.YouTube()}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	results := make(chan string, 1)
	h := servertest.Start(t, func(c *server.Config) {
		c.Service, c.Emit = service, func(e any) { results <- e.(server.Decided).Result() }
	})
	ctx, leave := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() {
		_, err := h.Client("").Acquire(ctx, api.AcquireRequest{Operation: "videos.list"})
		answered <- err
	}()
	<-ledger.entered
	leave()
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Errorf("who left got %v", err)
	}
	if got := <-results; got != "cancelled" {
		t.Errorf("the call is counted as %s, want cancelled", got)
	}
	if got, err := h.Client("").Log(t.Context(), api.LogQuery{Denied: true}); err != nil || len(got.Entries) > 0 {
		t.Errorf("denied are %+v, %v", got, err)
	}
}
