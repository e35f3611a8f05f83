package server_test

import (
	"context"
	"net"
	"net/http"
	"testing"

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
