package benchmark

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func listen(t *testing.T) (string, net.Listener) {
	t.Helper()
	socket := filepath.Join(shortDir(t), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return socket, l
}

func TestHTTPClientAsksOnOneConnection(t *testing.T) {
	socket, l := listen(t)
	connections := 0
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if got := r.FormValue("operation"); got != "videos.list" {
				t.Errorf("operation %q, want videos.list", got)
			}
			if r.URL.Path == "/refuse" {
				http.Error(w, "no", http.StatusTooManyRequests)
				return
			}
			w.Write([]byte("granted"))
		}),
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				connections++
			}
		},
	}
	go server.Serve(l)
	defer server.Close()
	for _, row := range []struct {
		path   string
		status int
		want   string // in the error; empty: none
	}{{"/", 200, ""}, {"/refuse", 429, ""}, {"/refuse", 200, "429"}} {
		c, err := HTTP(socket, row.path, "operation=videos.list", row.status)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			err := c.Ask()
			if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Errorf("%s: got %v, want an error with %q", row.path, err, row.want)
			}
		}
		c.Close()
	}
	if connections != 3 {
		t.Errorf("%d connections, want one for each client", connections)
	}
}

func TestRESPClientTellsErrors(t *testing.T) {
	socket, l := listen(t)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		r := bufio.NewReader(conn)
		for _, answer := range []string{":1\r\n", "$5\r\nhello\r\n", "-ERR no\r\n"} {
			if _, err := io.ReadFull(r, make([]byte, len("*1\r\n$4\r\nPING\r\n"))); err != nil {
				return
			}
			conn.Write([]byte(answer))
		}
	}()
	c, err := RESP(socket, "PING")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 2 {
		if err := c.Ask(); err != nil {
			t.Errorf("answer %d: %v", i, err)
		}
	}
	if err := c.Ask(); err == nil || !strings.Contains(err.Error(), "ERR no") {
		t.Errorf("got %v, want the server's error", err)
	}
}

func TestGRPCClientSpeaksHTTP2(t *testing.T) {
	socket, l := listen(t)
	server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if string(body) != "\x00\x00\x00\x00\x02hi" || r.ProtoMajor != 2 {
			t.Errorf("got %q by HTTP/%d", body, r.ProtoMajor)
		}
		w.Header().Set("Trailer", "grpc-status")
		w.Write([]byte("\x00\x00\x00\x00\x02\x08\x01"))
		w.Header().Set("grpc-status", "0")
	})}
	server.Protocols.SetUnencryptedHTTP2(true)
	go server.Serve(l)
	defer server.Close()
	c, err := GRPC(socket, "/a/b", []byte("hi"), []byte("\x08\x01"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 3 {
		if err := c.Ask(); err != nil {
			t.Fatal(err)
		}
	}
	other, err := GRPC(socket, "/a/b", []byte("hi"), []byte("\x08\x02"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Ask(); err == nil {
		t.Error("another message than the expected one is no error")
	}
}

func TestCPUIsCounted(t *testing.T) {
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for after := before; after == before; {
		for begun := time.Now(); time.Since(begun) < time.Millisecond; {
		}
		if after, err = CPU(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
}
