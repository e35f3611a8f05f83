package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A Fault is what a Proxy does to a command.
type Fault int

// The faults of a connection, as a client meets them.
const (
	Pass      Fault = iota // none
	Swallow                // the server carries the command out, the reply never comes
	CutAfter               // the server carries it out, and the connection breaks before the reply
	CutBefore              // the connection breaks before the server gets the command
	Late                   // the server carries it out, the reply is held back until Release
)

// A Proxy leads from one Unix socket to a server's, and disturbs what passes.
type Proxy struct {
	Addr string // as quotad's configuration has it

	listener net.Listener
	serving  sync.WaitGroup // connections, and the listener

	mu      sync.Mutex // guards what follows
	server  *Server    // of new connections
	rewrite func(reply string) string
	choose  func(command []string) Fault
	release chan struct{} // closed by Release
	holding *sync.WaitGroup
	open    map[net.Conn]struct{}
	closed  bool
}

// NewProxy returns a proxy that disturbs nothing yet.
func NewProxy(tb testing.TB, server *Server) *Proxy {
	tb.Helper()
	p := &Proxy{
		server:  server,
		rewrite: func(reply string) string { return reply },
		choose:  func([]string) Fault { return Pass },
		release: make(chan struct{}),
		holding: &sync.WaitGroup{},
		open:    make(map[net.Conn]struct{}),
	}
	p.listener, p.Addr = listen(tb)
	p.serving.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// listen listens on a Unix socket with a short path, and returns the address as quotad's configuration has it.
func listen(tb testing.TB) (_ net.Listener, addr string) {
	tb.Helper()
	dir, err := os.MkdirTemp("", "proxy")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		tb.Fatal(err)
	}
	return listener, "unix://" + filepath.Join(dir, "s")
}

// Disturb has choose say, from now on, what each command meets. Commands of
// several connections may ask at the same time.
func (p *Proxy) Disturb(choose func(command []string) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.choose = choose
}

// Lead leads new connections to a server, and leaves the others where they are.
func (p *Proxy) Lead(server *Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = server
}

// Rewrite has rewrite change each reply from now on.
func (p *Proxy) Rewrite(rewrite func(reply string) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rewrite = rewrite
}

// Meet has the script calls that follow meet these faults in turn, and no others.
func (p *Proxy) Meet(faults ...Fault) {
	var mu sync.Mutex // guards faults
	p.Disturb(func(command []string) Fault {
		mu.Lock()
		defer mu.Unlock()
		if len(faults) == 0 || !IsScript(command) {
			return Pass
		}
		fault := faults[0]
		faults = faults[1:]
		return fault
	})
}

// IsScript reports whether a command runs a script.
func IsScript(command []string) bool {
	name := strings.ToUpper(command[0])
	return name == "EVALSHA" || name == "EVAL"
}

// Release lets go of what is held back, and returns when it has arrived.
func (p *Proxy) Release() {
	p.mu.Lock()
	held := p.holding
	close(p.release)
	p.release, p.holding = make(chan struct{}), &sync.WaitGroup{}
	p.mu.Unlock()
	held.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.serving.Go(func() { p.serve(client) })
	}
}

// serve handles one connection until either side, or a fault, ends it.
func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	p.mu.Lock()
	to := p.server.socket()
	p.mu.Unlock()
	server, err := net.Dial("unix", to)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.open[client], p.open[server] = struct{}{}, struct{}{}
	closed := p.closed
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.open, client)
		delete(p.open, server)
		p.mu.Unlock()
	}()
	commands, replies := bufio.NewReader(client), bufio.NewReader(server)
	for !closed {
		value, raw, err := read(commands, nil)
		if err != nil {
			return
		}
		carry := func() (reply []byte, err error) {
			if _, err := server.Write(raw); err != nil {
				return nil, err
			}
			_, reply, err = read(replies, nil)
			p.mu.Lock()
			defer p.mu.Unlock()
			return []byte(p.rewrite(string(reply))), err
		}
		command := []string{""}
		if list, _ := value.([]any); len(list) > 0 {
			command = nil
			for _, word := range list {
				command = append(command, fmt.Sprint(word))
			}
		}
		if p.pass(client, command, carry) != nil {
			return
		}
	}
}

var errCut = errors.New("the connection is cut")

// pass leads one command to the server and its reply back, or does to them what was chosen.
func (p *Proxy) pass(client net.Conn, command []string, carry func() ([]byte, error)) error {
	p.mu.Lock()
	choose := p.choose
	p.mu.Unlock()
	fault := choose(command)
	p.mu.Lock()
	release, holding := p.release, p.holding
	if fault == Late {
		holding.Add(1)
		defer holding.Done()
	}
	p.mu.Unlock()
	if fault == CutBefore {
		return errCut
	}
	reply, err := carry()
	switch {
	case err != nil:
		return err
	case fault == CutAfter:
		return errCut
	case fault == Swallow:
		return nil
	case fault == Late:
		<-release
	}
	_, err = client.Write(reply)
	return err
}

// close cuts every connection and waits until nothing runs any more.
func (p *Proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	p.closed = true
	close(p.release)
	for conn := range p.open {
		conn.Close()
	}
	p.mu.Unlock()
	p.serving.Wait()
}
