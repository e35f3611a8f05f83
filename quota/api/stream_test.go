package api_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/server/servertest"
)

// batchServer answers streams by a handler, and counts its connections.
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

// grantOne answers a batch of one call.
func grantOne(form url.Values) (answer api.BatchAnswer) {
	if form.Encode() != "subject=a%26b%3Dc%0A" {
		answer.Problem = api.NewProblem(quota.BadRequest, "%q", form)
		return answer
	}
	answer.Decisions = []api.Decision{{Granted: true, Units: 7}}
	return answer
}

func askOne(ctx context.Context, c *api.Client) error {
	d, err := c.AcquireClients(ctx, "public", []api.ClientRequest{{Subject: "a&b=c\n"}})
	if err == nil && (!d[0].Granted || d[0].Units != 7) {
		err = fmt.Errorf("answered %+v", d)
	}
	return err
}

// Calls one after the other share a connection; after the daemon has started again, they find out that it is
// closed before they use it.
func TestCallsOfClientsKeepAStream(t *testing.T) {
	socket := filepath.Join(servertest.ShortDir(t), "q.sock")
	c := &api.Client{Socket: socket}
	for range 3 {
		connections, stop := batchServer(t, socket, servertest.Batches(grantOne))
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

// A stream on which no answer came in time is not used again.
func TestCallsOfClientsLeaveAStream(t *testing.T) {
	socket := filepath.Join(servertest.ShortDir(t), "q.sock")
	hold := make(chan struct{})
	var calls atomic.Int64
	connections, _ := batchServer(t, socket, servertest.Batches(func(form url.Values) api.BatchAnswer {
		if calls.Add(1) == 1 {
			<-hold
		}
		return grantOne(form)
	}))
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
	if n := connections.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
	cancelled, end := context.WithCancel(t.Context())
	end()
	if err := askOne(cancelled, c); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Clients of two names have streams of their own; one that the daemon refuses is an answer like any other.
func TestStreamsOfTwoNames(t *testing.T) {
	socket := filepath.Join(servertest.ShortDir(t), "q.sock")
	var refused atomic.Bool
	connections, _ := batchServer(t, socket, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", api.ServerName+"1.2.3")
		if refused.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"status":503,"reason":"ledger_unavailable","detail":"not now"}`)
			return
		}
		servertest.Batches(func(url.Values) (answer api.BatchAnswer) {
			answer.Decisions = []api.Decision{{Limit: r.URL.Path}}
			return answer
		})(w, r)
	})
	c := &api.Client{Socket: socket}
	for range 3 {
		for _, name := range []string{"public", "shop"} {
			d, err := c.AcquireClients(t.Context(), name, []api.ClientRequest{{Subject: "a"}})
			if want := "/v1/clients/" + name + "/stream"; err != nil || d[0].Limit != want {
				t.Errorf("got %+v, %v, want that of %s", d, err, want)
			}
		}
	}
	if n := connections.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
	refused.Store(true)
	_, err := c.AcquireClients(t.Context(), "new", []api.ClientRequest{{Subject: "a"}})
	if !errors.Is(err, api.ErrLedgerUnavailable) || api.DaemonVersion(err) != "1.2.3" {
		t.Errorf("a stream that is refused: %v by %q", err, api.DaemonVersion(err))
	}
}

// An answer to a batch of another size is none, and a problem of the batch is the error.
func TestBatchesThatFail(t *testing.T) {
	socket := filepath.Join(servertest.ShortDir(t), "q.sock")
	batchServer(t, socket, servertest.Batches(grantOne))
	c := &api.Client{Socket: socket}
	_, err := c.AcquireClients(t.Context(), "public", []api.ClientRequest{{Subject: "a&b=c\n", Count: 2}})
	if p := new(api.Problem); !errors.As(err, &p) || p.Reason != quota.BadRequest || p.Status != 400 {
		t.Errorf("got %v, want the problem", err)
	}
	other := filepath.Join(servertest.ShortDir(t), "q.sock")
	batchServer(t, other, servertest.Batches(func(url.Values) (a api.BatchAnswer) { return a }))
	if err := askOne(t.Context(), &api.Client{Socket: other}); err == nil || !strings.Contains(err.Error(), "0 decisions where there are 1") {
		t.Errorf("without decisions: %v", err)
	}
}

// Callers at the same time have connections of their own.
func TestManyCallsOfClients(t *testing.T) {
	socket := filepath.Join(servertest.ShortDir(t), "q.sock")
	batchServer(t, socket, servertest.Batches(grantOne))
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
