package proxy

import (
	"container/list"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// Bounds of what a client may cost: a slow or stuck one costs one connection, for a bounded
// time. How large a body is, and how long it takes, is not bounded.
const (
	headerTime     = 5 * time.Second // for the header of a request
	idleTime       = time.Minute     // between two requests
	stallTime      = time.Minute     // in which a client neither sends nor reads a part of a body
	maxHeader      = 32 << 10        // bytes of a request's, and 256 KiB of an answer's
	maxAnswer      = 256 << 10       //
	maxConnections = 4096            // at once
	shares         = 16              // of the connections; a run token may have one
)

// A boundedListener bounds how many connections are open at once. For one that is too many
// it closes the oldest of those that have shown no run token; where all have shown one, the
// new one. So clients without a token cannot keep passes out; nor can one pass keep out the others,
// because it may have only a share.
type boundedListener struct {
	net.Listener
	max int

	mu        sync.Mutex // guards what follows, and the fields of connections that say so
	open      int
	strangers list.List      // of connections that have shown no token, the oldest first
	held      map[string]int // how many connections have shown a token
}

// share is how many connections a token may have.
func (l *boundedListener) share() int { return max(1, l.max/shares) }

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		conn, excess := l.admit(raw)
		if excess != nil {
			excess.Close()
		}
		if conn != nil {
			return conn, nil
		}
	}
}

// admit counts a connection in, or not where there is no room for it. The excess is a connection
// to close: that of a stranger which had to make room, or the new one.
func (l *boundedListener) admit(raw net.Conn) (conn, excess net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.max {
		oldest := l.strangers.Front()
		if oldest == nil {
			return nil, raw
		}
		stranger := oldest.Value.(*boundedConn)
		stranger.leave()
		excess = stranger.Conn
	}
	admitted := &boundedConn{Conn: raw, listener: l}
	admitted.stranger = l.strangers.PushBack(admitted)
	l.open++
	return admitted, excess
}

// A boundedConn is a connection that a boundedListener counts.
type boundedConn struct {
	net.Conn
	listener *boundedListener
	stranger *list.Element // nil: it has shown a token, or is closed
	token    string        // that it has shown
	closed   bool          // all three are guarded by the listener's lock
}

// Close implements io.Closer.
func (c *boundedConn) Close() error {
	c.listener.mu.Lock()
	c.leave()
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// leave counts a connection out, once. The caller holds the lock of the listener.
func (c *boundedConn) leave() {
	c.belongTo("")
	if !c.closed {
		c.closed = true
		c.listener.open--
	}
}

// belongTo removes a connection from the strangers, and counts it among those of a token; "" of one
// that ends. The caller holds the lock of the listener.
func (c *boundedConn) belongTo(token string) {
	l := c.listener
	if c.stranger != nil {
		l.strangers.Remove(c.stranger)
		c.stranger = nil
	}
	if l.held[c.token]--; l.held[c.token] <= 0 {
		delete(l.held, c.token)
	}
	if c.token = token; token != "" {
		l.held[token]++
	}
}

// CloseWrite has net/http end an answer before it closes the connection.
func (c *boundedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

type connectionKey struct{}

// keepConnection keeps the connection of a request with a live run token open. It refuses one beyond
// the token's share, and closes it after the answer.
func keepConnection(w http.ResponseWriter, r *http.Request, token string) *api.Problem {
	c, ok := r.Context().Value(connectionKey{}).(*boundedConn)
	if !ok {
		return nil
	}
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.closed || c.token == token:
	case l.held[token] >= l.share():
		w.Header().Set("Connection", "close")
		return api.NewProblem(api.TooManyConnections, "the pass has %s open, the most for one pass", quota.Count(l.share(), "connection", "connections")).
			WithHint("let the client reuse its connections, or close them")
	default:
		c.belongTo(token)
	}
	return nil
}

// A patientBody is the body of a request: each part of it extends the time for the next.
type patientBody struct {
	io.ReadCloser
	connection *http.ResponseController
}

func (b *patientBody) Read(p []byte) (int, error) {
	b.connection.SetReadDeadline(time.Now().Add(stallTime))
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.connection.SetReadDeadline(time.Time{}) // or net/http would find the client gone
	}
	return n, err
}

// A patientWriter writes an answer: each part that the client reads extends the time for the
// next.
type patientWriter struct {
	http.ResponseWriter
	connection *http.ResponseController
}

// Unwrap is for http.ResponseController.
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter. What an upstream says before its answer is
// not passed on: no client of an API needs it.
func (w *patientWriter) WriteHeader(status int) {
	if status < http.StatusOK {
		return
	}
	w.connection.SetWriteDeadline(time.Now().Add(stallTime))
	w.ResponseWriter.WriteHeader(status)
}

func (w *patientWriter) Write(p []byte) (int, error) {
	w.connection.SetWriteDeadline(time.Now().Add(stallTime))
	return w.ResponseWriter.Write(p)
}

// buffers are a pool of buffers for bodies.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{sync.Pool{New: func() any { return new([32 << 10]byte) }}}
}

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte { return b.pool.Get().(*[32 << 10]byte)[:] }

// Put implements httputil.BufferPool.
func (b *buffers) Put(buffer []byte) { b.pool.Put((*[32 << 10]byte)(buffer)) }
