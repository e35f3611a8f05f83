package server_test

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// An instant ledger decides without thinking, so that what is measured is the
// way to it.
type instant struct {
	*ledgertest.Model
	decision quota.Decision
}

func (i instant) Acquire(_ context.Context, _ *quota.Credential, asks []quota.Ask) ([]quota.Decision, error) {
	decisions := make([]quota.Decision, len(asks))
	for n := range asks {
		decisions[n] = i.decision
	}
	return decisions, nil
}

// BenchmarkAcquire compares an acquire with a handler that does nothing, on the
// same kind of socket and through the same client.
func BenchmarkAcquire(b *testing.B) {
	daily := quota.LimitState{Limit: servertest.YouTube().Limits[0], Used: 9_500, Cost: 1}
	granted := quota.Decision{GrantID: "youtube:1795260896123-0", Units: 1, Limits: []quota.LimitState{daily}}
	denied := quota.Decision{Reason: quota.LimitExceeded, Limit: "daily", Units: 1, Limits: []quota.LimitState{daily},
		RetryAfter: time.Minute, RetryAt: time.Unix(1795260896, 0)}
	b.Run("floor: no-op handler", func(b *testing.B) {
		socket := filepath.Join(servertest.ShortDir(b), "s")
		l, err := net.Listen("unix", socket)
		if err != nil {
			b.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"granted":true}`)) })}
		go server.Serve(l)
		defer server.Close()
		benchmark(b, socket, true)
	})
	b.Run("granted", func(b *testing.B) { benchmark(b, instantServer(b, granted), true) })
	b.Run("denied", func(b *testing.B) { benchmark(b, instantServer(b, denied), false) })
}

func instantServer(b *testing.B, d quota.Decision) (socket string) {
	socket = filepath.Join(servertest.ShortDir(b), "s")
	l, err := server.Listen(socket)
	if err != nil {
		b.Fatal(err)
	}
	servertest.Serve(b, server.Config{Keeper: servertest.NewService(b, instant{ledgertest.NewModel(time.Now), d}, servertest.YouTube())}, l)
	return socket
}

func benchmark(b *testing.B, socket string, want bool) {
	client := &api.Client{Socket: socket}
	ask := api.AcquireRequest{Credential: "youtube", Operation: "videos.list", RequestID: "page-1"}
	b.ReportAllocs()
	for b.Loop() {
		if d, err := client.Acquire(context.Background(), ask); err != nil || d.Granted != want {
			b.Fatal(d, err)
		}
	}
}
