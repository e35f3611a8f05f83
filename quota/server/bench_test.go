package server_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// An instant ledger decides without thinking, so that what is measured is the way to it.
type instant struct {
	*ledgertest.Model
	decision quota.Decision
}

func (i instant) Acquire(context.Context, *quota.Credential, quota.Ask) (quota.Decision, error) {
	return i.decision, nil
}

// BenchmarkAcquire compares an acquire with a handler that does nothing, on the
// same kind of socket and for the same lean client.
func BenchmarkAcquire(b *testing.B) {
	daily := quota.LimitState{Limit: servertest.YouTube().Limits[0], Used: 9_500, Cost: 1}
	granted := quota.Decision{GrantID: "youtube:ABCDEFGHIJKLMNOP", Units: 1, Limits: []quota.LimitState{daily}}
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
		ask(b, socket, http.StatusOK)
	})
	b.Run("granted", func(b *testing.B) { ask(b, instantServer(b, granted), http.StatusOK) })
	b.Run("denied", func(b *testing.B) { ask(b, instantServer(b, denied), http.StatusTooManyRequests) })
}

func instantServer(b *testing.B, d quota.Decision) (socket string) {
	socket = filepath.Join(servertest.ShortDir(b), "s")
	l, err := server.Listen(socket)
	if err != nil {
		b.Fatal(err)
	}
	servertest.Serve(b, server.Config{Service: servertest.NewService(b, instant{ledgertest.NewModel(time.Now), d}, servertest.YouTube())}, l)
	return socket
}

func ask(b *testing.B, socket string, status int) {
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", socket)
	}}}
	form := url.Values{"credential": {"youtube"}, "operation": {"videos.list"}, "request_id": {"page-1"}}
	b.ReportAllocs()
	for b.Loop() {
		answer, err := client.PostForm("http://quotad/v1/acquire", form)
		if err != nil || answer.StatusCode != status {
			b.Fatal(answer, err)
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
}
