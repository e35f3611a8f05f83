package server

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
)

// A connection is one that a frontend has accepted.
type connection struct {
	net.Conn
	peer  peer
	asked atomic.Bool // a request has come
	leave func()      // frees its place; once
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.leave()
	return c.Conn.Close()
}

// CloseWrite lets net/http say that an answer is complete before it closes the connection.
func (c *connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

type connectionKey struct{}

// accepted returns the connection that a frontend accepted, below TLS too.
func accepted(conn net.Conn) *connection {
	if over, isTLS := conn.(*tls.Conn); isTLS {
		conn = over.NetConn()
	}
	return conn.(*connection)
}

// connectionOf returns the connection that a request came over; nil if no frontend accepted it.
func connectionOf(r *http.Request) *connection {
	c, _ := r.Context().Value(connectionKey{}).(*connection)
	return c
}

// A peer is the process at the other end of a connection, as it was when it
// connected. By now another process may have its pid, so only the uid gives rights.
type peer struct {
	uid     int      // unknownUID when not known
	pid     int      // 0 when not known
	remote  *Remote  // knows the caller by its token; nil: it is on this host
	refusal string   // why the connection is one too many; empty: it is not
	only    []string // the paths that are served; nil: all
}

// unknownUID stands for a caller whose user is not known, as on TCP.
const unknownUID = -1

var unknownPeer = peer{uid: unknownUID}

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
	return peer{uid: int(cred.Uid), pid: int(cred.Pid)}
}
