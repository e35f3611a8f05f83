package server

import (
	"cmp"
	"context"
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
)

// Connections says how many a server has, and has had to turn away.
type Connections struct {
	Open    int    // those that are being turned away included
	Refused uint64 // since the start
}

// The most connections at once, unless a Config names others.
const (
	DefaultConnections        = 1024
	DefaultConnectionsPerUser = 256
)

// overflow is how many connections beyond the limit still get a 503. Later ones
// are closed.
const overflow = 64

// unreadTime is how long a server that shuts down waits for the first request of
// connections that it has accepted.
const unreadTime = 300 * time.Millisecond

// A limiter bounds the connections of a server by the user at their other end, and
// ends them when the server shuts down. One user's flood leaves room for the
// others; the flood of many leaves room for root, for the users named to it, and for
// the listeners that cannot tell users apart, which metrics are read from.
type limiter struct {
	self     int // the pid whose connections have no bound; 0: there is none
	log      *log.Logger
	draining atomic.Bool

	mu        sync.Mutex // guards what follows
	most      int        // connections at once
	ofUser    int        // of these, of one uid
	apart     []int      // uids that have room of their own
	listeners []*limitListener
	open      map[*connection]bool
	shared    int            // of open, those that count against most
	byUser    map[origin]int // as many of open, less our own
	refused   uint64
	logged    time.Time     // when the log last told of a refusal
	changed   chan struct{} // holds one if a connection is in another phase, or has ended
}

func newLimiter(c DoorConfig) *limiter {
	l := &limiter{
		self:    c.Self,
		log:     cmp.Or(c.ErrorLog, log.Default()),
		open:    make(map[*connection]bool),
		byUser:  make(map[origin]int),
		changed: make(chan struct{}, 1),
	}
	l.bound(c)
	return l
}

// bound sets the bounds of connections that come from now on.
func (l *limiter) bound(c DoorConfig) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most = cmp.Or(c.Connections, DefaultConnections)
	l.ofUser = cmp.Or(c.ConnectionsPerUser, DefaultConnectionsPerUser)
	l.apart = append([]int{0, unknownUID}, c.RoomFor...)
}

// listen returns a listener whose connections are counted. They may ask for the
// paths in only, or, if that is nil, for any. They come from other hosts if there is a remote.
func (l *limiter) listen(inner net.Listener, only []string, remote *Remote) net.Listener {
	counted := &limitListener{Listener: inner, limiter: l, only: only, remote: remote, close: sync.OnceValue(inner.Close), ended: make(chan struct{})}
	counted.end = sync.OnceFunc(func() { close(counted.ended) })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listeners = append(l.listeners, counted)
	return counted
}

// A limitListener is a listener whose connections a limiter counts.
type limitListener struct {
	net.Listener
	limiter *limiter
	only    []string
	remote  *Remote
	close   func() error  // once
	ended   chan struct{} // closed when it accepts nothing more
	end     func()        // closes it, once
}

// Close implements net.Listener.
func (l *limitListener) Close() error { return l.close() }

// Accept returns the next connection that there is room for.
func (l *limitListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				l.end()
			}
			return nil, err
		}
		c := &connection{Conn: conn, limiter: l.limiter, peer: peerOf(conn)}
		if l.remote != nil {
			c.peer = l.remote.peerOf(conn)
		}
		c.peer.only = l.only
		if l.limiter.enter(c) {
			return c, nil
		}
		conn.Close()
	}
}

// enter counts a connection in, and reports whether it gets an answer at all.
func (l *limiter) enter(c *connection) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isOwn(c) {
		l.open[c] = true
		return true
	}
	c.shares = c.peer.remote != nil || !slices.Contains(l.apart, c.peer.uid)
	ofUser := l.byUser[c.peer.origin]
	if c.peer.isProxy { // for many
		ofUser = 0
	}
	switch {
	case ofUser >= l.ofUser:
		c.peer.refusal = fmt.Sprintf("%v has %s, the most at once", c.peer.origin, quota.Count(l.ofUser, "connection", "connections"))
	case c.shares && l.shared >= l.most:
		c.peer.refusal = quota.Count(l.most, "connection is", "connections are") + " the most at once"
	}
	if c.peer.refusal != "" {
		l.refuse(c.peer.refusal)
	}
	if ofUser >= l.ofUser+overflow || c.shares && l.shared >= l.most+overflow {
		return false
	}
	l.open[c] = true
	l.byUser[c.peer.origin]++
	if c.shares {
		l.shared++
	}
	return true
}

// isOwn tells whether this process is at the other end. The pid is proof of that,
// though not of anything else: ours belongs to nobody before we end.
func (l *limiter) isOwn(c *connection) bool { return c.peer.pid != 0 && c.peer.pid == l.self }

// refuse counts a refusal, and tells the log once a minute. The caller holds mu.
func (l *limiter) refuse(why string) {
	l.refused++
	if now := time.Now(); now.Sub(l.logged) >= time.Minute {
		l.logged = now
		l.log.Printf("connections are refused: %s", why)
	}
}

// leave counts out a connection that has ended.
func (l *limiter) leave(c *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open[c] {
		return
	}
	delete(l.open, c)
	if l.isOwn(c) {
		return
	}
	if c.shares {
		l.shared--
	}
	if l.byUser[c.peer.origin]--; l.byUser[c.peer.origin] == 0 {
		delete(l.byUser, c.peer.origin)
	}
}

// state is an http.Server's ConnState.
func (l *limiter) state(conn net.Conn, state http.ConnState) {
	c := counted(conn)
	switch state {
	case http.StateActive:
		c.phase.CompareAndSwap(idle, reading)
		c.phase.CompareAndSwap(fresh, reading)
	case http.StateIdle:
		c.phase.Store(idle)
		if l.draining.Load() {
			c.closeRead()
		}
	case http.StateClosed, http.StateHijacked:
		l.leave(c)
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// context is an http.Server's ConnContext: it adds who is at the other end.
func (l *limiter) context(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, counted(conn))
}

// drain accepts no more connections, and returns when those that there are have
// ended: every request that has arrived is answered, where net/http would drop those
// that it has read and not begun to answer when it is shut down. A connection that
// has not asked anything yet gets a moment for it.
func (l *limiter) drain(ctx context.Context) {
	l.draining.Store(true)
	l.mu.Lock()
	listeners := slices.Clone(l.listeners)
	l.mu.Unlock()
	first, cancel := context.WithTimeout(ctx, unreadTime)
	defer cancel()
	for _, listener := range listeners {
		listener.Close() // nothing is lost by an error
		select {
		case <-listener.ended: // what it was accepting is counted by now
		case <-first.Done():
		}
	}
	l.await(first, fresh)
	for _, c := range l.in(fresh, idle) {
		c.closeRead()
	}
	l.await(ctx, fresh, reading, answering, idle)
}

// await waits until no connection is in one of the phases.
func (l *limiter) await(ctx context.Context, phases ...int32) {
	for len(l.in(phases...)) > 0 {
		select {
		case <-l.changed:
		case <-ctx.Done():
			return
		}
	}
}

func (l *limiter) in(phases ...int32) []*connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []*connection
	for c := range l.open {
		if slices.Contains(phases, c.phase.Load()) {
			list = append(list, c)
		}
	}
	return list
}

// isClosed tells whether a listener ended because drain closed it.
func (l *limiter) isClosed(err error) bool { return l.draining.Load() && errors.Is(err, net.ErrClosed) }

func (l *limiter) connections() Connections {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Connections{Open: len(l.open), Refused: l.refused}
}
