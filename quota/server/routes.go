package server

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"

	"quotad/quota"
	"quotad/quota/api"
)

// A Route is one line of the API, and of the answer to GET /v1.
type Route struct {
	Method string  `json:"method"`
	Path   string  `json:"path"` // a pattern of http.ServeMux: "/v1/grants/{id}"
	Access Access  `json:"access"`
	Does   string  `json:"does"` // in one line; its fields follow a semicolon
	Handle Handler `json:"-"`
}

// pattern returns the route as http.ServeMux knows it: "GET /v1/status".
func (r Route) pattern() string { return r.Method + " " + r.Path }

// ofCredential reports whether the path names a credential.
func (r Route) ofCredential() bool { return strings.HasPrefix(r.Path, "/v1/credentials/{name}") }

// Access is the class of callers that may use a route.
//
//	           run token      may connect   root, admin group
//	Read       yes            yes           yes
//	Spend      yes            yes           yes, and the reserve
//	Correct    its own run's  one's own     yes
//	Observe    its credential no            yes
//	Operate    no             no            yes
//
// A request with a run token has the token's rights and no others, whichever user
// sends it. Without one, the user that jobs run as may only Read.
type Access string

// The classes of access.
const (
	Read    Access = "read"
	Spend   Access = "spend"
	Correct Access = "correct"
	Observe Access = "observe"
	Operate Access = "operate"
)

// A Handler answers a request that its route's access admitted, or returns why not and has written nothing. An error
// that is an *api.Problem is written as such, a ledger's as 503, any other as 500. Its context ends when the caller
// goes away. After ten seconds nothing more can be written, unless it sets deadlines by http.ResponseController.
type Handler func(w http.ResponseWriter, r *http.Request, c *Session) error

// Handle makes a handler of a function. It reads the request's fields into In, a struct with the tags of
// encoding/json, and writes Out as JSON with status 200, unless there is an error. A field that the request leaves out
// keeps its value in byDefault, if that is given.
func Handle[In, Out any](do func(context.Context, *Session, In) (Out, error), byDefault ...In) Handler {
	return decoded(func(w http.ResponseWriter, r *http.Request, c *Session, in In) error {
		out, err := do(r.Context(), c, in)
		if err == nil {
			Write(w, http.StatusOK, typeJSON, out)
		}
		return err
	}, byDefault...)
}

// decoded makes a handler of a function that writes the answer itself, unless it returns an error.
func decoded[In any](handle func(http.ResponseWriter, *http.Request, *Session, In) error, byDefault ...In) Handler {
	return func(w http.ResponseWriter, r *http.Request, c *Session) error {
		in := append(slices.Clone(byDefault), *new(In))[0]
		if err := decode(r, &in); err != nil {
			return err
		}
		return handle(w, r, c, in)
	}
}

// says makes a handler that always gives the same answer.
func says(name, value string) Handler {
	return Handle(func(context.Context, *Session, None) (map[string]string, error) {
		return map[string]string{name: value}, nil
	})
}

// None is the In of a route without fields.
type None struct{}

func (s *Server) ownRoutes() []Route {
	return []Route{
		{"POST", "/v1/acquire", Spend, "ask to spend before a call: granted, or refused with a reason; credential, operation, count, request_id, use_reserve, optional, dry_run, job", decoded(s.acquire, api.AcquireRequest{Count: 1})},
		{"POST", "/v1/grants/{id}/settle", Correct, "set a grant to what its call really cost; units", decoded(s.settle)},
		{"DELETE", "/v1/grants/{id}", Correct, "release a grant whose call was never sent", decoded(s.release)},
		{"GET", "/v1/status", Read, "everything at a glance", Handle(s.status)},
		{"GET", "/v1/log", Read, "debits and corrections of a credential, or the last acquires that were denied; credential, denied, after, since, newest, most", Handle(s.log, api.LogQuery{Most: usualPage})},
		{"POST", "/v1/observe", Observe, "report what the upstream answered, so that a limit that it calls exhausted is closed; credential, operation, grant_id, status, header, body", Handle(s.observe)},
		{"POST", "/v1/credentials/{name}/book", Operate, "count units that were spent elsewhere; limit, units, note", Handle(s.book)},
		{"POST", "/v1/credentials/{name}/close", Operate, "grant nothing from a limit until a time, or open it; limit, until, open, note", Handle(s.closeLimit)},
		{"POST", "/v1/credentials/{name}/reset", Operate, "have every limit start from zero, and open; confirm, note", Handle(s.reset)},
		{"POST", "/v1/clients/{name}/acquire", Spend, "ask whether a client of your own may make a call; subject, operation, count", decoded(s.acquireClient, api.ClientRequest{Count: 1})},
		{"GET", "/v1/clients/{name}/subject", Read, "the state of one client's limits; subject", Handle(s.subject)},
		{"DELETE", "/v1/clients/{name}/subject", Operate, "forget what one client spent; subject", Handle(s.resetSubject)},
		{"GET", "/v1", Read, "this list", Handle(s.index)},
		{"GET", "/healthz", Read, "200 while the daemon is alive", says("status", "ok")},
		{"GET", "/readyz", Read, "200 if an acquire would be decided now, else 503", Handle(s.readyz)},
		{"GET", "/version", Read, "the daemon's version", says("version", s.Version)},
	}
}

// route builds the mux. A known path with another method is answered 405, any other path 404.
func (s *Server) route(routes []Route) {
	s.routes, s.mux = routes, http.NewServeMux()
	methods := make(map[string][]string)
	for _, route := range routes {
		methods[route.Path] = append(methods[route.Path], route.Method)
		s.mux.Handle(route.pattern(), s.guard(route))
	}
	for path, allowed := range methods {
		s.mux.Handle(path, wrongMethod(allowed))
	}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { WriteProblem(w, notFound(r.URL.Path)) })
}

// guard admits the callers that may use a route. In the path, api.OnlyCredential stands for the
// only credential that is configured.
func (s *Server) guard(route Route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if route.Access != Read { // it may be in the middle of a change
			defer quota.EndOnPanic()
		}
		c, problem := s.admit(r, route)
		if problem != nil {
			s.reject(w, r, route.pattern(), c.Caller, problem)
			return
		}
		err := error(nil)
		if name := c.Path("name"); route.ofCredential() && name == api.OnlyCredential {
			name, err = s.named(c, name)
			r.SetPathValue("name", name)
		}
		if err == nil {
			err = route.Handle(w, r, c)
		}
		if err != nil {
			WriteProblem(w, api.ProblemFrom(err))
		}
	}
}

// reject answers a request that its caller may not make, and reports it.
func (s *Server) reject(w http.ResponseWriter, r *http.Request, route string, caller quota.Caller, problem *api.Problem) {
	if problem.Reason == api.Unauthorized || problem.Reason == quota.Forbidden {
		from, _, _ := net.SplitHostPort(r.RemoteAddr) // empty on a Unix socket
		s.Emit(Forbidden{Route: route, Caller: caller, PID: peerFrom(r).pid, From: from, Detail: problem.Detail})
	}
	WriteProblem(w, problem)
}

func wrongMethod(allowed []string) http.HandlerFunc {
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		use := strings.Join(allowed, " or ")
		WriteProblem(w, api.NewProblem(api.MethodNotAllowed, "%.20s is not for this path: use %s", r.Method, use))
	}
}

// index lists the routes; to a remote caller, those that it may use.
func (s *Server) index(_ context.Context, c *Session, _ None) (map[string]any, error) {
	routes := slices.DeleteFunc(slices.Clone(s.routes), func(r Route) bool {
		return c.remote != nil && !slices.Contains(remoteRoutes, r.pattern())
	})
	return map[string]any{"version": s.Version, "routes": routes}, nil
}
