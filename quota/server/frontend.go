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
	"syscall"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// A FrontendConfig bounds the connections. Its zero value means the defaults.
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

// The maximum of connections at once, unless a FrontendConfig sets others.
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
	sweeper  *time.Timer   // calls sweep
	sweeping atomic.Bool   // it will soon
	watches  sync.WaitGroup

	mu        sync.Mutex // guards what follows
	bounds    FrontendConfig
	listeners []*frontendListener
	open      map[*connection]bool
	entered   uint64 // how many connections were counted
	refused   uint64
	logged    time.Time // when the log last reported a refusal
}

// NewFrontend returns a frontend without a server: call PassTo before Serve.
func NewFrontend(c FrontendConfig) *Frontend {
	f := &Frontend{isTLS: c.TLS != nil, remote: c.Remote, changed: make(chan struct{}, 1), open: make(map[*connection]bool)}
	f.http = &http.Server{
		Handler: f,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			c := counted(conn)
			ctx, c.gone = context.WithCancel(context.WithValue(ctx, connectionKey{}, c))
			return ctx
		},
		ConnState:                    f.setState,
		ErrorLog:                     c.ErrorLog,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  api.IdleTimeout,
		MaxHeaderBytes:               maxHeader,
		DisableGeneralOptionsHandler: true,
		TLSConfig:                    c.TLS,
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}
	f.sweeper = time.AfterFunc(lateTime, f.sweep)
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
	c.RoomFor = append([]int{0, unknownUID}, c.RoomFor...)
	c.ErrorLog = cmp.Or(c.ErrorLog, log.Default())
	f.bounds = c
}

// ServeHTTP answers one request.
func (f *Frontend) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.server.Load().ServeHTTP(w, r) }

// Serve answers the connections of a listener until Shutdown, and then closes it. If paths are
// named, the listener serves nothing else. A caller is known on Unix sockets, and by its token to a
// Remote: on any other listener, callers without a run token may only read.
func (f *Frontend) Serve(l net.Listener, paths ...string) error {
	counting := &frontendListener{Listener: l, frontend: f, only: paths, close: sync.OnceValue(l.Close), ended: make(chan struct{})}
	defer close(counting.ended)
	f.mu.Lock()
	f.listeners = append(f.listeners, counting)
	f.mu.Unlock()
	serve := f.http.Serve
	if f.isTLS { // not by http.TLSConfig: net/http sets one if there is none
		serve = func(l net.Listener) error { return f.http.ServeTLS(l, "", "") }
	}
	err := serve(counting)
	if errors.Is(err, http.ErrServerClosed) || f.draining.Load() && errors.Is(err, net.ErrClosed) {
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
func (f *Frontend) Connections() Connections {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Connections{Open: len(f.open), Refused: f.refused}
}

// Shutdown closes the listeners, answers every request that has arrived and
// returns. If ctx ends first, it closes the connections that are left and returns the
// error of ctx.
func (f *Frontend) Shutdown(ctx context.Context) error {
	if s := f.server.Load(); s != nil {
		s.endStreams()
	}
	f.drain(ctx)
	err := f.http.Shutdown(ctx)
	if err != nil {
		f.http.Close()
	}
	f.Connections() // waits for a sweep that has begun
	f.watches.Wait()
	return err
}

// drain accepts no more connections, and returns when the open ones have
// ended. It answers every request that has arrived, whereas http.Server.Shutdown drops those
// that it has read and not begun to answer. A connection that
// has not asked anything yet gets unreadTime for it.
func (f *Frontend) drain(ctx context.Context) {
	f.draining.Store(true)
	f.mu.Lock()
	listeners := slices.Clone(f.listeners)
	f.mu.Unlock()
	first, cancel := context.WithTimeout(ctx, unreadTime)
	defer cancel()
	for _, l := range listeners {
		l.Close() // an error loses nothing
		select {
		case <-l.ended: // the connection that it was accepting is counted by now
		case <-first.Done():
		}
	}
	f.await(first, fresh)
	for _, c := range f.in(fresh, idle) {
		c.closeRead()
	}
	f.await(ctx, fresh, reading, answering, idle)
}

// await waits until no connection is in one of the phases.
func (f *Frontend) await(ctx context.Context, phases ...int32) {
	for len(f.in(phases...)) > 0 {
		select {
		case <-f.changed:
		case <-ctx.Done():
			return
		}
	}
}

func (f *Frontend) in(phases ...int32) []*connection {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []*connection
	for c := range f.open {
		if slices.Contains(phases, c.phase.Load()) {
			list = append(list, c)
		}
	}
	return list
}

// setState is the http.Server's ConnState.
func (f *Frontend) setState(conn net.Conn, state http.ConnState) {
	c := counted(conn)
	switch state {
	case http.StateActive:
		c.phase.CompareAndSwap(idle, reading)
		c.phase.CompareAndSwap(fresh, reading)
	case http.StateIdle:
		c.phase.Store(idle)
		if f.draining.Load() {
			c.closeRead()
		}
	case http.StateClosed:
		c.gone()
		f.leave(c)
	case http.StateHijacked:
		f.leave(c)
	}
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// lateTime is how long a request may take until its caller is watched.
const lateTime = 20 * time.Millisecond

// watchLate has the caller of a request watched if that takes long. It returns false if it cannot.
func (f *Frontend) watchLate(c *connection) bool {
	if _, ok := c.Conn.(syscall.Conn); !ok {
		return false
	}
	c.unwatched.Add(1)
	f.sweepSoon()
	return true
}

func (f *Frontend) sweepSoon() {
	if !f.sweeping.Load() && f.sweeping.CompareAndSwap(false, true) {
		f.sweeper.Reset(lateTime)
	}
}

// sweep watches the callers of the requests that were under way at the last sweep, too.
func (f *Frontend) sweep() {
	f.sweeping.Store(false)
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.open {
		n, phase := c.unwatched.Load(), c.phase.Load()
		switch {
		case c.watched == n || phase == fresh || phase == idle || f.draining.Load():
		case c.late == n:
			c.watched = n
			f.watches.Go(c.watch)
		default:
			c.late = n
			f.sweepSoon()
		}
	}
}

// enter counts a new connection, and reports whether it gets an answer at all.
func (f *Frontend) enter(c *connection) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	// The pid proves that this process is at the other end, though nothing else: no other process
	// has ours before we end.
	if c.own = c.peer.pid != 0 && c.peer.pid == f.bounds.Self; c.own {
		f.open[c] = true
		return true
	}
	c.shares = c.peer.remote != nil || !slices.Contains(f.bounds.RoomFor, c.peer.uid)
	count, shared := f.count(c.peer.origin)
	if c.peer.isProxy { // it connects for many
		count = 0
	}
	switch full := c.shares && shared >= f.bounds.Connections; {
	case count >= f.bounds.ConnectionsPerUser && f.makeRoom(&c.peer.origin):
		count, shared = count-1, shared-1
	case count < f.bounds.ConnectionsPerUser && full && f.makeRoom(nil):
		shared--
	}
	switch {
	case count >= f.bounds.ConnectionsPerUser:
		f.refuse(c, fmt.Sprintf("%v has %s, the most at once", c.peer.origin,
			quota.Count(f.bounds.ConnectionsPerUser, "connection", "connections")))
	case c.shares && shared >= f.bounds.Connections:
		f.refuse(c, quota.Count(f.bounds.Connections, "connection is", "connections are")+" the most at once")
	}
	if count >= f.bounds.ConnectionsPerUser+overflow || c.shares && shared >= f.bounds.Connections+overflow {
		return false
	}
	f.entered++
	c.number, f.open[c] = f.entered, true
	return true
}

// count counts the open connections of an origin, and all those that count against bounds.Connections. The
// caller holds mu.
func (f *Frontend) count(of origin) (same, shared int) {
	for c := range f.open {
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
func (f *Frontend) keep(c *connection, caller *RemoteCaller) {
	if c.known.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	held := 0
	for other := range f.open {
		if other.caller != nil && other.caller.Name == caller.Name {
			held++
		}
	}
	if held < max(1, f.bounds.Connections/2) {
		c.caller = caller
		c.known.Store(true)
	}
}

// makeRoom closes the oldest stranger of an origin; nil: of the origin that has the most of them, so
// that a flood from some addresses makes room for the others. A stranger came to a Remote, and no
// token keeps it open. The caller holds mu.
func (f *Frontend) makeRoom(of *origin) bool {
	oldest, count := map[origin]*connection{}, map[origin]int{}
	for c := range f.open {
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
	f.report("connections that no good token keeps open are closed to make room: %v has %d of them", most.peer.origin, count[most.peer.origin])
	delete(f.open, most)
	most.Conn.Close()
	return true
}

// refuse has a connection answered that it is one too many. The caller holds mu.
func (f *Frontend) refuse(c *connection, why string) {
	c.peer.refusal = why
	f.report("connections are refused: %s", why)
}

// report counts a connection that is refused or closed, and logs one a minute. The caller holds mu.
func (f *Frontend) report(format string, args ...any) {
	f.refused++
	if now := time.Now(); now.Sub(f.logged) >= time.Minute {
		f.logged = now
		f.bounds.ErrorLog.Printf(format, args...)
	}
}

// leave removes a connection that has ended.
func (f *Frontend) leave(c *connection) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, c)
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
