package redistest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Fault is what a Proxy does to a command: one of these, or else a reply that takes the place of the server's.
type Fault string

// The faults of a connection, as a client meets them.
const (
	Pass      Fault = ""
	Swallow   Fault = "swallow"    // the server carries the command out, the reply never comes
	CutAfter  Fault = "cut after"  // the server carries it out, and the connection breaks before the reply
	CutBefore Fault = "cut before" // the connection breaks before the server gets the command
)

// A Proxy leads from one Unix socket to a server's, and disturbs what passes.
type Proxy struct {
	Addr string // as quotad's configuration has it

	mu     sync.Mutex // guards what follows
	server *Server    // of new connections
	choose func(command []string) Fault
}

// NewProxy returns a proxy that disturbs nothing yet.
func NewProxy(tb testing.TB, server *Server) *Proxy {
	tb.Helper()
	p := &Proxy{server: server, choose: func([]string) Fault { return Pass }}
	p.Addr = lead(tb, func() *Server {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.server
	}, p.carry)
	return p
}

// Disturb has choose say, from now on, what each command meets. Commands of several connections may ask at the same
// time.
func (p *Proxy) Disturb(choose func(command []string) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.choose = choose
}

// Meet has the next call of a script meet a fault, and what follows none.
func (p *Proxy) Meet(fault Fault) {
	var met sync.Once
	p.Disturb(func(command []string) (f Fault) {
		if name := strings.ToUpper(command[0]); name == "EVALSHA" || name == "EVAL" {
			met.Do(func() { f = fault })
		}
		return f
	})
}

// Lead leads new connections to a server, and leaves the others where they are.
func (p *Proxy) Lead(server *Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = server
}

// carry carries commands and replies until either side, or a fault, ends the connection.
func (p *Proxy) carry(client, server net.Conn) {
	commands, replies := bufio.NewReader(client), bufio.NewReader(server)
	for {
		value, command, err := read(commands, nil)
		if err != nil {
			return
		}
		list, _ := value.([]any)
		words := make([]string, max(1, len(list)))
		for i, word := range list {
			words[i] = fmt.Sprint(word)
		}
		p.mu.Lock()
		choose := p.choose
		p.mu.Unlock()
		fault := choose(words)
		if fault == CutBefore {
			return
		}
		if _, err := server.Write(command); err != nil {
			return
		}
		_, reply, err := read(replies, nil)
		switch {
		case err != nil || fault == CutAfter:
			return
		case fault == Swallow:
			continue
		case fault != Pass:
			reply = []byte(fault)
		}
		if _, err := client.Write(reply); err != nil {
			return
		}
	}
}

// FarAway returns an address from which a server is half of a round trip away.
func FarAway(tb testing.TB, server *Server, roundTrip time.Duration) (addr string) {
	tb.Helper()
	if roundTrip == 0 {
		return server.Addr
	}
	return lead(tb, func() *Server { return server }, func(near, far net.Conn) {
		go late(far, near, roundTrip/2)
		late(near, far, roundTrip/2)
	})
}

// late carries what comes from one connection to another, that much later.
func late(to, from net.Conn, by time.Duration) {
	type part struct {
		text []byte
		due  time.Time
	}
	parts := make(chan part, 10_000)
	go func() {
		defer close(parts)
		for {
			text := make([]byte, 64<<10)
			n, err := from.Read(text)
			if err != nil {
				return
			}
			parts <- part{text[:n], time.Now().Add(by)}
		}
	}()
	for p := range parts {
		time.Sleep(time.Until(p.due))
		if _, err := to.Write(p.text); err != nil {
			break
		}
	}
	to.Close()
}

// lead leads from a Unix socket with a short path to that of a server, each connection by carry, until the test ends.
func lead(tb testing.TB, to func() *Server, carry func(client, server net.Conn)) (addr string) {
	tb.Helper()
	dir, err := os.MkdirTemp("", "proxy")
	must(tb, err)
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	must(tb, err)
	ctx, cut := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serve := func(client net.Conn) {
		defer client.Close()
		server, err := net.Dial("unix", to().socket())
		if err != nil {
			return
		}
		defer server.Close()
		defer context.AfterFunc(ctx, func() { client.Close(); server.Close() })()
		carry(client, server)
	}
	serving.Go(func() {
		for client, err := listener.Accept(); err == nil; client, err = listener.Accept() {
			serving.Go(func() { serve(client) })
		}
	})
	tb.Cleanup(func() {
		listener.Close()
		cut()
		serving.Wait()
		os.RemoveAll(dir)
	})
	return "unix://" + filepath.Join(dir, "s")
}
