package api

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// http.Transport hands each request to two goroutines of its connection, and net/http's server reads each with a goroutine
// more, which takes as long as the daemon's answer. A server asks for each of its own requests, so it has streams.

// A stream is a connection on which batches for clients are decided, one after the other: the body of one request, a
// batch in each line, is never over, nor is its answer, of gobs.
type stream struct {
	net.Conn
	path    string // of the request
	reader  *bufio.Reader
	answers *gob.Decoder // on reader; nil before the first one
	version string       // of the daemon
	since   time.Time    // when it was used last
}

// keptStreams are streams that no call uses. The zero value has none.
type keptStreams struct {
	mu   sync.Mutex // guards idle
	idle []*stream
}

// maxKept is how many streams are kept.
const maxKept = 16

// take returns a stream that is still open, nil if there is none.
func (k *keptStreams) take(path string) *stream {
	for {
		k.mu.Lock()
		i := len(k.idle) - 1
		for i >= 0 && k.idle[i].path != path {
			i--
		}
		if i < 0 {
			k.mu.Unlock()
			return nil
		}
		s := k.idle[i]
		k.idle = slices.Delete(k.idle, i, i+1)
		k.mu.Unlock()
		if time.Since(s.since) < clientIdle && s.open() {
			return s
		}
		s.Close()
	}
}

// put keeps a stream for the next call.
func (k *keptStreams) put(s *stream) {
	s.since = time.Now()
	k.mu.Lock()
	full := len(k.idle) == maxKept
	if !full {
		k.idle = append(k.idle, s)
	}
	k.mu.Unlock()
	if full {
		s.Close()
	}
}

// open reports whether the daemon has not closed the stream, nor sent anything without a batch.
func (s *stream) open() bool {
	raw, err := s.Conn.(syscall.Conn).SyscallConn()
	if err != nil || s.reader.Buffered() > 0 {
		return false
	}
	var waits error
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, waits = syscall.Read(int(fd), b[:])
		return true
	})
	return err == nil && waits == syscall.EAGAIN
}

// attemptStream is attempt on a stream.
func (c *Client) attemptStream(ctx context.Context, r request, within time.Duration) (answer reply, err error) {
	if err := ctx.Err(); err != nil {
		return answer, err
	}
	s := c.kept.take(r.path)
	if s == nil {
		dialed, err := c.dial(ctx, "", "")
		if err != nil {
			return answer, err
		}
		s = &stream{Conn: dialed, path: r.path, reader: bufio.NewReader(dialed)}
	}
	s.SetDeadline(time.Now().Add(within))
	stop := context.AfterFunc(ctx, func() { s.SetDeadline(time.Unix(1, 0)) }) // nothing sets a later one from here on
	defer func() {
		if stop() && err == nil && answer.batch != nil {
			c.kept.put(s)
		} else {
			s.Close()
		}
	}()
	if _, err = s.Write(s.text(r.payload, c.Token)); err == nil {
		answer, err = s.answer()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errNoAnswer
	}
	return answer, err
}

// text returns a batch as it is sent: a chunk of the body, behind the header if it is the first.
func (s *stream) text(form []byte, token string) []byte {
	b := make([]byte, 0, 256+len(form))
	if s.answers == nil {
		b = fmt.Appendf(b, "POST %s HTTP/1.1\r\nHost: quotad\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n", s.path)
		if token != "" {
			b = append(append(append(b, "Authorization: Bearer "...), token...), "\r\n"...)
		}
		b = append(b, "\r\n"...)
	}
	b = append(strconv.AppendInt(b, int64(len(form))+1, 16), "\r\n"...)
	return append(append(b, form...), "\n\r\n"...)
}

// answer reads the answer to a batch. If the daemon refuses the stream, it is that of any request.
func (s *stream) answer() (answer reply, err error) {
	if s.answers == nil {
		resp, err := http.ReadResponse(s.reader, nil)
		if err != nil {
			return answer, err
		}
		s.version, _ = strings.CutPrefix(resp.Header.Get("Server"), ServerName)
		if answer.status = resp.StatusCode; answer.status != http.StatusOK {
			answer.version = s.version
			answer.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
			return answer, err
		}
		s.answers = gob.NewDecoder(s.reader)
	}
	answer.status, answer.version, answer.batch = http.StatusOK, s.version, new(BatchAnswer)
	return answer, s.answers.Decode(answer.batch)
}
