package server

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"quotad/quota"
	"quotad/quota/api"
)

// A RemoteCaller is a caller on another host, which has no daemon. Its token identifies it: it
// may use the routes in remoteRoutes, for the names listed here.
type RemoteCaller struct {
	Name        string
	Tokens      [][sha256.Size]byte // the digests of those that are valid now
	Credentials []string            `toml:"credentials"`
	Operations  []string            `toml:"operations"` // nil: all of those credentials
	Clients     []string            `toml:"subjects"`   // the groups whose clients it may ask about
}

// A Remote knows the remote callers by the digests of their tokens. Its zero value knows none. Any number of
// goroutines may use it at the same time.
type Remote struct {
	callers atomic.Pointer[map[[sha256.Size]byte]*RemoteCaller]
}

// SetCallers replaces the callers.
func (m *Remote) SetCallers(callers []RemoteCaller) {
	known := make(map[[sha256.Size]byte]*RemoteCaller)
	for i := range callers {
		for _, digest := range callers[i].Tokens {
			known[digest] = &callers[i]
		}
	}
	m.callers.Store(&known)
}

type remoteKey struct{}

// remoteOf returns the remote caller who makes a request; nil if it came over the socket.
func remoteOf(r *http.Request) *RemoteCaller {
	c, _ := r.Context().Value(remoteKey{}).(*RemoteCaller)
	return c
}

// admit finds the caller whose token a request bears.
func (m *Remote) admit(w http.ResponseWriter, r *http.Request) (*http.Request, *api.Problem) {
	token, ok := bearerIn(r.Header["Authorization"])
	if callers := m.callers.Load(); ok && callers != nil {
		// How long it takes to find a digest says nothing of a token.
		if c := (*callers)[sha256.Sum256([]byte(token))]; c != nil {
			return r.WithContext(context.WithValue(r.Context(), remoteKey{}, c)), nil
		}
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	return r, api.NewProblem(api.Unauthorized, "a remote caller shows its token in one header Authorization: Bearer TOKEN").
		WithHint("token_file in [remote.callers.NAME] holds the tokens that are valid, read by: quotactl reload")
}

// remoteRoutes are the routes that a remote caller may use. Every other route is refused. checkRoute checks what the path
// names; the handlers check what is in the fields: see forbids, forbidsGrant and observationOf. A refusal does not show
// whether a name is configured.
var remoteRoutes = []string{
	"POST /v1/acquire", "POST /v1/grants/{id}/settle", "DELETE /v1/grants/{id}", "POST /v1/observe",
	"GET /v1/status", "POST /v1/clients/{name}/acquire",
	"GET /v1", "GET /healthz", "GET /readyz", "GET /version",
}

// checkRoute refuses a route that is not for the remote caller, or names what is not.
func (c *RemoteCaller) checkRoute(route Route, r *http.Request) *api.Problem {
	switch name := r.PathValue("name"); {
	case !slices.Contains(remoteRoutes, route.pattern()):
		return api.NewProblem(quota.Forbidden, "%s is not for remote callers", route.pattern()).
			WithHint("ask over the socket of the daemon's own host")
	case strings.HasPrefix(route.Path, "/v1/clients/{name}") && !slices.Contains(c.Clients, name):
		return api.NewProblem(quota.Forbidden, "remote caller %q may not ask about clients %.80q", c.Name, name)
	}
	return nil
}

// checkRequest refuses an acquire that the caller may not make.
func (c *RemoteCaller) checkRequest(r quota.Request) quota.Decision {
	d := quota.Decision{Reason: quota.Forbidden}
	switch {
	case r.Credential != "" && !slices.Contains(c.Credentials, r.Credential):
		d.Detail = fmt.Sprintf("remote caller %q may not spend from credential %.80q", c.Name, r.Credential)
	case c.Operations != nil && !slices.Contains(c.Operations, r.Operation):
		d.Detail = fmt.Sprintf("remote caller %q may not use operation %.80q", c.Name, r.Operation)
	case r.UseReserve:
		d.Detail = "the reserve is not for remote callers"
	default:
		return quota.Decision{}
	}
	return d
}

// notItsGrant refuses a change to a grant that the session's remote caller did not acquire.
func (c *Session) notItsGrant() quota.Decision {
	return quota.Decision{Reason: quota.Forbidden, Detail: fmt.Sprintf("the grant is not one that remote caller %q acquired", c.remote.Name)}
}

// visible returns the limits that count the caller; of a remote one with no more of each than is listed here.
func (c *Session) visible(limits []quota.LimitState) []quota.LimitState {
	if c.remote == nil {
		return limits
	}
	var own []quota.LimitState
	for _, l := range limits {
		if !l.CountsJob(c.Caller.CountedAs()) {
			continue
		}
		l.Limit = quota.Limit{Name: l.Name, Units: l.Units, Reserve: l.Reserve, Window: l.Window, Only: l.Only, DryRun: l.DryRun}
		l.Closed.By = ""
		own = append(own, l)
	}
	return own
}

// names returns the credentials that the caller may know.
func (s *Server) names(c *Session) []string {
	all := s.Service.Names()
	if c.remote == nil {
		return all
	}
	return slices.DeleteFunc(all, func(name string) bool { return !slices.Contains(c.remote.Credentials, name) })
}
