package api

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"quotad/quota"
)

// Connections says how many a server has, and has had to turn away.
type Connections struct {
	Open    int    // those that are being turned away included
	Refused uint64 // since the start
}

// The most connections at once, unless a Config names others. One user's flood
// leaves room for the others.
const (
	DefaultConnections        = 1024
	DefaultConnectionsPerUser = 256
)

// porch is how many connections beyond those served are heard, to be told so.
// Those beyond it are cut without a word.
const porch = 64

// A crowd counts the connections of a server, by the user at their other end.
type crowd struct {
	most, mostOfUser int
	self             int // the pid whose connections have no bound; 0: there is none
	log              *log.Logger

	mu      sync.Mutex // guards what follows
	open    map[net.Conn]peer
	byUser  map[int]int // by uid, as many of open, less our own; -1 where the uid is not known
	refused uint64
	told    time.Time // when the log was last told of a refusal
}

func newCrowd(c Config) *crowd {
	return &crowd{
		most:       cmp.Or(c.Connections, DefaultConnections),
		mostOfUser: cmp.Or(c.ConnectionsPerUser, DefaultConnectionsPerUser),
		self:       c.Self,
		log:        cmp.Or(c.ErrorLog, log.Default()),
		open:       make(map[net.Conn]peer),
		byUser:     make(map[int]int),
	}
}

// A gatekeeper is a listener whose connections are counted.
type gatekeeper struct {
	net.Listener
	crowd *crowd
	only  []string // the paths that are served; nil: all
}

// Accept returns the next connection that there is room for, as it is: a
// *net.UnixConn of a Unix socket.
func (g gatekeeper) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil || g.crowd.enter(conn, g.only) {
			return conn, err
		}
		conn.Close()
	}
}

// enter counts a connection in, and reports whether it is to be heard at all.
func (c *crowd) enter(conn net.Conn, only []string) bool {
	p := peerOf(conn)
	p.only = only
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isOwn(p) {
		c.open[conn] = p
		return true
	}
	open, ofUser := len(c.open), c.byUser[p.uid]
	switch {
	case ofUser >= c.mostOfUser:
		p.refusal = fmt.Sprintf("uid %d has %s, the most at once", p.uid, quota.Count(c.mostOfUser, "connection", "connections"))
	case open >= c.most:
		p.refusal = quota.Count(c.most, "connection is", "connections are") + " the most at once"
	}
	if p.refusal != "" {
		c.refuse(p.refusal)
	}
	if open >= c.most+porch || ofUser >= c.mostOfUser+porch {
		return false
	}
	c.open[conn] = p
	c.byUser[p.uid]++
	return true
}

// isOwn tells whether we are at the other end ourselves. The pid is proof of that,
// though not of anything else: ours belongs to nobody before we end.
func (c *crowd) isOwn(p peer) bool { return p.pid != 0 && p.pid == c.self }

// refuse counts a refusal, and tells the log once a minute. The caller holds mu.
func (c *crowd) refuse(why string) {
	c.refused++
	if now := time.Now(); now.Sub(c.told) >= time.Minute {
		c.told = now
		c.log.Printf("connections are refused: %s", why)
	}
}

// state is an http.Server's ConnState: what is closed makes room.
func (c *crowd) state(conn net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p, counted := c.open[conn]
	if !counted {
		return
	}
	delete(c.open, conn)
	if c.isOwn(p) {
		return
	}
	if c.byUser[p.uid]--; c.byUser[p.uid] == 0 {
		delete(c.byUser, p.uid)
	}
}

// context is an http.Server's ConnContext: it adds who is at the other end.
func (c *crowd) context(ctx context.Context, conn net.Conn) context.Context {
	c.mu.Lock()
	p, counted := c.open[conn]
	c.mu.Unlock()
	if !counted { // then a zero peer would be root
		p = peerOf(conn)
	}
	return context.WithValue(ctx, peerKey{}, p)
}

func (c *crowd) connections() Connections {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Connections{Open: len(c.open), Refused: c.refused}
}
