package server_test

import (
	"io"
	"log"
	"net/http"
	"os"
	"runtime"
	"testing"

	"quotad/quota/api"
	"quotad/quota/seedtest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// Thousands of connections that send nothing leave acquires going on, and take no more than their places. When they have
// gone, so has what they took.
func TestFloodOfTheSocket(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can connect as another user, and has places of its own")
	}
	h := servertest.Start(t, nil, server.FrontendConfig{ErrorLog: log.New(io.Discard, "", 0)})
	own := h.Dial()
	acquire := func(when string) {
		t.Helper()
		if got := own.Call("POST", "/v1/acquire", "credential=youtube&operation=videos.list", servertest.Form); got.Status != http.StatusOK {
			t.Errorf("%s: %d %s", when, got.Status, got.Body)
		}
	}
	acquire("before")
	heap, routines := held()
	flood := make([]*servertest.Conn, seedtest.Long(t, 1500))
	for i := range flood {
		flood[i], _ = dialPlain(t, h)
		if i%500 == 0 {
			acquire("meanwhile")
		}
	}
	if n := h.Frontend.Connections(); n.Open > server.DefaultConnections+64 || n.Refused == 0 {
		t.Errorf("%+v", n)
	}
	if d := h.Acquire("", api.AcquireRequest{Credential: "youtube", Operation: "videos.list"}); !d.Granted {
		t.Errorf("an operator in the flood: %+v", d)
	}
	full, _ := held()
	for _, w := range flood {
		w.Close()
	}
	clear(flood)
	for h.Frontend.Connections().Open > 2 {
		runtime.Gosched()
	}
	after, left := held()
	t.Logf("%d connections: heap %d kB before, %d kB with them, %d kB after; %d and %d goroutines", len(flood), heap>>10, full>>10, after>>10, routines, left)
	if after > heap+uint64(len(flood))<<10+2<<20 || left > routines+4 {
		t.Error("what the connections took is not back")
	}
	acquire("after")
}

// held returns what is on the heap, and how many goroutines there are.
func held() (heap uint64, routines int) {
	var m runtime.MemStats
	runtime.GC() // fills the pools' victims
	runtime.GC() // and frees them
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, runtime.NumGoroutine()
}
