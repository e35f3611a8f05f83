package middleware_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/middleware"
	"quotad/quota/redisledger"
	"quotad/quota/redisledger/redistest"
)

// opened returns a handler whose process decides by itself, on a Redis.
func opened(t *testing.T, addr string, c *clientlimit.Clients) http.Handler {
	t.Helper()
	store, err := redisledger.OpenStore(redisledger.Config{Addrs: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	limits, err := middleware.Open(store, time.Minute, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(limits.Close)
	return middleware.Handler(hello, middleware.Options{
		Clients: c.Name, Limits: limits, Timeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
	})
}

func statusOf(h http.Handler) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	return w.Code
}

// Servers that decide by themselves share the limits of a Redis, without a daemon.
func TestOpenOnRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := &clientlimit.Clients{
		Name: "public", Algorithm: clientlimit.Log,
		Limits: []quota.Limit{{Name: "hour", Units: 10, Window: quota.Sliding(time.Hour)}},
	}
	one, other := opened(t, server.Addr, c), opened(t, server.Addr, c)
	granted := 0
	for range 10 {
		for _, h := range []http.Handler{one, other} {
			switch status := statusOf(h); status {
			case http.StatusOK:
				granted++
			case http.StatusTooManyRequests:
			default:
				t.Errorf("status %d", status)
			}
		}
	}
	if granted != 10 {
		t.Errorf("%d of 20 requests were passed on, want 10", granted)
	}
}

// Without the store, a request is passed on or refused, as its clients are open on an outage or not.
func TestOpenWithoutRedis(t *testing.T) {
	t.Parallel()
	for open, want := range map[bool]int{true: http.StatusOK, false: http.StatusServiceUnavailable} {
		h := opened(t, "unix://"+t.TempDir()+"/none", &clientlimit.Clients{
			Name: "public", Algorithm: clientlimit.Counter, OpenOnOutage: open,
			Limits: []quota.Limit{{Name: "hour", Units: 10, Window: quota.Sliding(time.Hour)}},
		})
		if status := statusOf(h); status != want {
			t.Errorf("open: %v: status %d, want %d", open, status, want)
		}
	}
}

func TestOpenChecksItsClients(t *testing.T) {
	if _, err := middleware.Open(nil, 0, &clientlimit.Clients{Name: "public"}); err == nil {
		t.Error("clients without an algorithm and limits are opened")
	}
}
