package redisledger

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/redisledger/redistest"
)

// In a Cluster go-redis would send a batch again whose connection broke.
func clusterClientsWithoutReply(t *testing.T, config Config) {
	l := patient(openStoreAt(t, config))
	var cutting atomic.Bool
	options := l.current().(*redis.ClusterClient).Options()
	dial := options.Dialer
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &cutConn{Conn: conn, cutting: &cutting}, err
	}
	c := hourly()
	awaitAnswer(t, l, c, "=alice")
	cutting.Store(true)
	if _, err := takeOne(t.Context(), l, c, "=alice"); !errors.Is(err, quota.ErrOutcomeUnknown) {
		t.Errorf("got %v without a reply, want %v", err, quota.ErrOutcomeUnknown)
	}
	cutting.Store(false)
	awaitAnswer(t, l, c, "=alice")
	wantUsed(t, l, c, "=alice", 3)
}

// A cutConn breaks when the reply to a script has come that replaces a record.
type cutConn struct {
	net.Conn
	cutting *atomic.Bool
	script  bool // was sent
}

func (c *cutConn) Write(b []byte) (int, error) {
	c.script = bytes.Contains(b, []byte("evalsha")) && bytes.Count(b, []byte("$40\r\n")) > 1 // the script's hash, and the record's
	return c.Conn.Write(b)
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.script && c.cutting.Load() {
		return 0, io.EOF
	}
	return n, err
}

// While one node of a Cluster is frozen, its subjects' asks fail at once, and the others are
// decided.
func clusterClientsOfFrozenNode(t *testing.T, config Config, frozen *redistest.Server) {
	l, c := openStoreAt(t, config), hourly()
	c.Name = "frozen"
	ctx := t.Context()
	var asks []clientlimit.Ask
	at := map[int]string{} // by ask, the node
	for i := range 30 {
		asks = append(asks, clientlimit.Ask{Subject: clientlimit.Key([]byte{'=', byte('a' + i)}), Units: 1})
		node, err := l.current().(*redis.ClusterClient).MasterForKey(ctx, l.clientKey(c.Place(asks[i].Subject)))
		if err != nil {
			t.Fatal(err)
		}
		at[i] = node.Options().Addr
	}
	if err := frozen.Freeze(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for {
		decisions, settled := clientlimit.Decider{Store: l}.Decide(ctx, c, asks), true
		for i, d := range decisions {
			away := at[i] == frozen.Addr
			if away && d.Err == nil {
				t.Fatalf("ask %d: a frozen node has decided", i)
			}
			settled = settled && (d.Err == nil) != away && (!away || errors.Is(d.Err, quota.ErrUnavailable))
		}
		if settled {
			break
		}
		if time.Since(begun) > hanging {
			t.Fatalf("asks of the others wait for the frozen node: %+v", decisions)
		}
	}
	if err := frozen.Thaw(); err != nil {
		t.Fatal(err)
	}
	for i, ask := range asks {
		if at[i] == frozen.Addr {
			awaitAnswer(t, l, c, ask.Subject)
		}
	}
}
