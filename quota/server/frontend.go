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
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// A FrontendConfig bounds the connections. Its zero value means the defaults.
type FrontendConfig struct {
	// Connections is the maximum at once on a listener, ConnectionsPerUser of one user on it. 0: the
	// defaults.
	Connections, ConnectionsPerUser int
	// AdminGroup is the group whose members have places of their own, as root has, and the process Self:
	// the daemon, which asks whether it answers. Empty: DefaultAdminGroup. 0: there is no such process.
	AdminGroup string
	Self       int
	// Remote knows the callers on other hosts by their tokens, if the frontend is for them. Nil: it is
	// for users of this host.
	Remote *Remote
	// TLS configures the frontend's TLS. Nil: the frontend does not use TLS.
	TLS *tls.Config
	// Handler answers in place of a Server, for as long as it likes: a proxy. Nil: there is none.
	Handler http.Handler
	// ErrorLog is where net/http complains, of panics for example, and where the frontend
	// reports that it refuses connections. Nil: where package log writes to.
	ErrorLog *log.Logger
}

// The maximum of connections at once, unless a FrontendConfig sets others.
const (
	DefaultConnections        = 1024
	DefaultConnectionsPerUser = 256
)

// Seats are what the connections of a listener take. The shared ones are for everybody. Once they are
// taken, root with the admin group has some of its own, and so has the daemon. Other connections are
// refused: some by a 503, which takes a seat too, and the rest by closing them.
type seats int

const (
	shared seats = iota
	reserved
	own
	refusing
	none
)

const (
	reservedPlaces = 16
	ownPlaces      = 4
	refusingPlaces = 64
)

// unreadTime is how long a frontend that shuts down waits for the first request of connections that it
// has accepted.
const unreadTime = 300 * time.Millisecond

// A Frontend holds listeners of the API and hands each request to its Server.
type Frontend struct {
	http    *http.Server
	isTLS   bool
	remote  *Remote
	handler http.Handler // nil: the server is
	server  atomic.Pointer[Server]
	closing atomic.Bool // answers end their connections

	mu        sync.Mutex // guards what follows
	bounds    FrontendConfig
	listeners []*boundedListener
	open      map[*connection]bool
	refused   uint64
	logged    time.Time // when the log last reported a refusal
}

// NewFrontend returns a frontend without a server: call PassTo before Serve.
func NewFrontend(c FrontendConfig) *Frontend {
	f := &Frontend{isTLS: c.TLS != nil, remote: c.Remote, handler: c.Handler, open: make(map[*connection]bool)}
	f.http = &http.Server{
		Handler: f,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, accepted(conn))
		},
		ErrorLog:                     c.ErrorLog,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  api.IdleTimeout,
		MaxHeaderBytes:               maxHeader,
		DisableGeneralOptionsHandler: true,
		TLSConfig:                    c.TLS,
	}
	if c.Handler != nil {
		f.http.ReadHeaderTimeout, f.http.ReadTimeout, f.http.WriteTimeout = readTimeout, 0, 0
		f.http.MaxHeaderBytes = 4 * maxHeader
	}
	f.Bound(c)
	return f
}

// PassTo hands each request from now on to a server. Requests under way end where they
// began.
func (f *Frontend) PassTo(to *Server) { f.server.Store(to) }

// Bound replaces the bounds on connections from now on. Remote and TLS stay.
func (f *Frontend) Bound(c FrontendConfig) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.Connections = cmp.Or(c.Connections, DefaultConnections)
	c.ConnectionsPerUser = cmp.Or(c.ConnectionsPerUser, DefaultConnectionsPerUser)
	c.AdminGroup = cmp.Or(c.AdminGroup, DefaultAdminGroup)
	c.ErrorLog = cmp.Or(c.ErrorLog, log.Default())
	f.bounds = c
}

// ServeHTTP answers one request.
func (f *Frontend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	connectionOf(r).asked.Store(true)
	if f.closing.Load() {
		w.Header().Set("Connection", "close")
	}
	switch why := connectionOf(r).peer.refusal; {
	case why != "":
		w.Header().Set("Connection", "close")
		WriteProblem(w, api.NewProblem(api.TooManyConnections, "%s", why))
	case f.handler != nil:
		f.handler.ServeHTTP(w, r)
	default:
		f.server.Load().ServeHTTP(w, r)
	}
}

// Serve answers the connections of a listener until Shutdown, and then closes it. If paths are
// named, the listener serves nothing else. A caller is known on Unix sockets, and by its token to a
// Remote: on any other listener, callers without a run token may only read.
func (f *Frontend) Serve(l net.Listener, paths ...string) error {
	bounded := &boundedListener{Listener: l, frontend: f, only: paths, close: sync.OnceValue(l.Close), ended: make(chan struct{}), byUser: make(map[int]int)}
	defer close(bounded.ended)
	f.mu.Lock()
	f.listeners = append(f.listeners, bounded)
	f.mu.Unlock()
	serve := f.http.Serve
	if f.isTLS { // not by http.TLSConfig: net/http sets one if there is none
		serve = func(l net.Listener) error { return f.http.ServeTLS(l, "", "") }
	}
	err := serve(bounded)
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

// Connections counts the connections on all listeners together.
func (f *Frontend) Connections() Connections {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Connections{Open: len(f.open), Refused: f.refused}
}

// Shutdown closes the listeners, answers the requests that have arrived and returns. A connection that
// has not asked anything yet gets unreadTime for it: http.Server.Shutdown alone would read its request and
// not answer. If ctx ends first, Shutdown closes the connections that are left and returns the error of ctx.
func (f *Frontend) Shutdown(ctx context.Context) error {
	f.closing.Store(true)
	f.http.SetKeepAlivesEnabled(false)
	first, cancel := context.WithTimeout(ctx, unreadTime)
	defer cancel()
	f.mu.Lock()
	listeners := f.listeners
	f.mu.Unlock()
	for _, l := range listeners {
		l.Close() // an error loses nothing
		select {
		case <-l.ended: // the connection that it was accepting is counted by now
		case <-first.Done():
		}
	}
	for len(f.fresh()) > 0 && quota.Sleep(first, unreadTime/100) {
	}
	for _, c := range f.fresh() {
		c.Close()
	}
	err := f.http.Shutdown(ctx)
	if err != nil {
		f.http.Close()
	}
	return err
}

// fresh returns the connections that have not asked anything yet.
func (f *Frontend) fresh() (list []*connection) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.open {
		if !c.asked.Load() {
			list = append(list, c)
		}
	}
	return list
}

// A boundedListener bounds the connections of a listener: in all, and of each user.
type boundedListener struct {
	net.Listener
	frontend *Frontend
	only     []string      // the paths that it serves; nil: all
	close    func() error  // once: net/http reports the error of a second one
	ended    chan struct{} // closed when it accepts nothing more

	// Guarded by the frontend's lock: how many places are taken, and of the shared ones, by whom.
	taken  [none + 1]int
	byUser map[int]int
}

// Close implements net.Listener.
func (l *boundedListener) Close() error { return l.close() }

// Accept returns the next connection that there is a place for.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &connection{Conn: conn, peer: peerOf(conn)}
		c.peer.remote, c.peer.only = l.frontend.remote, l.only
		if l.admit(c) {
			return c, nil
		}
		conn.Close()
	}
}

// admit finds a place for a connection, if there is one.
func (l *boundedListener) admit(c *connection) bool {
	full := l.enter(c, shared)
	if full == "" || l.enter(c, l.frontend.seatsOf(c.peer)) == "" {
		return true
	}
	c.peer.refusal = full
	l.frontend.report(full)
	return l.enter(c, refusing) == ""
}

// enter gives a connection a place, until it is closed. It returns why it cannot.
func (l *boundedListener) enter(c *connection, as seats) (full string) {
	f, uid := l.frontend, c.peer.uid
	f.mu.Lock()
	defer f.mu.Unlock()
	most := [...]int{shared: f.bounds.Connections, reserved: reservedPlaces, own: ownPlaces, refusing: refusingPlaces, none: 0}[as]
	counts := as == shared && uid != unknownUID
	switch perUser := f.bounds.ConnectionsPerUser; {
	case l.taken[as] >= most:
		return quota.Count(most, "connection is", "connections are") + " the most at once"
	case counts && l.byUser[uid] >= perUser:
		return fmt.Sprintf("uid %d has %s, the most at once", uid, quota.Count(perUser, "connection", "connections"))
	case counts:
		l.byUser[uid]++
	}
	l.taken[as]++
	f.open[c] = true
	c.leave = sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.open, c)
		l.taken[as]--
		if counts {
			l.byUser[uid]--
		}
	})
	return ""
}

// seatsOf returns the kind of place that is a peer's own. It reads the user database. The pid proves that
// the daemon is at the other end: no other process has ours before we end.
func (f *Frontend) seatsOf(p peer) seats {
	f.mu.Lock()
	b := f.bounds
	f.mu.Unlock()
	switch {
	case p.pid != 0 && p.pid == b.Self:
		return own
	case isOperator(p.uid, b.AdminGroup):
		return reserved
	}
	return none
}

// report counts a connection that is refused, and logs one a minute.
func (f *Frontend) report(why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused++
	if now := time.Now(); now.Sub(f.logged) >= time.Minute {
		f.logged = now
		f.bounds.ErrorLog.Printf("connections are refused: %s", why)
	}
}
