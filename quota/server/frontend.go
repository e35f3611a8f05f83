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
	"sync/atomic"
	"syscall"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// A FrontendConfig says what answers the connections of a listener, and bounds them.
type FrontendConfig struct {
	Handler http.Handler // a Server; or a proxy, which is
	Endless bool         // as long about an answer as it likes
	Only    []string     // the paths that are served; nil: all
	// Connections is the maximum at once, ConnectionsPerUser of one user. 0: the defaults.
	Connections, ConnectionsPerUser int
	// AdminGroup is the group whose members have places of their own, as root has, and the process Self: the daemon,
	// which asks whether it answers. Empty: DefaultAdminGroup. 0: there is no such process.
	AdminGroup string
	Self       int
	Remote     *Remote     // knows the callers on other hosts, if the frontend is for them; nil: it is for this host
	TLS        *tls.Config // nil: the frontend does not use TLS
	ErrorLog   *log.Logger // of net/http, and of connections that are refused; nil: where package log writes to
}

// The maximum of connections at once, unless a FrontendConfig sets others.
const (
	DefaultConnections        = 1024
	DefaultConnectionsPerUser = 256
)

const (
	reservedPlaces = 16                     // for operators and the daemon, when the others are taken
	refusingPlaces = 64                     // for connections that are answered 503; what is more is closed
	unreadTime     = 300 * time.Millisecond // for the first request of what is accepted, at a shutdown
)

// A Frontend answers the connections of one listener.
type Frontend struct {
	config  FrontendConfig
	http    *http.Server
	closing atomic.Bool   // answers end their connections
	ended   chan struct{} // closed when nothing more is accepted

	mu                         sync.Mutex // guards what follows
	listener                   net.Listener
	shared, reserved, refusing int         // places that are taken
	byUser                     map[int]int // of the shared ones
	open                       map[net.Conn]*place
	refused                    uint64
	logged                     time.Time // when the log last reported a refusal
}

// A place is what a connection takes until it is closed.
type place struct {
	peer  peer
	asked bool   // a request has begun
	leave func() // gives the place back
}

// NewFrontend returns a frontend that is ready to Serve.
func NewFrontend(c FrontendConfig) *Frontend {
	c.Connections = cmp.Or(c.Connections, DefaultConnections)
	c.ConnectionsPerUser = cmp.Or(c.ConnectionsPerUser, DefaultConnectionsPerUser)
	c.AdminGroup, c.ErrorLog = cmp.Or(c.AdminGroup, DefaultAdminGroup), cmp.Or(c.ErrorLog, log.Default())
	f := &Frontend{config: c, ended: make(chan struct{}), byUser: make(map[int]int), open: make(map[net.Conn]*place)}
	f.http = &http.Server{
		Handler: f, ConnContext: f.withPeer, ConnState: f.changed, ErrorLog: c.ErrorLog, TLSConfig: c.TLS,
		ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: api.IdleTimeout,
		MaxHeaderBytes: maxHeader, DisableGeneralOptionsHandler: true,
	}
	if c.Endless {
		f.http.ReadHeaderTimeout, f.http.ReadTimeout, f.http.WriteTimeout = readTimeout, 0, 0
		f.http.MaxHeaderBytes = 4 * maxHeader
	}
	return f
}

// ServeHTTP answers one request.
func (f *Frontend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	why := peerFrom(r).refusal
	if why != "" || f.closing.Load() {
		w.Header().Set("Connection", "close")
	}
	if why != "" {
		WriteProblem(w, api.NewProblem(api.TooManyConnections, "%s", why))
		return
	}
	f.config.Handler.ServeHTTP(w, r)
}

// Serve answers the connections of a listener until Shutdown, and then closes it. A caller is known on Unix sockets, and
// by its token to a Remote: on any other listener, callers without a run token may only read.
func (f *Frontend) Serve(l net.Listener) error {
	defer close(f.ended)
	once := &closedOnce{Listener: l}
	f.mu.Lock()
	f.listener = once
	f.mu.Unlock()
	serve := f.http.Serve
	if f.config.TLS != nil {
		serve = func(l net.Listener) error { return f.http.ServeTLS(l, "", "") }
	}
	err := serve(accepting{once, f})
	if errors.Is(err, http.ErrServerClosed) || f.closing.Load() && errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("cannot serve the API: %w", err)
}

// Connections counts the connections of a frontend.
type Connections struct {
	Open    int    // including those that are being refused
	Refused uint64 // since the start
}

// Connections counts the connections.
func (f *Frontend) Connections() Connections {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Connections{Open: len(f.open), Refused: f.refused}
}

// Shutdown closes the listener, answers the requests that have arrived and returns. A connection that has not asked
// anything yet gets unreadTime for it: http.Server.Shutdown alone would read its request and not answer. If ctx ends
// first, Shutdown closes the connections that are left and returns the error of ctx.
func (f *Frontend) Shutdown(ctx context.Context) error {
	f.closing.Store(true)
	f.http.SetKeepAlivesEnabled(false)
	first, cancel := context.WithTimeout(ctx, unreadTime)
	defer cancel()
	f.mu.Lock()
	l := f.listener
	f.mu.Unlock()
	if l != nil {
		l.Close() // an error loses nothing
		select {
		case <-f.ended: // the connection that it was accepting is counted by now
		case <-first.Done():
		}
	}
	for len(f.fresh()) > 0 && quota.Sleep(first, unreadTime/100) {
	}
	for _, conn := range f.fresh() {
		conn.Close()
	}
	err := f.http.Shutdown(ctx)
	if err != nil {
		f.http.Close()
	}
	return err
}

// fresh returns the connections that have not asked anything yet.
func (f *Frontend) fresh() (list []net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for conn, p := range f.open {
		if !p.asked {
			list = append(list, conn)
		}
	}
	return list
}

// A closedOnce is a listener that may be closed twice, of which net/http would report an error.
type closedOnce struct {
	net.Listener
	once sync.Once
	err  error
}

// Close implements net.Listener.
func (l *closedOnce) Close() error {
	l.once.Do(func() { l.err = l.Listener.Close() })
	return l.err
}

// An accepting listener returns the connections that a frontend has a place for.
type accepting struct {
	net.Listener
	frontend *Frontend
}

// Accept implements net.Listener.
func (l accepting) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || l.frontend.admit(conn) {
			return conn, err
		}
		conn.Close()
	}
}

// admit gives a connection a place, if there is one: a shared one; a reserved one; one on which it is refused.
func (f *Frontend) admit(conn net.Conn) bool {
	c, p := f.config, peerOf(conn)
	p.remote, p.only = c.Remote, c.Only
	full := f.enter(conn, p, &f.shared, c.Connections, c.ConnectionsPerUser)
	isOwn := func() bool { return p.pid != 0 && p.pid == c.Self || isOperator(p.uid, c.AdminGroup) } // reads the user database
	if full == "" || isOwn() && f.enter(conn, p, &f.reserved, reservedPlaces, 0) == "" {
		return true
	}
	p.refusal = full
	f.report(full)
	return f.enter(conn, p, &f.refusing, refusingPlaces, 0) == ""
}

// enter gives a connection one of the places (most in all, perUser for each user; 0: all) until it is closed. It returns
// why it cannot.
func (f *Frontend) enter(conn net.Conn, p peer, taken *int, most, perUser int) (full string) {
	counts := perUser > 0 && p.uid != unknownUID
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case *taken >= most:
		return quota.Count(most, "connection is", "connections are") + " the most at once"
	case counts && f.byUser[p.uid] >= perUser:
		return fmt.Sprintf("uid %d has %s, the most at once", p.uid, quota.Count(perUser, "connection", "connections"))
	case counts:
		f.byUser[p.uid]++
	}
	*taken++
	f.open[conn] = &place{peer: p, leave: func() {
		*taken--
		if counts {
			f.byUser[p.uid]--
		}
	}}
	return ""
}

// report counts a connection that is refused, and logs one a minute.
func (f *Frontend) report(why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused++
	if now := time.Now(); now.Sub(f.logged) >= time.Minute {
		f.logged = now
		f.config.ErrorLog.Printf("connections are refused: %s", why)
	}
}

// changed records that a connection has a request, or has ended.
func (f *Frontend) changed(conn net.Conn, state http.ConnState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch p := f.open[accepted(conn)]; {
	case p == nil:
	case state == http.StateActive:
		p.asked = true
	case state == http.StateClosed:
		delete(f.open, accepted(conn))
		p.leave()
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
	uid     int      // unknownUID when not known
	pid     int      // 0 when not known
	remote  *Remote  // knows the caller by its token; nil: it is on this host
	refusal string   // why the connection is one too many; empty: it is not
	only    []string // the paths that are served; nil: all
}

// unknownUID stands for a caller whose user is not known, as on TCP.
const unknownUID = -1

type peerKey struct{}

func (f *Frontend) withPeer(ctx context.Context, conn net.Conn) context.Context {
	f.mu.Lock()
	defer f.mu.Unlock()
	return context.WithValue(ctx, peerKey{}, f.open[accepted(conn)].peer)
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
