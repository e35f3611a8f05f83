package server

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/clientlimit"
	"quotad/quota/upstream"
)

// Bounds of what a client may cost: a slow or stuck one costs one connection,
// and that not for long.
const (
	readTimeout  = 5 * time.Second                               // a request, from its first byte to its last
	writeTimeout = 10 * time.Second                              // deciding and answering
	walkTime     = api.LongReadTimeout - turnTime - writeTimeout // for a handler that may read a whole log
	maxHeader    = 8 << 10
	maxPath      = 512      // bytes: no name has more than 64
	maxBody      = 64 << 10 // more where a field says so by its tag max
	maxDrain     = 2 << 20  // of an oversized body, read on so that the connection stays usable
)

// Header values that never change; net/http only reads them.
var (
	typeJSON    = []string{"application/json"}
	typeProblem = []string{"application/problem+json"}
	typeLines   = []string{"application/x-ndjson"}
	retrySoon   = []string{"1"} // when the ledger may be back is not known
)

// DefaultAdminGroup is the group whose members are operators beside root.
const DefaultAdminGroup = "quotad-admin"

// Config is what a server is made of. Only Service is required.
type Config struct {
	Service    *quota.Service
	Tokens     Tokens // nil: there are no run tokens
	Version    string
	AdminGroup string // empty: DefaultAdminGroup; a group that does not exist has no members
	// JobsUID is the user that jobs run as, who without a run token may read and
	// nothing more, whatever its groups. 0: none is, and root is an operator.
	JobsUID int
	Routes  []Route // beside quota's own

	// Clients decides about callers of one's own API. Nil: there are none.
	Clients *clientlimit.Service

	// Observer takes in what upstreams answer. Nil: one that knows no upstream in particular.
	Observer *upstream.Observer

	// Status holds further sections of GET /v1/status: the member's name, and
	// what returns its value.
	Status map[string]func(context.Context) any

	// Observe is told of every acquire, settle, release, adjust, close, open and reset that
	// was understood, before it is answered and by the goroutine that serves it: it should be
	// quick. Nil: nobody is told.
	Observe func(Event)
	// Forbidden is told of every request that its caller may not make, in the same
	// way. Nil: nobody is told.
	Forbidden func(Attempt)
	// ClientReset is told, in the same way, that an operator had a subject begin anew. Nil:
	// nobody is told.
	ClientReset func(ClientReset)
	// Connections is the most at once of all users together, ConnectionsPerUser of
	// one of them. 0: the defaults.
	Connections, ConnectionsPerUser int
	// RoomFor are users whose connections count against ConnectionsPerUser alone, so
	// that others cannot lock them out. Root is one without being named.
	RoomFor []int
	// Self is the pid of a process whose connections are always heard, whoever
	// crowds at the socket: the daemon's own, which asks itself whether it answers.
	// 0: there is none.
	Self int
	// ErrorLog is where net/http complains, of panics for example, and where it is
	// said that connections are refused. Nil: where package log writes to.
	ErrorLog *log.Logger
}

// An Attempt is a request that its caller may not make.
type Attempt struct {
	Route  string // its method, and the pattern of its path; empty where the request was not even looked at
	Caller quota.Caller
	PID    int // of the process that connected; 0 when not known
	Detail string
}

// A Server serves the API on any number of listeners.
type Server struct {
	service    *quota.Service
	clients    *clientlimit.Service
	observer   *upstream.Observer
	tokens     Tokens
	version    string
	name       []string // of the server and its version, a header's value
	adminGroup string
	jobsUID    int
	sections   map[string]func(context.Context) any
	observe    func(Event)
	forbidden  func(Attempt)

	clientReset func(ClientReset)

	routes     []Route
	firstWords map[string]bool // of the routes' paths
	mux        *http.ServeMux
	limiter    *limiter
	followers  followers
	longReads  *longReads
	refusals   *refusals
	http       *http.Server
	closing    chan struct{} // closed when the server shuts down, so that streams end
	endStreams func()        // closes it, once
}

// New returns a server that is ready to Serve. It fails when two routes,
// or two sections of the status, have one name.
func New(c Config) (*Server, error) {
	s := &Server{
		service:    c.Service,
		clients:    c.Clients,
		observer:   c.Observer,
		tokens:     c.Tokens,
		version:    c.Version,
		name:       []string{api.ServerName + c.Version},
		adminGroup: c.AdminGroup,
		jobsUID:    c.JobsUID,
		sections:   c.Status,
		observe:    c.Observe,
		forbidden:  c.Forbidden,

		clientReset: c.ClientReset,

		limiter:   newLimiter(c),
		followers: followers{count: make(map[int]int)},
		longReads: newLongReads(),
		refusals:  newRefusals(time.Now()),
		closing:   make(chan struct{}),
	}
	if s.adminGroup == "" {
		s.adminGroup = DefaultAdminGroup
	}
	if s.observer == nil {
		s.observer = upstream.NewObserver(s.service, nil, func(upstream.Outcome) {})
	}
	if s.clients == nil {
		s.clients = clientlimit.NewService(0, func(clientlimit.Event) {})
	}
	if s.clientReset == nil {
		s.clientReset = func(ClientReset) {}
	}
	if s.observe == nil {
		s.observe = func(Event) {}
	}
	if s.forbidden == nil {
		s.forbidden = func(Attempt) {}
	}
	for name := range s.sections {
		if slices.Contains(ownSections, name) {
			return nil, fmt.Errorf("section %q of the status is quota's own", name)
		}
	}
	if err := s.route(slices.Concat(s.ownRoutes(), s.clientRoutes(), c.Routes)); err != nil {
		return nil, err
	}
	s.http = &http.Server{
		Handler:                      s,
		ConnContext:                  s.limiter.context,
		ConnState:                    s.limiter.state,
		ErrorLog:                     c.ErrorLog,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  api.IdleTimeout,
		MaxHeaderBytes:               maxHeader,
		DisableGeneralOptionsHandler: true,
	}
	s.endStreams = sync.OnceFunc(func() { close(s.closing) })
	return s, nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := unknownPeer
	if c := connectionOf(r); c != nil {
		r, p = c.begin(w, r), c.peer
	}
	w.Header()["Server"] = s.name
	switch {
	case p.refusal != "":
		w.Header().Set("Connection", "close")
		writeProblem(w, api.NewProblem(api.TooManyConnections, "%s", p.refusal))
		return
	case p.only != nil && !slices.Contains(p.only, r.URL.Path):
		writeProblem(w, api.NewProblem(api.NotFound, "here is nothing but %s", strings.Join(p.only, ", ")))
		return
	}
	if problem := s.checkOrigin(r); problem != nil {
		if problem.Reason == quota.Forbidden {
			s.forbidden(Attempt{Caller: quota.Caller{UID: p.uid}, PID: p.pid, Detail: problem.Detail})
		}
		writeProblem(w, problem)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Serve answers the connections of a listener, which it closes in the end,
// until Shutdown. Who calls is known on Unix sockets only: on any other
// listener callers without a run token may read and nothing more.
func (s *Server) Serve(l net.Listener) error { return s.serve(s.limiter.listen(l, nil)) }

// ServeOnly is Serve for the paths named; nothing else is found on the listener.
func (s *Server) ServeOnly(l net.Listener, paths ...string) error {
	return s.serve(s.limiter.listen(l, paths))
}

func (s *Server) serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) && !s.limiter.isClosed(err) {
		return fmt.Errorf("cannot serve the API: %w", err)
	}
	return nil
}

// Connections tells how many there are on all listeners together.
func (s *Server) Connections() Connections { return s.limiter.connections() }

// Shutdown closes the listeners, answers every request that has arrived and
// returns. When ctx ends first, the connections left are cut and its error is
// returned.
func (s *Server) Shutdown(ctx context.Context) error {
	s.endStreams()
	s.limiter.drain(ctx)
	err := s.http.Shutdown(ctx)
	if err != nil {
		s.http.Close()
	}
	return err
}
