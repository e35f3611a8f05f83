package benchmark

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
)

// A Client asks one server over one connection, one request at a time.
type Client interface {
	// Ask sends the prepared request and waits for the whole answer. An answer other
	// than the expected one is an error.
	Ask() error
	Close() error
}

// HTTP returns a client that posts a form to a path of the server at a Unix socket,
// by HTTP/1.1 and on a connection that is kept as long as the server keeps it. Ask fails unless the
// answer has this status.
func HTTP(socket, path, form string, status int) (Client, error) {
	return HTTPEach(socket, path, []string{form}, status)
}

// HTTPEach does so with several forms, one after the other and again.
func HTTPEach(socket, path string, forms []string, status int) (Client, error) {
	c := &httpClient{socket: socket, status: []byte("HTTP/1.1 " + strconv.Itoa(status) + " ")}
	if err := c.dial(); err != nil {
		return nil, err
	}
	for _, form := range forms {
		c.requests = append(c.requests, fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: quotad\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s",
			path, len(form), form))
	}
	return c, nil
}

type httpClient struct {
	net.Conn
	socket   string
	requests [][]byte
	next     int // of requests
	reader   *bufio.Reader
	status   []byte // how the expected answer begins
}

func (c *httpClient) dial() error {
	conn, err := net.Dial("unix", c.socket)
	if err != nil {
		return err
	}
	c.Conn, c.reader = conn, bufio.NewReader(conn)
	return nil
}

// send sends a request, on another connection where the server has closed this one: it
// was idle while others had their turns.
func (c *httpClient) send(request []byte) error {
	if _, err := c.Write(request); err == nil {
		return nil
	}
	c.Close()
	if err := c.dial(); err != nil {
		return err
	}
	_, err := c.Write(request)
	return err
}

var contentLength = []byte("Content-Length: ")

// Ask reads an answer as far as a prepared request needs it: the status, and the
// length by which the next answer is found.
func (c *httpClient) Ask() error {
	if err := c.send(c.requests[c.next]); err != nil {
		return err
	}
	c.next = (c.next + 1) % len(c.requests)
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return err
	}
	var wrong error
	if !bytes.HasPrefix(line, c.status) {
		wrong = fmt.Errorf("answered %q", bytes.TrimSpace(line))
	}
	length := 0
	for {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		if value, ok := bytes.CutPrefix(line, contentLength); ok {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return err
			}
		}
	}
	if wrong != nil {
		body := make([]byte, length)
		io.ReadFull(c.reader, body)
		return fmt.Errorf("%w: %s", wrong, body)
	}
	_, err = c.reader.Discard(length)
	return err
}
