package proxy

import (
	"io"
	"log"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"quotad/quota/server"
)

// Thousands of connections that send nothing leave calls on open connections going on, and take no more than their
// places. When they have gone, everything is as before.
func TestFlood(t *testing.T) {
	s := newScene(t, ok, func(c *Config, _ *Target) { c.ErrorLog = log.New(io.Discard, "", 0) })
	call := func(what string) {
		t.Helper()
		if a := s.get("youtube/v3/videos"); a.status != http.StatusOK {
			t.Errorf("%s: answered %d %s", what, a.status, a.body)
		}
	}
	call("before")
	res, err := http.Get(s.proxy.Root() + "/youtube/v3/videos")
	if err != nil || !res.Close {
		t.Errorf("a connection without a token stays open: %v", err)
	}
	var files syscall.Rlimit
	if err = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	flood := make([]net.Conn, min(9000, files.Cur*2/3))
	for i := range flood {
		flood[i] = s.dial()
		if i%1000 == 0 {
			call("meanwhile")
		}
	}
	call("in the flood")
	if n := s.proxy.front.Connections(); n.Open > server.DefaultConnections+64 || n.Refused == 0 {
		t.Errorf("%+v connections", n)
	}
	for _, conn := range flood {
		conn.Close()
	}
	for s.proxy.front.Connections().Open > 1 {
		time.Sleep(time.Millisecond)
	}
	s.client.CloseIdleConnections()
	call("after")
}
