package servertest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Headers that say what a body is.
const (
	JSON = "Content-Type: application/json"
	Form = "Content-Type: application/x-www-form-urlencoded"
)

// A Conn is a connection on which requests follow each other as they are written.
type Conn struct {
	net.Conn
	In *bufio.Reader // what comes back
	t  testing.TB
}

// NewConn returns a connection that a test uses.
func NewConn(t testing.TB, conn net.Conn) *Conn {
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(3 * time.Minute)) // it hangs
	return &Conn{Conn: conn, In: bufio.NewReader(conn), t: t}
}

// Dial connects to the server.
func (s *Server) Dial() *Conn {
	s.T.Helper()
	conn, err := net.Dial("unix", s.Socket)
	for errors.Is(err, syscall.EAGAIN) { // its backlog is full
		conn, err = net.Dial("unix", s.Socket)
	}
	Must(s.T, err)
	return NewConn(s.T, conn)
}

// A Response is an answer and its body, as fields.
type Response struct {
	Status int
	Header http.Header
	Fields map[string]any
	Body   string
}

// Text returns a member of the body.
func (r Response) Text(name string) string { return fmt.Sprint(r.Fields[name]) }

// Call sends a request; headers are "Name: value" lines.
func (c *Conn) Call(method, path, body string, headers ...string) Response {
	c.t.Helper()
	if body != "" {
		headers = append(headers, fmt.Sprintf("Content-Length: %d", len(body)))
	}
	return c.Raw(method, path, body, headers...)
}

// Raw is Call without a length.
func (c *Conn) Raw(method, path, body string, headers ...string) Response {
	c.t.Helper()
	if !slices.ContainsFunc(headers, func(h string) bool { return strings.HasPrefix(h, "Host:") }) {
		headers = append(headers, "Host: quotad")
	}
	message := method + " " + path + " HTTP/1.1\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n" + body
	// A server may answer before it has read everything.
	sent := make(chan struct{})
	go func() { defer close(sent); io.WriteString(c, message) }()
	answer, err := http.ReadResponse(c.In, &http.Request{Method: method})
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	read, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	<-sent
	r := Response{Status: answer.StatusCode, Header: answer.Header, Body: string(read)}
	json.Unmarshal(read, &r.Fields) // lists are read from Body
	return r
}
