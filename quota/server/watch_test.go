package server_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// A held route answers when it is let, and records whose caller has gone.
type held struct {
	entered, release chan struct{}
	gone             chan string
}

func (h held) route() server.Route {
	type in struct {
		Name string `json:"name"`
	}
	return server.Route{Method: "GET", Path: "/hold", Access: server.Read, Handle: server.Handle(func(ctx context.Context, _ *server.Session, in in) (string, error) {
		h.entered <- struct{}{}
		select {
		case <-h.release:
			return "released", nil
		case <-ctx.Done():
			h.gone <- in.Name
			return "", ctx.Err()
		}
	})}
}

func TestCallersOfSlowRequestsAreWatched(t *testing.T) {
	held := held{make(chan struct{}), make(chan struct{}), make(chan string)}
	h := servertest.Start(t, func(c *server.Config) { c.Routes = []server.Route{held.route()} })
	dial := func() net.Conn {
		conn, err := net.Dial("unix", h.Socket)
		if err != nil {
			t.Fatal(err)
		}
		servertest.NewConn(t, conn) // closes it, and bounds how long it hangs
		return conn
	}
	ask := func(conn net.Conn, name string) {
		t.Helper()
		if _, err := conn.Write([]byte("GET /hold?name=" + name + " HTTP/1.1\r\nHost: quotad\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		<-held.entered
	}
	stays, leaves := dial(), dial()
	answers := bufio.NewReader(stays)
	ask(stays, "stays")
	for range 2 { // what begins later is watched later
		ask(leaves, "leaves")
		leaves.Close()
		if who := <-held.gone; who != "leaves" {
			t.Fatalf("%s has gone", who)
		}
		leaves = dial()
	}
	if _, err := stays.Write([]byte("GET /healthz HTTP/1.1\r\nHost: quotad\r\n\r\n")); err != nil { // before it has its answer
		t.Fatal(err)
	}
	held.release <- struct{}{}
	for range 2 {
		if r, err := http.ReadResponse(answers, nil); err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("who stayed got %v: %v", r, err)
		} else if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Fatal(err)
		}
	}
	ask(stays, "stayed") // a request after one that was watched
	stays.Close()
	if who := <-held.gone; who != "stayed" {
		t.Errorf("%s has gone", who)
	}
	ask(leaves, "closes")
	if err := leaves.(*net.UnixConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if who := <-held.gone; who != "closes" {
		t.Errorf("%s has gone", who)
	}
}
