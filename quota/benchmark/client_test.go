package benchmark

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strconv"
)

// A Client asks one server over one connection, one request at a time.
type Client interface {
	// Ask sends the prepared request and waits for the whole answer. An answer other than the expected one is an error.
	Ask() error
	Close() error
}

// HTTP returns a client that posts a form to a path of the server at a Unix socket, by HTTP/1.1. Ask fails unless the
// answer has this status.
func HTTP(socket, path, form string, status int) (Client, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: quotad\r\nContent-Type: application/x-www-form-urlencoded\r\n"+
		"Content-Length: %d\r\n\r\n%s", path, len(form), form)
	return &httpClient{conn, bufio.NewReader(conn), request, fmt.Appendf(nil, "HTTP/1.1 %d ", status)}, nil
}

type httpClient struct {
	net.Conn
	reader  *bufio.Reader
	request []byte
	status  []byte // how the expected answer begins
}

var contentLength = []byte("Content-Length: ")

// Ask reads of an answer the status, and the length by which the next answer is found.
func (c *httpClient) Ask() error {
	if _, err := c.Write(c.request); err != nil {
		return err
	}
	line, err := c.reader.ReadSlice('\n')
	expected, length := bytes.HasPrefix(line, c.status), 0
	for ; err == nil && len(line) > len("\r\n"); line, err = c.reader.ReadSlice('\n') {
		if value, ok := bytes.CutPrefix(line, contentLength); ok {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(value)))
		}
	}
	if err == nil && !expected {
		body, _ := c.reader.Peek(length)
		return fmt.Errorf("answered not %s, but %s", c.status, body)
	}
	if err == nil {
		_, err = c.reader.Discard(length)
	}
	return err
}
