package proxy

import (
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

// A limiter bounds how many connections are open at once. For one that is too many
// it closes the oldest of those that have shown no run token; if all have shown one, the
// new one. So clients without a token cannot keep passes out; nor can one pass keep out the others,
// because it may have only a share.
type limiter struct {
	max int

	mu       sync.Mutex // guards what follows
	open     map[net.Conn]*connection
	accepted int
}

// A connection is one that is open.
type connection struct {
	number int    // in the order of their coming
	token  string // that it has shown; empty: none
}

// share is how many connections a token may have.
func (l *limiter) share() int { return max(1, l.max/shares) }

// setState is the http.Server's ConnState.
func (l *limiter) setState(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if excess := l.admit(conn); excess != nil {
			excess.Close()
		}
	case http.StateClosed, http.StateHijacked:
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, conn)
	}
}

// admit counts a connection in, or not if there is no room for it. The excess is a connection
// to close: that of a stranger which had to make room, or the new one.
func (l *limiter) admit(conn net.Conn) (excess net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.max {
		for stranger, c := range l.open {
			if c.token == "" && (excess == nil || c.number < l.open[excess].number) {
				excess = stranger
			}
		}
		if excess == nil {
			return conn
		}
		delete(l.open, excess)
	}
	l.accepted++
	l.open[conn] = &connection{number: l.accepted}
	return excess
}

type connectionKey struct{}

// keep keeps the connection of a request with a live run token open. It refuses one beyond
// the token's share, and closes it after the answer.
func (l *limiter) keep(w http.ResponseWriter, r *http.Request, token string) *api.Problem {
	conn, _ := r.Context().Value(connectionKey{}).(net.Conn)
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.open[conn]
	if c == nil || c.token == token {
		return nil
	}
	held := 0
	for _, other := range l.open {
		if other.token == token {
			held++
		}
	}
	if held >= l.share() {
		w.Header().Set("Connection", "close")
		return api.NewProblem(api.TooManyConnections, "the pass has %s open, the most for one pass", quota.Count(l.share(), "connection", "connections")).
			WithHint("let the client reuse its connections, or close them")
	}
	c.token = token
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
