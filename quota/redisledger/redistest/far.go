package redistest

import (
	"io"
	"net"
	"testing"
	"time"
)

// FarAway returns an address from which a server is half of a round trip away.
func FarAway(t testing.TB, server *Server, roundTrip time.Duration) (addr string) {
	t.Helper()
	if roundTrip == 0 {
		return server.Addr
	}
	listener, addr := listen(t)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("unix", server.socket())
			if err != nil {
				near.Close()
				continue
			}
			go carry(far, near, roundTrip/2)
			go carry(near, far, roundTrip/2)
		}
	}()
	return addr
}

// carry carries what comes from one connection to another, late.
func carry(to, from net.Conn, late time.Duration) {
	type part struct {
		text []byte
		at   time.Time
	}
	under := make(chan part, 10_000)
	go func() {
		defer close(under)
		for {
			text := make([]byte, 64<<10)
			n, err := from.Read(text)
			if err != nil {
				return
			}
			under <- part{text[:n], time.Now().Add(late)}
		}
	}()
	for p := range under {
		time.Sleep(time.Until(p.at))
		if _, err := to.Write(p.text); err != nil {
			break
		}
	}
	to.Close()
	from.Close()
	io.Copy(io.Discard, from)
}
