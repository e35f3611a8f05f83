package server_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// Pipes is a listener in memory, so that time can be the test's own.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours, nil
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// client returns a client each of whose requests has a connection of its own.
func (p *pipes) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: p.dial, DisableKeepAlives: true}}
}

// overPipes serves over a listener in memory until the test is over.
func overPipes(t *testing.T, c server.Config) (*pipes, *server.Frontend) {
	t.Helper()
	s, err := server.New(c)
	if err != nil {
		t.Fatal(err)
	}
	listener, frontend := newPipes(), servertest.Frontend(s)
	go frontend.Serve(listener)
	t.Cleanup(func() { frontend.Shutdown(servertest.Canceled()) })
	return listener, frontend
}

// A channel is a server, and one answer of its that is still being written.
type channel struct {
	service  *quota.Service
	frontend *server.Frontend
	answer   *http.Response
}

func openChannel(t *testing.T) *channel {
	t.Helper()
	c := &channel{service: servertest.NewService(t, ledgertest.NewModel(time.Now), servertest.YouTube())}
	listener, frontend := overPipes(t, server.Config{Service: c.service})
	c.frontend = frontend
	transport := &http.Transport{DialContext: listener.dial}
	request, err := http.NewRequestWithContext(t.Context(), "GET", "http://quotad/v1/credentials/youtube/log?follow=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	c.answer, err = transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// grant debits n times.
func (c *channel) grant(t *testing.T, n int) {
	t.Helper()
	for range n {
		d, err := c.service.Acquire(t.Context(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1})
		if err != nil || !d.Granted() {
			t.Fatalf("got %+v, %v, want a grant", d, err)
		}
	}
}

// A stream lasts longer than any other answer may take, and is heard within its pace.
func TestStreamsLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openChannel(t)
		lines := bufio.NewScanner(c.answer.Body)
		for range 3 {
			time.Sleep(time.Hour)
			c.grant(t, 1)
			before := time.Now()
			if !lines.Scan() || !strings.Contains(lines.Text(), `"operation":"videos.list"`) {
				t.Fatalf("got %q, %v, want the grant", lines.Text(), lines.Err())
			}
			if late := time.Since(before); late > time.Second {
				t.Errorf("a grant is told %v late", late)
			}
		}
		if kind := c.answer.Header.Get("Content-Type"); kind != "application/x-ndjson" {
			t.Errorf("content type %q", kind)
		}
	})
}

// Whoever listens and does not read costs a connection for a while, not for ever.
func TestStuckFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openChannel(t)
		c.grant(t, 1000) // more than any buffer on the way holds
		time.Sleep(time.Second)
		if open := c.frontend.Connections().Open; open != 1 {
			t.Errorf("%d connections, want that of the follower", open)
		}
		time.Sleep(10 * time.Second)
		if open := c.frontend.Connections().Open; open != 0 {
			t.Errorf("%d connections after the deadline", open)
		}
		c.answer.Body.Close()
	})
}
