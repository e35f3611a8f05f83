package proxy

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// Bounds of what a client may cost: a slow or stuck one costs one connection, and that
// not for ever. How large a body is, and how long it takes, is not bounded.
const (
	headerTime     = 5 * time.Second // for the header of a request
	idleTime       = time.Minute     // between two requests
	stallTime      = time.Minute     // in which a client neither sends nor takes a part of a body
	maxHeader      = 32 << 10        // bytes of a request's, and 256 KiB of an answer's
	maxAnswer      = 256 << 10       //
	maxConnections = 4096            // at once
)

// A patientBody is that of a request: as long as some of it comes, the rest may.
type patientBody struct {
	io.ReadCloser
	connection *http.ResponseController
}

func (b *patientBody) Read(p []byte) (int, error) {
	b.connection.SetReadDeadline(time.Now().Add(stallTime))
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.connection.SetReadDeadline(time.Time{}) // or it would seem that the client is gone
	}
	return n, err
}

// A patientWriter is that of an answer: as long as some of it is taken, the rest may be.
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

// buffers are those in which bodies pass.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{sync.Pool{New: func() any { return new([32 << 10]byte) }}}
}

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte { return b.pool.Get().(*[32 << 10]byte)[:] }

// Put implements httputil.BufferPool.
func (b *buffers) Put(buffer []byte) { b.pool.Put((*[32 << 10]byte)(buffer)) }
