package server

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"quotad/quota/api"
)

// A Refusal is why a daemon cannot serve.
type Refusal struct {
	Problem *api.Problem
	Until   time.Time // when the daemon tries again
}

// Refusing returns a server that answers that the daemon is alive, and the routes that
// it is given. It refuses every other request. Of c, Door, Version, AdminGroup,
// JobsUID, Routes and Forbidden count.
func Refusing(why Refusal, c Config) (*Server, error) {
	s := newServer(c)
	s.refusal = &why
	alive := []Route{
		{"GET", "/healthz", Read, "200 while the daemon is alive", Handle(s.healthz)},
		{"GET", "/version", Read, "the daemon's version", Handle(s.versionOf)},
	}
	return s, s.route(append(alive, c.Routes...))
}

// elsewhere answers what no route is for.
func (s *Server) elsewhere(w http.ResponseWriter, r *http.Request) {
	if s.refusal == nil {
		writeProblem(w, notFound(r.URL.Path))
		return
	}
	left := max(time.Second, time.Until(s.refusal.Until))
	w.Header()["Retry-After"] = []string{strconv.FormatInt(api.Seconds(left), 10)}
	writeProblem(w, s.refusal.Problem)
}

// healthz answers because it can.
func (s *Server) healthz(context.Context, *Session, None) (map[string]string, error) {
	return map[string]string{"status": "ok"}, nil
}
