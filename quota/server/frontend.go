package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// A FrontendConfig says what answers the connections of a listener.
type FrontendConfig struct {
	Handler http.Handler // a Server; or a proxy, which is
	Endless bool         // as long about an answer as it likes
	// AdminGroup is the group whose members have places of their own, as root has, and the process Self: the daemon,
	// which asks whether it answers. Empty: DefaultAdminGroup. 0: there is no such process.
	AdminGroup string
	Self       int
	TLS        *tls.Config // nil: the frontend does not use TLS
	ErrorLog   *log.Logger // of net/http, and of connections that are refused; nil: where package log writes to
}

const (
	maxConnections        = 1024 // at once
	maxConnectionsPerUser = 256
	reservedPlaces        = 16                     // for operators and the daemon, when the others are taken
	unreadTime            = 300 * time.Millisecond // for the first request of what is accepted, at a shutdown
)

// A Frontend answers the connections of one listener, and closes those that are too many.
type Frontend struct {
	config FrontendConfig
	http   *http.Server
	ended  chan struct{} // closed when nothing more is accepted

	mu       sync.Mutex // guards what follows
	listener net.Listener
	open     map[net.Conn]*place // by what the listener accepted
	logged   time.Time           // when the log last reported a refusal
}

// NewFrontend returns a frontend that is ready to Serve.
func NewFrontend(c FrontendConfig) *Frontend {
	c.AdminGroup, c.ErrorLog = cmp.Or(c.AdminGroup, DefaultAdminGroup), cmp.Or(c.ErrorLog, log.Default())
	f := &Frontend{config: c, ended: make(chan struct{}), open: make(map[net.Conn]*place)}
	f.http = &http.Server{
		Handler: c.Handler, ConnContext: withPeer, ConnState: f.changed, ErrorLog: c.ErrorLog, TLSConfig: c.TLS,
		ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: api.IdleTimeout,
		MaxHeaderBytes: maxHeader, DisableGeneralOptionsHandler: true,
	}
	if c.Endless {
		f.http.ReadHeaderTimeout, f.http.ReadTimeout, f.http.WriteTimeout = readTimeout, 0, 0
		f.http.MaxHeaderBytes = 4 * maxHeader
	}
	return f
}

// Serve answers the connections of a listener until Shutdown, and then closes it. A caller is known on Unix sockets, and
// by its token to a Remote: on any other listener, callers without a run token may only read.
func (f *Frontend) Serve(l net.Listener) error {
	defer close(f.ended)
	f.mu.Lock()
	f.listener = l
	f.mu.Unlock()
	serve := f.http.Serve
	if f.config.TLS != nil {
		serve = func(l net.Listener) error { return f.http.ServeTLS(l, "", "") }
	}
	err := serve(boundedListener{l, f})
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("cannot serve the API: %w", err)
}

// Shutdown closes the listener, answers the requests that have arrived and returns. A connection that has not asked
// anything yet gets unreadTime for it: http.Server.Shutdown alone would read its request and not answer. If ctx ends
// first, Shutdown closes the connections that are left and returns the error of ctx.
func (f *Frontend) Shutdown(ctx context.Context) error {
	f.http.SetKeepAlivesEnabled(false) // answers end their connections
	f.mu.Lock()
	l := f.listener
	f.mu.Unlock()
	if l != nil {
		l.Close() // an error loses nothing
		<-f.ended // the connection that it was accepting is counted by now
	}
	first, cancel := context.WithTimeout(ctx, unreadTime)
	defer cancel()
	for len(f.unasked()) > 0 && quota.Sleep(first, unreadTime/100) {
	}
	for _, conn := range f.unasked() {
		conn.Close()
	}
	err := f.http.Shutdown(ctx)
	if err != nil {
		f.http.Close()
	}
	return err
}

// unasked returns the connections that have not asked anything yet.
func (f *Frontend) unasked() (list []net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for conn, p := range f.open {
		if !p.asked {
			list = append(list, conn)
		}
	}
	return list
}

// A boundedListener returns the connections that a frontend has a place for, and closes the others.
type boundedListener struct {
	net.Listener
	frontend *Frontend
}

// Accept implements net.Listener.
func (l boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || l.frontend.admit(conn) {
			return conn, err
		}
		conn.Close()
	}
}

// admit gives a connection a place until it is closed, if there is one: a shared one, or a reserved one.
func (f *Frontend) admit(conn net.Conn) bool {
	p := peerOf(conn)
	full := f.enter(conn, &place{peer: p})
	if full == "" {
		return true
	}
	isOwn := p.pid != 0 && p.pid == f.config.Self || isOperator(p.uid, f.config.AdminGroup) // reads the user database
	if isOwn && f.enter(conn, &place{peer: p, reserved: true}) == "" {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.logged) >= time.Minute {
		f.logged = now
		f.config.ErrorLog.Printf("connections are refused: %s", full)
	}
	return false
}

// A place is what a connection takes until it is closed.
type place struct {
	peer     peer
	reserved bool
	asked    bool // a request has begun
}

// enter gives a connection a place, or returns why it cannot.
func (f *Frontend) enter(conn net.Conn, p *place) (full string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken, ofUser, most := 0, 0, maxConnections
	for _, other := range f.open {
		if other.reserved == p.reserved {
			taken++
			if other.peer.uid == p.peer.uid && p.peer.uid != unknownUID {
				ofUser++
			}
		}
	}
	if p.reserved {
		most = reservedPlaces
	}
	switch {
	case taken >= most:
		return fmt.Sprintf("%d are the most at once", most)
	case ofUser >= maxConnectionsPerUser:
		return fmt.Sprintf("uid %d has %d, the most at once", p.peer.uid, ofUser)
	}
	f.open[conn] = p
	return ""
}

// changed records that a connection has a request, or has ended.
func (f *Frontend) changed(conn net.Conn, state http.ConnState) {
	conn = accepted(conn)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch p := f.open[conn]; {
	case p == nil:
	case state == http.StateActive:
		p.asked = true
	case state == http.StateClosed:
		delete(f.open, conn)
	}
}

// accepted returns the connection that the listener accepted, below TLS too.
func accepted(conn net.Conn) net.Conn {
	if over, isTLS := conn.(*tls.Conn); isTLS {
		return over.NetConn()
	}
	return conn
}

// A peer is the process at the other end of a connection, as it was when it connected. By now another process may have
// its pid, so only the uid gives rights.
type peer struct {
	uid int // unknownUID when not known
	pid int // 0 when not known
}

// unknownUID stands for a caller whose user is not known, as on TCP.
const unknownUID = -1

type peerKey struct{}

func withPeer(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, peerOf(accepted(conn)))
}

// peerFrom returns the peer of a request's connection.
func peerFrom(r *http.Request) peer {
	if p, known := r.Context().Value(peerKey{}).(peer); known {
		return p
	}
	return peer{uid: unknownUID}
}

func peerOf(conn net.Conn) peer {
	p := peer{uid: unknownUID}
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return p
	}
	if raw, err := socket.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
				p.uid, p.pid = int(cred.Uid), int(cred.Pid)
			}
		})
	}
	return p
}
