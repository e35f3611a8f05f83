package server

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/clientlimit"
	"quotad/quota/upstream"
)

// Bounds of what a client may cost: a slow or stuck one costs one connection, for a short time.
const (
	readTimeout  = 5 * time.Second  // a request, from its first byte to its last
	writeTimeout = 10 * time.Second // deciding and answering
	maxHeader    = 8 << 10
	maxPath      = 512 // bytes: no name has more than 64
	maxBody      = 64 << 10
	maxDrain     = 2 << 20
	maxObserved  = 512 << 10 // of an observation: an upstream's body of 64 KiB takes up to six times as much as JSON
)

// Header values that never change; net/http only reads them.
var (
	typeJSON    = []string{"application/json"}
	typeProblem = []string{"application/problem+json"}
	retrySoon   = []string{"1"} // when the ledger may be back is not known
)

// DefaultAdminGroup is the group whose members are operators, like root.
const DefaultAdminGroup = "quotad-admin"

// Config configures a server. Only Service is required.
type Config struct {
	Service    *quota.Service
	Tokens     Tokens // nil: there are no run tokens
	Version    string
	AdminGroup string // empty: DefaultAdminGroup; a group that does not exist has no members
	// JobsUID is the user that jobs run as. Without a run token it may only read, whatever its
	// groups. 0: there is none, and root is an operator.
	JobsUID  int
	Routes   []Route              // in addition to quota's own
	Clients  *clientlimit.Service // decides about callers of your own API; nil: there are none
	Observer *upstream.Observer   // records what upstreams answer; nil: one without presets
	// Status holds further sections of GET /v1/status: the member's name, and the function that returns its value.
	Status map[string]func(context.Context) any
	// Emit is called with a Decided of every acquire, settle, release, book, close, open and reset that was understood, a
	// Forbidden of every request that its caller may not make, and a ClientReset when an operator has reset a subject:
	// before the request is answered and by the goroutine that serves it, so it should be quick. Nil: events are dropped.
	Emit func(event any)
	// Denials are those that GET /v1/log lists; nil: there are none. Emit records them.
	Denials *Denials
}

// A Forbidden is a request that its caller may not make.
type Forbidden struct {
	Route  string // its method, and the pattern of its path; empty if it was refused before its route was found
	Caller quota.Caller
	PID    int    // of the process that connected; 0 when not known
	From   string // the address of a caller on another host; empty: it is on this one
	Detail string
}

// A Server answers the requests of the API that a Frontend, or several, hand to it.
type Server struct {
	Config // as given, with the defaults

	routes []Route
	mux    *http.ServeMux
}

// New returns a server for a Frontend to pass requests to.
func New(c Config) *Server {
	s := &Server{Config: c}
	s.AdminGroup = cmp.Or(s.AdminGroup, DefaultAdminGroup)
	if s.Observer == nil {
		s.Observer = upstream.NewObserver(s.Service, nil, func(upstream.Outcome) {})
	}
	if s.Clients == nil {
		s.Clients = clientlimit.NewService(nil)
	}
	if s.Emit == nil {
		s.Emit = func(any) {}
	}
	if s.Denials == nil {
		s.Denials = new(Denials)
	}
	s.route(append(s.ownRoutes(), c.Routes...))
	return s
}

// ServeHTTP answers one request of a caller on this host.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.serve(w, r, nil) }

// Remote returns the handler of callers on other hosts, whom m knows by their tokens.
func (s *Server) Remote(m *Remote) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, m) })
}

// Only returns a handler of some paths.
func (s *Server) Only(paths ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(paths, r.URL.Path) {
			WriteProblem(w, api.NewProblem(api.NotFound, "here is nothing but %s", strings.Join(paths, ", ")))
			return
		}
		s.ServeHTTP(w, r)
	})
}

// serve answers one request of a caller on this host or, unless m is nil, on another one.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, m *Remote) {
	problem := s.checkOrigin(r, m != nil)
	if problem == nil && m != nil {
		r, problem = m.admit(w, r)
	}
	if problem != nil {
		s.reject(w, r, "", quota.Caller{UID: peerFrom(r).uid}, problem)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// checkOrigin refuses the requests of web pages, which could reach the socket through a proxy on this host. A page may
// not even read, which http.CrossOriginProtection would allow. It also refuses paths that http.ServeMux would answer
// with a redirect, which curl takes for success. A remote caller may use any host name: its token identifies it.
func (s *Server) checkOrigin(r *http.Request, remote bool) *api.Problem {
	if len(r.URL.Path) > maxPath {
		return api.NewProblem(quota.BadRequest, "the path has more than %d bytes", maxPath)
	}
	if !remote && !isLocal(r.Host) {
		return s.foreignHost(r)
	}
	for _, name := range [...]string{"Origin", "Referer", "Sec-Fetch-Site"} {
		// Site "none": a person typed the address, no page sent it.
		if values := r.Header[name]; values != nil && !(name == "Sec-Fetch-Site" && len(values) == 1 && values[0] == "none") {
			return api.NewProblem(quota.Forbidden, "quotad does not answer browsers (the request has the header %s)", name)
		}
	}
	path := r.URL.EscapedPath() // a name in it may hold a slash, and begin with a dot
	if !strings.HasPrefix(path, "/") || strings.Contains(path, "//") || strings.Contains(path+"/", "/./") || strings.Contains(path+"/", "/../") {
		return notFound(r.URL.Path)
	}
	return nil
}

// isLocal reports whether a Host header names this daemon: quotad, localhost, a
// loopback address, or nothing. An attacker could make any other name point here.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback() || host == "" || strings.EqualFold(host, "quotad") || strings.EqualFold(host, "localhost")
}

// foreignHost explains a common mistake: the host of http://v1/acquire is "v1".
func (s *Server) foreignHost(r *http.Request) *api.Problem {
	if slices.ContainsFunc(s.routes, func(route Route) bool { return strings.HasPrefix(route.Path+"/", "/"+r.Host+"/") }) {
		return notFound(r.URL.Path).WithHint("the address lacks a host name: write http://quotad/" + r.Host + r.URL.Path)
	}
	return api.NewProblem(quota.Forbidden, "the host %.80q is not this daemon", r.Host).
		WithHint("over the socket, write http://quotad" + r.URL.Path)
}

func notFound(path string) *api.Problem {
	return api.NewProblem(api.NotFound, "there is nothing at %.80q: GET /v1 lists the routes", path)
}
