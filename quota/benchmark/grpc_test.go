package benchmark

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
)

// GRPC returns a client that calls one unary method of a server at a Unix socket with a prepared message (protobuf).
// Ask fails unless the answer's message begins as expected.
func GRPC(socket, method, message, expect string) (Client, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	c := &grpcClient{Conn: conn, reader: bufio.NewReader(conn), stream: -1, expect: expect}
	for _, field := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "localhost"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} { // without compression (RFC 7541, 6.2.2)
		c.headers += "\x00" + string([]byte{byte(len(field[0]))}) + field[0] + string([]byte{byte(len(field[1]))}) + field[1]
	}
	c.body = "\x00" + uint32Text(len(message)) + message
	// The preface, no settings of our own, and a window that never runs out.
	hello := appendFrame([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frameSettings, 0, 0, "")
	_, err = conn.Write(appendFrame(hello, frameWindowUpdate, 0, 0, uint32Text(1<<30)))
	return c, err
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
	reader                *bufio.Reader
	stream                int // the last one used
	headers, body, expect string
}

func (c *grpcClient) Ask() error {
	c.stream += 2
	request := appendFrame(nil, frameHeaders, flagEndHeaders, c.stream, c.headers)
	_, err := c.Write(appendFrame(request, frameData, flagEndStream, c.stream, c.body))
	for answer, head := "", make([]byte, 9); err == nil; {
		if _, err = io.ReadFull(c.reader, head); err != nil {
			return err
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err = io.ReadFull(c.reader, payload); err != nil {
			return err
		}
		switch kind, ack, end := head[3], head[4]&flagAck != 0, head[4]&flagEndStream != 0; {
		case kind == frameGoAway || kind == frameReset:
			return fmt.Errorf("the server ended the call: %q", payload)
		case kind == frameSettings && !ack:
			_, err = c.Write(appendFrame(nil, frameSettings, flagAck, 0, ""))
		case kind == framePing && !ack:
			_, err = c.Write(appendFrame(nil, framePing, flagAck, 0, string(payload)))
		case kind == frameData:
			answer += string(payload)
		case kind == frameHeaders && end && strings.HasPrefix(answer[min(5, len(answer)):], c.expect):
			return nil
		case kind == frameHeaders && end:
			return fmt.Errorf("answered %q", answer)
		}
	}
	return err
}

func appendFrame(b []byte, kind, flags byte, stream int, payload string) []byte {
	n := len(payload)
	b = append(b, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	return append(binary.BigEndian.AppendUint32(b, uint32(stream)), payload...)
}

func uint32Text(n int) string { return string(binary.BigEndian.AppendUint32(nil, uint32(n))) }
