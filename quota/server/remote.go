package server

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"

	"quotad/quota"
	"quotad/quota/api"
)

// A RemoteCaller is a caller on another host, which has no daemon there. Its token is its
// identity: it may do what remoteRoutes lists, with what is listed here.
type RemoteCaller struct {
	Name        string
	Tokens      [][sha256.Size]byte // the digests of those that are valid now
	Credentials []string
	Operations  []string // nil: all of those credentials
	Clients     []string // the groups whose clients it may ask about

	seen *remoteCounts
}

// remoteRoutes are the routes that a remote caller may use, and what each asks of the path.
// Every other route is refused. What stands in a body, its handler checks: see forbids,
// forbidsGrant and heard.
var remoteRoutes = map[string]func(*RemoteCaller, *http.Request) *api.Problem{
	"POST /v1/acquire":                anyPath,
	"POST /v1/grants/{id}/settle":     anyPath,
	"DELETE /v1/grants/{id}":          anyPath,
	"POST /v1/observe":                anyPath,
	"GET /v1/status":                  anyPath,
	"GET /v1/credentials":             anyPath,
	"GET /v1/credentials/{name}":      (*RemoteCaller).checkCredential,
	"POST /v1/clients/{name}/acquire": (*RemoteCaller).checkClients,
	"POST /v1/clients/{name}/batch":   (*RemoteCaller).checkClients,
	"GET /v1":                         anyPath,
	"GET /healthz":                    anyPath,
	"GET /readyz":                     anyPath,
	"GET /version":                    anyPath,
}

func anyPath(*RemoteCaller, *http.Request) *api.Problem { return nil }

func (c *RemoteCaller) checkCredential(r *http.Request) *api.Problem {
	name := r.PathValue("name")
	if slices.Contains(c.Credentials, name) || name == api.OnlyCredential {
		return nil
	}
	return c.forbids("read credential", name)
}

func (c *RemoteCaller) checkClients(r *http.Request) *api.Problem {
	if name := r.PathValue("name"); !slices.Contains(c.Clients, name) {
		return c.forbids("ask about clients", name)
	}
	return nil
}

// forbids is the same answer for what is not there and for what is another's.
func (c *RemoteCaller) forbids(what, name string) *api.Problem {
	return api.NewProblem(quota.Forbidden, "remote caller %q may not %s %.80q", c.Name, what, name)
}

// checkRoute refuses a route that is not for remote callers.
func (c *RemoteCaller) checkRoute(route Route, r *http.Request) *api.Problem {
	check, may := remoteRoutes[route.Method+" "+route.Path]
	if !may {
		p := api.NewProblem(quota.Forbidden, "%s %s is not for remote callers", route.Method, route.Path)
		p.Hint = "ask over the socket of the daemon's own host"
		return p
	}
	return check(c, r)
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

// notItsGrant refuses to have the remote caller of a session change a grant of another one.
func (c *Session) notItsGrant() quota.Decision {
	c.countForbidden()
	return quota.Decision{Reason: quota.Forbidden, Detail: fmt.Sprintf("the grant is not one that remote caller %q acquired", c.remote.Name)}
}

// visible are the limits that count the caller, without the names of others.
func (c *Session) visible(limits []quota.LimitState) []quota.LimitState {
	if c.remote == nil {
		return limits
	}
	var own []quota.LimitState
	for _, l := range limits {
		if !l.CountsJob(c.Caller.CountedAs()) {
			continue
		}
		l.Jobs, l.ExceptJobs, l.Closed.By = nil, nil, ""
		own = append(own, l)
	}
	return own
}

// names are the credentials that the caller may know of.
func (s *Server) names(c *Session) []string {
	all := s.Service.Names()
	if c.remote == nil {
		return all
	}
	return slices.DeleteFunc(all, func(name string) bool { return !slices.Contains(c.remote.Credentials, name) })
}

// RemoteRoute returns the route that lists the remote callers, with what each spent. State returns
// what is known of them beside the ledger.
func RemoteRoute(service *quota.Service, state func() api.Remote) Route {
	return Route{
		Method: http.MethodGet, Path: "/v1/remote", Access: Read, Does: "the callers on other hosts: last seen, spent, refused",
		Handle: LongRead(Handle(func(ctx context.Context, _ *Session, _ None) (api.Remote, error) {
			told := state()
			return told, addSpent(ctx, service, told.Callers)
		})),
	}
}

// addSpent reads the log of each credential that a caller has once, as it counts now.
func addSpent(ctx context.Context, service *quota.Service, callers []api.RemoteCaller) error {
	for _, name := range service.Names() {
		if !slices.ContainsFunc(callers, func(c api.RemoteCaller) bool { return slices.Contains(c.Credentials, name) }) {
			continue
		}
		usage, _, err := service.Usage(ctx, name)
		if err != nil {
			return err
		}
		b, known, err := service.Breakdown(ctx, name, quota.BreakdownQuery{By: quota.ByCaller, Now: usage.Now})
		if err != nil {
			return err
		}
		if !known {
			continue // a reload took it away
		}
		for _, share := range b.Shares() {
			i := slices.IndexFunc(callers, func(c api.RemoteCaller) bool { return quota.RemotePrefix+c.Name == share.Name })
			if i >= 0 {
				callers[i].Spent = append(callers[i].Spent, api.Spent{Credential: name, Calls: int64(share.Calls), Units: int64(share.Units)})
			}
		}
	}
	return nil
}
