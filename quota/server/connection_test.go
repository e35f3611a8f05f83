package server

import (
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// socketPair returns the two ends of a Unix socket.
func socketPair(t *testing.T) (ours, callers *net.UnixConn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends []*net.UnixConn
	for _, fd := range fds {
		file := os.NewFile(uintptr(fd), "socket")
		conn, err := net.FileConn(file)
		if err != nil {
			t.Fatal(err)
		}
		file.Close()
		t.Cleanup(func() { conn.Close() })
		ends = append(ends, conn.(*net.UnixConn))
	}
	return ends[0], ends[1]
}

func TestWatchedConnections(t *testing.T) {
	soon := func() time.Time { return time.Now().Add(20 * time.Millisecond) }
	for _, test := range []struct {
		name    string
		happens func(c *connection, caller *net.UnixConn)
		gone    bool
	}{
		{"the caller goes away", func(_ *connection, caller *net.UnixConn) { caller.Close() }, true},
		{"the caller sends no more", func(_ *connection, caller *net.UnixConn) { caller.CloseWrite() }, true},
		{"the caller sends another request", func(_ *connection, caller *net.UnixConn) { caller.Write([]byte("GET")) }, false},
		{"the deadline for reading passes", func(c *connection, _ *net.UnixConn) { c.SetReadDeadline(soon()) }, true},
		{"a read is aborted because the request is answered", func(c *connection, _ *net.UnixConn) { c.SetReadDeadline(time.Unix(1, 0)) }, false},
		{"it is aborted while the watch waits", func(c *connection, _ *net.UnixConn) {
			c.readBy.Store(aborted)
			c.Conn.SetReadDeadline(soon())
		}, false},
		{"it was aborted, and the next request has all its time", func(c *connection, _ *net.UnixConn) {
			c.readBy.Store(time.Now().Add(time.Hour).UnixNano())
			c.Conn.SetReadDeadline(soon())
		}, false},
		{"the frontend closes the connection", func(c *connection, _ *net.UnixConn) { c.Close() }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			ours, caller := socketPair(t)
			gone := false
			c := &connection{Conn: ours, gone: func() { gone = true }}
			ended := make(chan struct{})
			go func() { defer close(ended); c.watch() }()
			test.happens(c, caller)
			if <-ended; gone != test.gone {
				t.Errorf("it is taken to have gone: %v", gone)
			}
		})
	}
}
