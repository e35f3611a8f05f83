package redisledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	awaitAnswer(t, l, c, "alice")
	cutting.Store(true)
	if _, err := takeOne(t.Context(), l, c, "alice"); !errors.Is(err, quota.ErrOutcomeUnknown) {
		t.Errorf("got %v without a reply, want %v", err, quota.ErrOutcomeUnknown)
	}
	cutting.Store(false)
	awaitAnswer(t, l, c, "alice")
	wantUsed(t, l, c, "alice", 3)
}

// A cutConn breaks when the reply to a script has come that replaces a record.
type cutConn struct {
	net.Conn
	cutting *atomic.Bool
	script  bool // was sent
}

func (c *cutConn) Write(b []byte) (int, error) {
	c.script = bytes.Contains(b, []byte("evalsha"))
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
	var subjects []string
	at := map[string]string{} // by subject, the node
	service, err := serviceOn(l, c)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		subject := fmt.Sprint("user", i)
		subjects = append(subjects, subject)
		_, key, _, err := service.Usage(ctx, c.Name, subject)
		if err != nil {
			t.Fatal(err)
		}
		name := l.clientKey(clientlimit.Call{Key: key})
		node, err := l.current().(*redis.ClusterClient).MasterForKey(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		at[subject] = node.Options().Addr
	}
	if err := frozen.Freeze(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for {
		settled := true
		for _, subject := range subjects {
			_, err := takeOne(ctx, l, c, subject)
			away := at[subject] == frozen.Addr
			if away && err == nil {
				t.Fatalf("%s: a frozen node has decided", subject)
			}
			settled = settled && (err == nil) != away && (!away || errors.Is(err, quota.ErrUnavailable))
		}
		if settled {
			break
		}
		if time.Since(begun) > hanging {
			t.Fatal("calls of the others wait for the frozen node")
		}
	}
	if err := frozen.Thaw(); err != nil {
		t.Fatal(err)
	}
	for subject, node := range at {
		if node == frozen.Addr {
			awaitAnswer(t, l, c, subject)
		}
	}
}
