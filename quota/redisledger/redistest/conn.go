package redistest

import (
	"bufio"
	"net"
	"testing"
	"time"
)

// A Conn is a connection to a server, for tests that send many commands.
type Conn struct {
	conn    net.Conn
	replies *bufio.Reader
}

// Dial connects to a server, until the test ends.
func (s *Server) Dial(tb testing.TB) *Conn {
	tb.Helper()
	conn, err := net.Dial("unix", s.socket())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	return &Conn{conn, bufio.NewReader(conn)}
}

// Do sends a command, and returns what is answered, as Server.Do does. An error that the server answers is a value.
func (c *Conn) Do(args ...string) (value any, err error) {
	c.conn.SetDeadline(time.Now().Add(patience))
	if _, err := c.conn.Write(format(args)); err != nil {
		return nil, err
	}
	value, _, err = read(c.replies, nil)
	return value, err
}
