package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"quotad/quota/server"
)

// Clients that never end what they begin do not keep others from being served.
func TestSlowClients(t *testing.T) {
	t.Parallel() // mostly it waits
	s := newScene(t, ok, nil)
	var slow []net.Conn
	defer func() {
		for _, conn := range slow {
			conn.Close()
		}
	}()
	for range 1000 {
		conn, err := net.Dial("tcp", s.proxy.config.Address)
		if err != nil {
			t.Fatal(err)
		}
		slow = append(slow, conn)
		fmt.Fprintf(conn, "GET /%s/youtube/youtube/v3/videos HTTP/1.1\r\nHost: %s\r\nX-Slow: ", runToken, s.proxy.config.Address)
	}
	if a := s.get("youtube/v3/videos"); a.status != 200 {
		t.Errorf("answered %d %s", a.status, a.body)
	}
	for _, conn := range slow { // each is cut when its time is over
		conn.SetDeadline(time.Now().Add(3 * time.Minute))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a slow client is not cut")
		}
	}
	if s.used() != 1 {
		t.Errorf("%d units are debited, want 1", s.used())
	}
}

// bound replaces how many connections may be open.
func (s *scene) bound(most int) {
	s.proxy.limiter.mu.Lock()
	defer s.proxy.limiter.mu.Unlock()
	s.proxy.limiter.max = most
}

// dial opens a connection for the time of the test.
func (s *scene) dial() net.Conn {
	s.Helper()
	conn, err := net.Dial("tcp", s.proxy.config.Address)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(3 * time.Minute))
	return conn
}

// Connections without a token do not keep passes out, however many there are: they are
// closed first, the oldest before the others.
func TestTooManyConnections(t *testing.T) {
	const most = 50
	s := newScene(t, ok, nil)
	s.bound(most)
	call := func(conn net.Conn, token string) (int, error) {
		fmt.Fprintf(conn, "GET /%s/youtube/youtube/v3/videos HTTP/1.1\r\nHost: %s\r\n\r\n", token, s.proxy.config.Address)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return 0, err
		}
		io.Copy(io.Discard, res.Body)
		return res.StatusCode, nil
	}
	passes := 0
	fresh := func() string { // a pass has a share of the connections alone
		passes++
		token := fmt.Sprint("TOKENOFPASS", passes)
		s.tokens.Issue(token, "trending", "US", "youtube")
		return token
	}
	pass := s.dial()
	if status, err := call(pass, runToken); status != 200 {
		t.Fatal(status, err)
	}
	var strangers []net.Conn
	for range 2 * most {
		strangers = append(strangers, s.dial())
	}
	for n := range 30 {
		if status, err := call(s.dial(), fresh()); status != 200 {
			t.Errorf("new connection %d of a pass: %d %v", n, status, err)
		}
		stranger := s.dial()
		if status, err := call(stranger, "NOTOKEN"); status != 403 {
			t.Errorf("a new stranger: %d %v", status, err)
		}
		strangers = append(strangers, stranger)
	}
	if status, err := call(pass, runToken); status != 200 {
		t.Errorf("the old connection of a pass: %d %v", status, err)
	}
	if n, err := strangers[0].Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the oldest stranger read %d bytes: %v", n, err)
	}
	for n := range most - 31 { // all that are open are of passes then
		if status, err := call(s.dial(), fresh()); status != 200 {
			t.Errorf("connection %d of a pass: %d %v", n, status, err)
		}
	}
	if status, err := call(s.dial(), fresh()); err == nil {
		t.Errorf("one connection too many is answered %d", status)
	}
	pass.Close()
	for { // until the proxy knows
		if status, _ := call(s.dial(), runToken); status == 200 {
			break
		}
	}
}

// One pass that opens connections without end keeps the others out no more: what is beyond its share
// is refused, with the reason, and closed. Its own connections go on, and one that ends makes room.
func TestOneTokenHasAShare(t *testing.T) {
	var mu sync.Mutex
	var failed []string
	s := newScene(t, ok, func(c *Config, _ *Target) {
		emit := c.Emit
		c.Emit = func(event any) {
			if e, is := event.(server.Decided); is && e.Err != nil {
				mu.Lock()
				failed = append(failed, e.Request.Credential+" "+e.Result())
				mu.Unlock()
			}
			emit(event)
		}
	})
	s.bound(4 * shares)
	s.tokens.Issue("OTHERTOKENOFAPASS", "other", "US", "youtube")
	call := func(conn net.Conn, token string) (status int, closes bool) {
		fmt.Fprintf(conn, "GET /%s/youtube/youtube/v3/none HTTP/1.1\r\nHost: %s\r\n\r\n", token, s.proxy.config.Address)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
		return res.StatusCode, res.Close
	}
	var own []net.Conn
	for n := range 5 * shares {
		conn := s.dial()
		status, closes := call(conn, runToken)
		if within := n < 4; within != (status == 404) || within == closes {
			t.Fatalf("connection %d: %d, closed %v", n, status, closes)
		}
		own = append(own, conn)
	}
	if status, _ := call(s.dial(), "OTHERTOKENOFAPASS"); status != 404 {
		t.Errorf("another pass: %d, want to be served", status)
	}
	if status, _ := call(own[0], runToken); status != 404 {
		t.Errorf("a connection of the share: %d, want to be served", status)
	}
	mu.Lock()
	if len(failed) != 5*shares-4 || failed[0] != "youtube too_many_connections" {
		t.Errorf("told of %d: %q", len(failed), failed)
	}
	mu.Unlock()
	own[0].Close()
	for status := 0; status != 404; { // until the proxy knows
		status, _ = call(s.dial(), runToken)
	}
}
