package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// The phases of a connection.
const (
	fresh     = int32(iota) // nothing was read yet
	reading                 // a request is being read
	answering               // a handler is at work
	idle                    // a request was answered, and no further one has begun
)

// A connection is one that a frontend counts.
type connection struct {
	net.Conn
	frontend *Frontend
	peer     peer
	own      bool // this process is at the other end; it is not limited
	shares   bool // it counts against Connections, which users share
	phase    atomic.Int32

	number uint64        // how many had entered with it
	caller *RemoteCaller // whose token keeps it open; nil: none does. Guarded by the frontend's lock
	known  atomic.Bool   // there is one

	gone      context.CancelFunc // ends the contexts of its requests
	readBy    atomic.Int64       // the deadline for reading, in ns since 1970; 0: none is set; aborted: one that was past
	unwatched atomic.Uint64      // how many requests net/http has not watched the caller of
	late      uint64             // the last of them that took lateTime, and
	watched   uint64             // the last that is watched; both guarded by the frontend's lock
}

// Read implements net.Conn. While it answers a request without TLS, net/http reads one byte, to notice that the caller
// has gone. To begin and to abort that wakes threads, which takes a tenth of an acquire. So that read returns
// nothing, and the frontend watches the callers of requests that take longer.
func (c *connection) Read(p []byte) (int, error) {
	if len(p) == 1 && c.readBy.Load() == 0 && !c.frontend.isTLS && c.frontend.watchLate(c) {
		return 0, nil
	}
	return c.Conn.Read(p)
}

// aborted is a deadline by which net/http ends a read that is under way.
const aborted = -1

// SetReadDeadline implements net.Conn. Each read of a frontend has a deadline, but that of net/http for one byte.
func (c *connection) SetReadDeadline(t time.Time) error {
	by := int64(0)
	switch {
	case t.IsZero():
	case time.Until(t) <= 0:
		by = aborted
	default:
		by = t.UnixNano()
	}
	c.readBy.Store(by)
	return c.Conn.SetReadDeadline(t)
}

// watch ends the contexts of the connection's requests when its caller goes away, or at a deadline for reading.
// It returns once the caller has sent more, which waits to be read, or net/http has aborted its own read, because
// the request is answered.
func (c *connection) watch() {
	gone := false
	raw, err := c.Conn.(syscall.Conn).SyscallConn()
	if err == nil {
		err = raw.Read(func(fd uintptr) bool {
			n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			gone = n <= 0 && err != syscall.EAGAIN
			return err != syscall.EAGAIN
		})
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		by := c.readBy.Load()
		gone = by > 0 && by <= time.Now().UnixNano() // not another one, which is set by now
	} else {
		gone = gone || err != nil
	}
	if gone {
		c.gone()
	}
}

type connectionKey struct{}

// counted returns the connection that a frontend counts, below TLS too.
func counted(conn net.Conn) *connection {
	if over, isTLS := conn.(*tls.Conn); isTLS {
		conn = over.NetConn()
	}
	return conn.(*connection)
}

// connectionOf returns the connection that a request came over; nil if no frontend counts it.
func connectionOf(r *http.Request) *connection {
	c, _ := r.Context().Value(connectionKey{}).(*connection)
	return c
}

// begin records that a request of the connection is being answered. While the server
// shuts down, the connection ends with the answer. Its other half is closed by then, which does
// not mean that the caller has gone.
func (c *connection) begin(w http.ResponseWriter, r *http.Request) *http.Request {
	c.phase.Store(answering)
	if !c.frontend.draining.Load() {
		return r
	}
	w.Header().Set("Connection", "close")
	return r.WithContext(context.WithoutCancel(r.Context()))
}

// closeRead accepts no more data: what has arrived can still be read. On a Unix
// socket, a caller that sends later gets an error.
func (c *connection) closeRead() {
	if half, ok := c.Conn.(interface{ CloseRead() error }); ok {
		half.CloseRead()
		return
	}
	c.Conn.Close()
}

// CloseWrite lets net/http say that an answer is complete before it closes the connection.
func (c *connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// A peer is the process at the other end of a connection, as it was when it
// connected. By now another process may have its pid, so only the uid gives rights.
type peer struct {
	origin
	pid     int      // 0 when not known
	remote  *Remote  // knows the caller by its token; nil: it is on this host
	isProxy bool     // it is the proxy in front of callers on other hosts
	refusal string   // why the connection is one too many; empty: it is not
	only    []string // the paths that are served; nil: all
}

// An origin is the user or network that a connection counts for.
type origin struct {
	uid     int          // unknownUID when not known
	address netip.Prefix // of a caller on another host; zero of one on this host
}

func (o origin) String() string {
	if o.address.IsSingleIP() {
		return "address " + o.address.Addr().String()
	}
	if o.address.IsValid() {
		return "network " + o.address.String()
	}
	return "uid " + strconv.Itoa(o.uid)
}

// unknownUID stands for a caller whose user is not known, as on TCP.
const unknownUID = -1

var unknownPeer = peer{origin: origin{uid: unknownUID}}

// from returns the address that a request of another host came from; empty: this host.
func (p peer) from(r *http.Request) string {
	if p.remote == nil {
		return ""
	}
	return addressOf(r.RemoteAddr).String()
}

// peerFrom returns the peer of a request's connection.
func peerFrom(r *http.Request) peer {
	if c := connectionOf(r); c != nil {
		return c.peer
	}
	return unknownPeer
}

func peerOf(conn net.Conn) peer {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return unknownPeer
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return unknownPeer
	}
	var cred *syscall.Ucred
	raw.Control(func(fd uintptr) {
		if got, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			cred = got
		}
	})
	if cred == nil {
		return unknownPeer
	}
	return peer{origin: origin{uid: int(cred.Uid)}, pid: int(cred.Pid)}
}
