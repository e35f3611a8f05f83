package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync/atomic"

	"quotad/quota/api"
)

// A DoorConfig bounds who comes in. Its zero value means the defaults.
type DoorConfig struct {
	// Connections is the most at once of all users together, ConnectionsPerUser of
	// one of them. 0: the defaults.
	Connections, ConnectionsPerUser int
	// RoomFor are users whose connections count against ConnectionsPerUser alone, so
	// that others cannot lock them out. Root is one without being named.
	RoomFor []int
	// Self is the pid of a process that is exempt from the connection limits: the
	// daemon's own, which checks whether it answers.
	// 0: there is none.
	Self int
	// Remote knows the callers from other hosts, whom the door is for: their connections
	// count by address. Nil: it is for users of this host.
	Remote *Remote
	// TLS is what the door speaks. Nil: nothing over the connection itself.
	TLS *tls.Config
	// ErrorLog is where net/http complains, of panics for example, and where it is
	// said that connections are refused. Nil: where package log writes to.
	ErrorLog *log.Logger
}

// A Door holds the listeners of the API and hands each request to the Server that it
// leads to. A daemon has one for as long as it lives, and several servers: one that
// refuses while it cannot serve, and the one that decides. A connection stays when the
// server changes.
type Door struct {
	limiter *limiter
	remote  *Remote
	isTLS   bool
	http    *http.Server
	server  atomic.Pointer[Server]
}

// NewDoor returns a door that leads nowhere yet: call Lead before Serve.
func NewDoor(c DoorConfig) *Door {
	d := &Door{limiter: newLimiter(c), remote: c.Remote, isTLS: c.TLS != nil}
	d.http = &http.Server{
		Handler:                      d,
		ConnContext:                  d.limiter.context,
		ConnState:                    d.limiter.state,
		ErrorLog:                     c.ErrorLog,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  api.IdleTimeout,
		MaxHeaderBytes:               maxHeader,
		DisableGeneralOptionsHandler: true,
		TLSConfig:                    c.TLS,
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}
	return d
}

// Lead hands each request from now on to a server. Requests under way end where they
// began.
func (d *Door) Lead(to *Server) { d.server.Store(to) }

// Bound replaces the bounds on connections from now on. Self and ErrorLog stay.
func (d *Door) Bound(c DoorConfig) { d.limiter.bound(c) }

// ServeHTTP answers one request.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.server.Load().ServeHTTP(w, r) }

// Serve answers the connections of a listener, which it closes in the end,
// until Shutdown. Who calls is known on Unix sockets, and by its token to a Remote: on any other
// listener callers without a run token may read and nothing more.
func (d *Door) Serve(l net.Listener) error { return d.serve(d.limiter.listen(l, nil, d.remote)) }

// ServeOnly is Serve for the paths named; nothing else is found on the listener.
func (d *Door) ServeOnly(l net.Listener, paths ...string) error {
	return d.serve(d.limiter.listen(l, paths, nil))
}

func (d *Door) serve(l net.Listener) error {
	serve := d.http.Serve
	if d.isTLS { // net/http sets a TLSConfig where there is none
		serve = func(l net.Listener) error { return d.http.ServeTLS(l, "", "") }
	}
	if err := serve(l); !errors.Is(err, http.ErrServerClosed) && !d.limiter.isClosed(err) {
		return fmt.Errorf("cannot serve the API: %w", err)
	}
	return nil
}

// Connections tells how many there are on all listeners together.
func (d *Door) Connections() Connections { return d.limiter.connections() }

// Shutdown closes the listeners, answers every request that has arrived and
// returns. When ctx ends first, the connections left are cut and its error is
// returned.
func (d *Door) Shutdown(ctx context.Context) error {
	if s := d.server.Load(); s != nil {
		s.endStreams()
	}
	d.limiter.drain(ctx)
	err := d.http.Shutdown(ctx)
	if err != nil {
		d.http.Close()
	}
	return err
}
