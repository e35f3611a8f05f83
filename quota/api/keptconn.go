package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// http.Transport hands each request to two goroutines of its connection, which takes as long as the daemon's answer.
// A call that a server makes for each of its own requests has a connection to itself meanwhile.

// A keptConn is a connection between two requests.
type keptConn struct {
	net.Conn
	reader *bufio.Reader
	since  time.Time // when it was used last
}

// keptConns are connections that no request uses. The zero value has none.
type keptConns struct {
	mu   sync.Mutex // guards idle
	idle []*keptConn
}

// maxKept is how many connections are kept.
const maxKept = 16

// take returns a connection that is still open, nil if there is none.
func (k *keptConns) take() *keptConn {
	for {
		k.mu.Lock()
		n := len(k.idle)
		if n == 0 {
			k.mu.Unlock()
			return nil
		}
		conn := k.idle[n-1]
		k.idle = k.idle[:n-1]
		k.mu.Unlock()
		if time.Since(conn.since) < clientIdle && conn.open() {
			return conn
		}
		conn.Close()
	}
}

// put keeps a connection for the next request.
func (k *keptConns) put(conn *keptConn) {
	conn.since = time.Now()
	k.mu.Lock()
	full := len(k.idle) == maxKept
	if !full {
		k.idle = append(k.idle, conn)
	}
	k.mu.Unlock()
	if full {
		conn.Close()
	}
}

// open reports whether the daemon has not closed the connection, nor sent anything without a request.
func (c *keptConn) open() bool {
	raw, err := c.Conn.(syscall.Conn).SyscallConn()
	if err != nil || c.reader.Buffered() > 0 {
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

// attemptKept is attempt on a kept connection.
func (c *Client) attemptKept(ctx context.Context, r request, within time.Duration) (answer reply, err error) {
	if err := ctx.Err(); err != nil {
		return answer, err
	}
	conn := c.kept.take()
	if conn == nil {
		dialed, err := c.dial(ctx, "", "")
		if err != nil {
			return answer, err
		}
		conn = &keptConn{Conn: dialed, reader: bufio.NewReader(dialed)}
	}
	conn.SetDeadline(time.Now().Add(within))
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) }) // nothing sets a later one from here on
	keep := false
	defer func() {
		if stop() && keep {
			c.kept.put(conn)
		} else {
			conn.Close()
		}
	}()
	if _, err = conn.Write(r.text(c.Token)); err == nil {
		answer, keep, err = conn.answer()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errNoAnswer
	}
	return answer, err
}

// text returns the request as it is sent.
func (r request) text(token string) []byte {
	b := make([]byte, 0, 256+len(r.payload))
	b = fmt.Appendf(b, "%s %s%s HTTP/1.1\r\nHost: quotad\r\n", r.method, r.path, r.query)
	if len(r.payload) > 0 {
		b = append(append(append(b, "Content-Type: "...), r.contentType...), "\r\n"...)
	}
	if token != "" {
		b = append(append(append(b, "Authorization: Bearer "...), token...), "\r\n"...)
	}
	b = strconv.AppendInt(append(b, "Content-Length: "...), int64(len(r.payload)), 10)
	return append(append(b, "\r\n\r\n"...), r.payload...)
}

// answer reads an answer, and reports whether another request may follow.
func (c *keptConn) answer() (answer reply, keep bool, err error) {
	resp, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return answer, false, err
	}
	defer resp.Body.Close()
	answer.status = resp.StatusCode
	answer.version, _ = strings.CutPrefix(resp.Header.Get("Server"), ServerName)
	answer.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return answer, err == nil && !resp.Close, err
}
