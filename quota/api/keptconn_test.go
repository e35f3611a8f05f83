package api_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/server/servertest"
)

// batchServer answers batches of one call by handler, and counts its connections.
func batchServer(t *testing.T, socket string, handler http.HandlerFunc) (connections *atomic.Int64, stop func()) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	connections = new(atomic.Int64)
	server := &http.Server{Handler: handler, ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}}
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(listener) })
	stop = func() {
		server.Close()
		serving.Wait()
	}
	t.Cleanup(stop)
	return connections, stop
}

func grantOne(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("subject") != "a&b=c" || r.Host != "quotad" {
		http.Error(w, fmt.Sprintf("%q at %q", r.Form, r.Host), http.StatusTeapot)
		return
	}
	w.Header().Set("Server", api.ServerName+"1.2.3")
	fmt.Fprint(w, `{"decisions":[{"granted":true,"units":7}]}`)
}

func askOne(ctx context.Context, c *api.Client) error {
	d, err := c.AcquireClients(ctx, "public", []api.ClientRequest{{Subject: "a&b=c"}})
	if err == nil && (!d[0].Granted || d[0].Units != 7) {
		err = fmt.Errorf("answered %+v", d)
	}
	return err
}

// Calls one after the other share a connection; after the daemon has started again, they find out that it is
// closed before they use it.
func TestCallsOfClientsKeepAConnection(t *testing.T) {
	socket := filepath.Join(servertest.ShortDir(t), "q.sock")
	c := &api.Client{Socket: socket}
	for range 3 {
		connections, stop := batchServer(t, socket, grantOne)
		for range 5 {
			if err := askOne(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		if n := connections.Load(); n != 1 {
			t.Errorf("%d connections for 5 calls, want 1", n)
		}
		stop()
	}
	if err := askOne(t.Context(), c); !errors.Is(err, api.ErrUnreachable) || errors.Is(err, quota.ErrOutcomeUnknown) {
		t.Errorf("while nobody listens: %v", err)
	}
}

// A connection on which no answer came in time, or whose answer the daemon wants to be the last, is not used again.
func TestCallsOfClientsLeaveAConnection(t *testing.T) {
	socket := filepath.Join(servertest.ShortDir(t), "q.sock")
	hold := make(chan struct{})
	var calls atomic.Int64
	connections, _ := batchServer(t, socket, func(w http.ResponseWriter, r *http.Request) {
		switch calls.Add(1) {
		case 1:
			<-hold
		case 2:
			w.Header().Set("Connection", "close")
		}
		grantOne(w, r)
	})
	c := &api.Client{Socket: socket}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := askOne(ctx, c); !errors.Is(err, api.ErrUnreachable) || !errors.Is(err, quota.ErrOutcomeUnknown) {
		t.Errorf("without an answer: %v", err)
	}
	close(hold)
	for range 3 {
		if err := askOne(t.Context(), c); err != nil {
			t.Error(err)
		}
	}
	if n := connections.Load(); n != 3 {
		t.Errorf("%d connections, want 3", n)
	}
	cancelled, end := context.WithCancel(t.Context())
	end()
	if err := askOne(cancelled, c); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Callers at the same time have connections of their own.
func TestManyCallsOfClients(t *testing.T) {
	socket := filepath.Join(servertest.ShortDir(t), "q.sock")
	batchServer(t, socket, grantOne)
	c := &api.Client{Socket: socket}
	var asking sync.WaitGroup
	for range 40 {
		asking.Go(func() {
			for range 20 {
				if err := askOne(t.Context(), c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	asking.Wait()
}
