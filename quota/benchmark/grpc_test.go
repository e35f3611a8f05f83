package benchmark

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// GRPC returns a client that calls one unary method of a server at a Unix socket
// with a prepared message (protobuf). Ask fails unless the answer's message begins
// with the expected bytes.
func GRPC(socket, method string, message, expect []byte) (Client, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	c := &grpcClient{Conn: conn, reader: bufio.NewReader(conn), stream: -1, expect: string(expect)}
	for _, field := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "localhost"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		c.headers = appendLiteral(c.headers, field[0], field[1])
	}
	c.body = append([]byte{0}, binary.BigEndian.AppendUint32(nil, uint32(len(message)))...)
	c.body = append(c.body, message...)
	// The preface, no settings of our own, and a window that never runs out.
	hello := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	hello = appendFrame(hello, frameSettings, 0, 0, nil)
	hello = appendFrame(hello, frameWindowUpdate, 0, 0, binary.BigEndian.AppendUint32(nil, 1<<30))
	if _, err := conn.Write(hello); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

// Types and flags of HTTP/2 frames (RFC 9113, section 6).
const (
	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameSettings     = 4
	framePing         = 6
	frameGoAway       = 7
	frameWindowUpdate = 8

	flagAck        = 1
	flagEndStream  = 1
	flagEndHeaders = 4
)

type grpcClient struct {
	net.Conn
	reader  *bufio.Reader
	stream  int32 // the last one used
	headers []byte
	body    []byte
	expect  string
	request []byte
}

func (c *grpcClient) Ask() error {
	c.stream += 2
	c.request = appendFrame(c.request[:0], frameHeaders, flagEndHeaders, c.stream, c.headers)
	c.request = appendFrame(c.request, frameData, flagEndStream, c.stream, c.body)
	if _, err := c.Write(c.request); err != nil {
		return err
	}
	answer := ""
	for {
		kind, flags, stream, payload, err := c.readFrame()
		switch {
		case err != nil:
			return err
		case kind == frameGoAway || kind == frameReset:
			return fmt.Errorf("the server ended the call: %q", payload)
		case kind == frameSettings && flags&flagAck == 0:
			_, err = c.Write(appendFrame(nil, frameSettings, flagAck, 0, nil))
		case kind == framePing && flags&flagAck == 0:
			_, err = c.Write(appendFrame(nil, framePing, flagAck, 0, payload))
		case kind == frameData && stream == c.stream:
			answer += string(payload)
		case kind == frameHeaders && stream == c.stream && flags&flagEndStream != 0:
			if len(answer) < 5+len(c.expect) || answer[5:5+len(c.expect)] != c.expect {
				return fmt.Errorf("answered %q", answer)
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *grpcClient) readFrame() (kind, flags byte, stream int32, payload []byte, err error) {
	head := make([]byte, 9)
	if _, err = io.ReadFull(c.reader, head); err != nil {
		return
	}
	payload = make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	_, err = io.ReadFull(c.reader, payload)
	return head[3], head[4], int32(binary.BigEndian.Uint32(head[5:])), payload, err
}

func appendFrame(b []byte, kind, flags byte, stream int32, payload []byte) []byte {
	n := len(payload)
	b = append(b, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	b = binary.BigEndian.AppendUint32(b, uint32(stream))
	return append(b, payload...)
}

// appendLiteral appends a header field without compression (RFC 7541, 6.2.2).
func appendLiteral(b []byte, name, value string) []byte {
	b = append(b, 0, byte(len(name)))
	b = append(b, name...)
	b = append(b, byte(len(value)))
	return append(b, value...)
}
