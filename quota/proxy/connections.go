package proxy

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

// A boundedListener has at most so many connections open at once. For one that is too many
// it closes the oldest of those that have shown no run token; where all have shown one, the
// new one. So nobody without a token can keep passes out.
type boundedListener struct {
	net.Listener
	most int

	mu        sync.Mutex // guards what follows, and what connections say is theirs
	open      int
	strangers list.List // of connections that have shown no token, the oldest first
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if !l.makeRoom() {
			raw.Close()
			continue
		}
		conn := &boundedConn{Conn: raw, listener: l}
		l.mu.Lock()
		l.open++
		conn.stranger = l.strangers.PushBack(conn)
		l.mu.Unlock()
		return conn, nil
	}
}

// makeRoom returns whether one more connection may be open; Accept alone opens one.
func (l *boundedListener) makeRoom() bool {
	l.mu.Lock()
	full, oldest := l.open >= l.most, l.strangers.Front()
	l.mu.Unlock()
	if full && oldest != nil {
		oldest.Value.(*boundedConn).Close()
	}
	return !full || oldest != nil
}

// A boundedConn is a connection that a boundedListener counts.
type boundedConn struct {
	net.Conn
	listener *boundedListener
	stranger *list.Element // nil: it has shown a token, or is closed
	closed   bool          // both are guarded by the listener's lock
}

// Close implements io.Closer.
func (c *boundedConn) Close() error {
	c.listener.mu.Lock()
	c.leaveStrangers()
	if !c.closed {
		c.closed = true
		c.listener.open--
	}
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// leaveStrangers needs the lock of the listener.
func (c *boundedConn) leaveStrangers() {
	if c.stranger != nil {
		c.listener.strangers.Remove(c.stranger)
		c.stranger = nil
	}
}

// CloseWrite lets net/http say that an answer is complete before it hangs up.
func (c *boundedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

type connectionKey struct{}

// withConnection is for http.Server.ConnContext.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, conn)
}

// hasShownToken notes that a request with a live run token came over its connection.
func hasShownToken(r *http.Request) {
	if c, ok := r.Context().Value(connectionKey{}).(*boundedConn); ok {
		c.listener.mu.Lock()
		defer c.listener.mu.Unlock()
		c.leaveStrangers()
	}
}
