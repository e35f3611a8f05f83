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
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// A DoorConfig bounds the connections. Its zero value means the defaults.
type FrontendConfig struct {
	// Connections is the maximum at once of all users together, ConnectionsPerUser of
	// one of them. 0: the defaults.
	Connections, ConnectionsPerUser int
	// RoomFor are users whose connections count against ConnectionsPerUser alone, so
	// that others cannot lock them out. Root is always one.
	RoomFor []int
	// Self is the pid of a process that is exempt from the connection limits: the
	// daemon's own, which checks whether it answers.
	// 0: there is none.
	Self int
	// Remote knows the callers on other hosts, if the frontend is for them: their connections
	// count by address. Nil: it is for users of this host.
	Remote *Remote
	// TLS configures the frontend's TLS. Nil: the frontend does not use TLS.
	TLS *tls.Config
	// ErrorLog is where net/http complains, of panics for example, and where the frontend
	// reports that it refuses connections. Nil: where package log writes to.
	ErrorLog *log.Logger
}

// The maximum of connections at once, unless a DoorConfig sets others.
const (
	DefaultConnections        = 1024
	DefaultConnectionsPerUser = 256
)

const (
	// overflow is how many connections beyond the limit still get a 503. More
	// are closed.
	overflow = 64
	// unreadTime is how long a frontend that shuts down waits for the first request of
	// connections that it has accepted.
	unreadTime = 300 * time.Millisecond
)

// A Frontend holds the listeners of the API and hands each request to its current Server. A daemon
// has one for as long as it lives, and several servers: one that refuses while it cannot serve,
// and the one that decides. A connection stays when the server changes.
//
// The frontend limits the connections by the user at their other end, and ends them when it shuts
// down. One user's flood leaves room for the others. The flood of many leaves room for root, for
// the users in RoomFor, and for listeners that do not show the user, which serve the metrics. On a
// frontend for other hosts, a connection makes room for a new one unless a good token keeps it open.
type Frontend struct {
	http     *http.Server
	isTLS    bool
	remote   *Remote
	server   atomic.Pointer[Server]
	draining atomic.Bool
	changed  chan struct{} // holds one if a connection is in another phase, or has ended

	mu        sync.Mutex // guards what follows
	bounds    FrontendConfig
	listeners []*frontendListener
	open      map[*connection]bool
	entered   uint64 // how many connections were counted
	refused   uint64
	logged    time.Time // when the log last reported a refusal
}

// NewDoor returns a frontend without a server: call PassTo before Serve.
func NewFrontend(c FrontendConfig) *Frontend {
	d := &Frontend{isTLS: c.TLS != nil, remote: c.Remote, changed: make(chan struct{}, 1), open: make(map[*connection]bool)}
	d.http = &http.Server{
		Handler: d,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, counted(c))
		},
		ConnState:                    d.setState,
		ErrorLog:                     c.ErrorLog,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  api.IdleTimeout,
		MaxHeaderBytes:               maxHeader,
		DisableGeneralOptionsHandler: true,
		TLSConfig:                    c.TLS,
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}
	d.Bound(c)
	return d
}

// PassTo hands each request from now on to a server. Requests under way end where they
// began.
func (d *Frontend) PassTo(to *Server) { d.server.Store(to) }

// Bound replaces the bounds on connections from now on. Remote and TLS stay.
func (d *Frontend) Bound(c FrontendConfig) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c.Connections = cmp.Or(c.Connections, DefaultConnections)
	c.ConnectionsPerUser = cmp.Or(c.ConnectionsPerUser, DefaultConnectionsPerUser)
	c.RoomFor = append([]int{0, unknownUID}, c.RoomFor...)
	c.ErrorLog = cmp.Or(c.ErrorLog, log.Default())
	d.bounds = c
}

// ServeHTTP answers one request.
func (d *Frontend) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.server.Load().ServeHTTP(w, r) }

// Serve answers the connections of a listener until Shutdown, and then closes it. If paths are
// named, the listener serves nothing else. A caller is known on Unix sockets, and by its token to a
// Remote: on any other listener, callers without a run token may only read.
func (d *Frontend) Serve(l net.Listener, paths ...string) error {
	counting := &frontendListener{Listener: l, frontend: d, only: paths, close: sync.OnceValue(l.Close), ended: make(chan struct{})}
	defer close(counting.ended)
	d.mu.Lock()
	d.listeners = append(d.listeners, counting)
	d.mu.Unlock()
	serve := d.http.Serve
	if d.isTLS { // not by http.TLSConfig: net/http sets one if there is none
		serve = func(l net.Listener) error { return d.http.ServeTLS(l, "", "") }
	}
	err := serve(counting)
	if errors.Is(err, http.ErrServerClosed) || d.draining.Load() && errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("cannot serve the API: %w", err)
}

// Connections counts the connections of a frontend.
type Connections struct {
	Open    int    // including those that are being refused
	Refused uint64 // since the start; with those closed to make room
}

// Connections counts the connections on all listeners together.
func (d *Frontend) Connections() Connections {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Connections{Open: len(d.open), Refused: d.refused}
}

// Shutdown closes the listeners, answers every request that has arrived and
// returns. If ctx ends first, it closes the connections that are left and returns the
// error of ctx.
func (d *Frontend) Shutdown(ctx context.Context) error {
	if s := d.server.Load(); s != nil {
		s.endStreams()
	}
	d.drain(ctx)
	err := d.http.Shutdown(ctx)
	if err != nil {
		d.http.Close()
	}
	return err
}

// drain accepts no more connections, and returns when the open ones have
// ended. It answers every request that has arrived, whereas http.Server.Shutdown drops those
// that it has read and not begun to answer. A connection that
// has not asked anything yet gets unreadTime for it.
func (d *Frontend) drain(ctx context.Context) {
	d.draining.Store(true)
	d.mu.Lock()
	listeners := slices.Clone(d.listeners)
	d.mu.Unlock()
	first, cancel := context.WithTimeout(ctx, unreadTime)
	defer cancel()
	for _, l := range listeners {
		l.Close() // an error loses nothing
		select {
		case <-l.ended: // the connection that it was accepting is counted by now
		case <-first.Done():
		}
	}
	d.await(first, fresh)
	for _, c := range d.in(fresh, idle) {
		c.closeRead()
	}
	d.await(ctx, fresh, reading, answering, idle)
}

// await waits until no connection is in one of the phases.
func (d *Frontend) await(ctx context.Context, phases ...int32) {
	for len(d.in(phases...)) > 0 {
		select {
		case <-d.changed:
		case <-ctx.Done():
			return
		}
	}
}

func (d *Frontend) in(phases ...int32) []*connection {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []*connection
	for c := range d.open {
		if slices.Contains(phases, c.phase.Load()) {
			list = append(list, c)
		}
	}
	return list
}

// setState is the http.Server's ConnState.
func (d *Frontend) setState(conn net.Conn, state http.ConnState) {
	c := counted(conn)
	switch state {
	case http.StateActive:
		c.phase.CompareAndSwap(idle, reading)
		c.phase.CompareAndSwap(fresh, reading)
	case http.StateIdle:
		c.phase.Store(idle)
		if d.draining.Load() {
			c.closeRead()
		}
	case http.StateClosed, http.StateHijacked:
		d.leave(c)
	}
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// enter counts a new connection, and reports whether it gets an answer at all.
func (d *Frontend) enter(c *connection) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	// The pid proves that this process is at the other end, though nothing else: no other process
	// has ours before we end.
	if c.own = c.peer.pid != 0 && c.peer.pid == d.bounds.Self; c.own {
		d.open[c] = true
		return true
	}
	c.shares = c.peer.remote != nil || !slices.Contains(d.bounds.RoomFor, c.peer.uid)
	count, shared := d.count(c.peer.origin)
	if c.peer.isProxy { // it connects for many
		count = 0
	}
	switch full := c.shares && shared >= d.bounds.Connections; {
	case count >= d.bounds.ConnectionsPerUser && d.makeRoom(&c.peer.origin):
		count, shared = count-1, shared-1
	case count < d.bounds.ConnectionsPerUser && full && d.makeRoom(nil):
		shared--
	}
	switch {
	case count >= d.bounds.ConnectionsPerUser:
		d.refuse(c, fmt.Sprintf("%v has %s, the most at once", c.peer.origin,
			quota.Count(d.bounds.ConnectionsPerUser, "connection", "connections")))
	case c.shares && shared >= d.bounds.Connections:
		d.refuse(c, quota.Count(d.bounds.Connections, "connection is", "connections are")+" the most at once")
	}
	if count >= d.bounds.ConnectionsPerUser+overflow || c.shares && shared >= d.bounds.Connections+overflow {
		return false
	}
	d.entered++
	c.number, d.open[c] = d.entered, true
	return true
}

// count counts the open connections of an origin, and all those that count against bounds.Connections. The
// caller holds mu.
func (d *Frontend) count(of origin) (same, shared int) {
	for c := range d.open {
		if c.peer.origin == of && !c.own {
			same++
		}
		if c.shares {
			shared++
		}
	}
	return same, shared
}

// keep has a connection stay over which the token of a caller came, unless half of the connections
// are kept for that caller: a stolen token leaves room for the others.
func (d *Frontend) keep(c *connection, caller *RemoteCaller) {
	if c.known.Load() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	held := 0
	for other := range d.open {
		if other.caller != nil && other.caller.Name == caller.Name {
			held++
		}
	}
	if held < max(1, d.bounds.Connections/2) {
		c.caller = caller
		c.known.Store(true)
	}
}

// makeRoom closes the oldest stranger of an origin; nil: of the origin that has the most of them, so
// that a flood from some addresses makes room for the others. A stranger came to a Remote, and no
// token keeps it open. The caller holds mu.
func (d *Frontend) makeRoom(of *origin) bool {
	oldest, count := map[origin]*connection{}, map[origin]int{}
	for c := range d.open {
		from := c.peer.origin
		if c.peer.remote == nil || c.known.Load() || of != nil && from != *of {
			continue
		}
		count[from]++
		if first := oldest[from]; first == nil || c.number < first.number {
			oldest[from] = c
		}
	}
	var most *connection
	for from, c := range oldest {
		if most == nil || cmp.Or(cmp.Compare(count[from], count[most.peer.origin]), cmp.Compare(most.number, c.number)) > 0 {
			most = c
		}
	}
	if most == nil {
		return false
	}
	d.report("connections that no good token keeps open are closed to make room: %v has %d of them", most.peer.origin, count[most.peer.origin])
	delete(d.open, most)
	most.Conn.Close()
	return true
}

// refuse has a connection answered that it is one too many. The caller holds mu.
func (d *Frontend) refuse(c *connection, why string) {
	c.peer.refusal = why
	d.report("connections are refused: %s", why)
}

// report counts a connection that is refused or closed, and logs one a minute. The caller holds mu.
func (d *Frontend) report(format string, args ...any) {
	d.refused++
	if now := time.Now(); now.Sub(d.logged) >= time.Minute {
		d.logged = now
		d.bounds.ErrorLog.Printf(format, args...)
	}
}

// leave removes a connection that has ended.
func (d *Frontend) leave(c *connection) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, c)
}

// A frontendListener is a listener whose connections a frontend counts.
type frontendListener struct {
	net.Listener
	frontend *Frontend
	only     []string      // the paths that it serves; nil: all
	close    func() error  // once: net/http reports the error of a second one
	ended    chan struct{} // closed when it accepts nothing more
}

// Close implements net.Listener.
func (l *frontendListener) Close() error { return l.close() }

// Accept returns the next connection that there is room for.
func (l *frontendListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &connection{Conn: conn, frontend: l.frontend, peer: peerOf(conn)}
		if l.frontend.remote != nil {
			c.peer = l.frontend.remote.peerOf(conn, l.frontend.isTLS)
		}
		c.peer.only = l.only
		if l.frontend.enter(c) {
			return c, nil
		}
		conn.Close()
	}
}
