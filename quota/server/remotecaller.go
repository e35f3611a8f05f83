package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// A RemoteCaller is a caller on another host, which has no daemon. Its token identifies it: it
// may use the routes in remoteRoutes, for the names listed here.
type RemoteCaller struct {
	Name        string
	Tokens      [][sha256.Size]byte // the digests of those that are valid now
	Credentials []string
	Operations  []string // nil: all of those credentials
	Clients     []string // the groups whose clients it may ask about
	// Rate is how many requests a second are answered, with those of two seconds at once.
	// 0: DefaultRemoteRate.
	Rate int

	counts *remoteCounts
}

// DefaultRemoteRate is the Rate of a caller that has none.
const DefaultRemoteRate = 50

// remoteCounts counts the results of a caller's requests.
type remoteCounts struct {
	granted, refused, forbidden atomic.Uint64
	last                        atomic.Pointer[remoteVisit] // nil: it has not come yet

	mu   sync.Mutex // guards free
	free time.Time  // when the caller's allowance of requests is full again
}

func (c *RemoteCaller) rate() int { return cmp.Or(c.Rate, DefaultRemoteRate) }

// wait counts a request, and returns how long it must wait; 0: it is answered now. The requests of two seconds are
// answered at once, and then one in each part of a second.
func (c *RemoteCaller) wait(now time.Time) time.Duration {
	each := time.Second / time.Duration(c.rate())
	c.counts.mu.Lock()
	defer c.counts.mu.Unlock()
	free := quota.Later(c.counts.free, now)
	if wait := free.Sub(now) - 2*time.Second + each; wait > 0 {
		return wait
	}
	c.counts.free = free.Add(each)
	return 0
}

// A remoteVisit is when and from where a request came.
type remoteVisit struct {
	at   time.Time
	from netip.Addr
}

// countForbidden counts a request that the caller may not make.
func (c *Session) countForbidden() {
	if c.remote != nil {
		c.remote.counts.forbidden.Add(1)
	}
}

// count counts an acquire.
func (c *Session) count(result string) {
	switch {
	case c.remote == nil:
	case result == string(quota.Forbidden):
		c.countForbidden()
	case result == Granted || result == Replayed:
		c.remote.counts.granted.Add(1)
	default:
		c.remote.counts.refused.Add(1)
	}
}

// remoteRoutes are the routes that a remote caller may use. Every other route is refused. checkRoute
// checks what the path names; the handlers check what is in a body: see forbids, forbidsGrant and
// observationOf.
var remoteRoutes = []string{
	"POST /v1/acquire", "POST /v1/grants/{id}/settle", "DELETE /v1/grants/{id}", "POST /v1/observe",
	"GET /v1/status", "GET /v1/credentials", "GET /v1/credentials/{name}",
	"POST /v1/clients/{name}/acquire",
	"GET /v1", "GET /healthz", "GET /readyz", "GET /version",
}

// forbids gives the same answer for a name that is not configured and for one of another caller.
func (c *RemoteCaller) forbids(what, name string) *api.Problem {
	return api.NewProblem(quota.Forbidden, "remote caller %q may not %s %.80q", c.Name, what, name)
}

// checkRoute refuses a route that is not for the remote caller, or names what is not.
func (c *RemoteCaller) checkRoute(route Route, r *http.Request) *api.Problem {
	switch name := r.PathValue("name"); {
	case !slices.Contains(remoteRoutes, route.pattern()):
		return api.NewProblem(quota.Forbidden, "%s is not for remote callers", route.pattern()).
			WithHint("ask over the socket of the daemon's own host")
	case route.ofCredential() && name != api.OnlyCredential && !slices.Contains(c.Credentials, name):
		return c.forbids("read credential", name)
	case strings.HasPrefix(route.Path, "/v1/clients/{name}") && !slices.Contains(c.Clients, name):
		return c.forbids("ask about clients", name)
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
	c.countForbidden()
	return quota.Decision{Reason: quota.Forbidden, Detail: fmt.Sprintf("the grant is not one that remote caller %q acquired", c.remote.Name)}
}

// visible returns the limits that count the caller, without the names of others.
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

// names returns the credentials that the caller may know.
func (s *Server) names(c *Session) []string {
	all := s.Service.Names()
	if c.remote == nil {
		return all
	}
	return slices.DeleteFunc(all, func(name string) bool { return !slices.Contains(c.remote.Credentials, name) })
}

// RemoteRoute returns the route that lists the remote callers and what each spent. State returns
// everything but what they spent, which the ledger knows.
func RemoteRoute(service *quota.Service, state func() api.Remote) Route {
	return Route{
		Method: http.MethodGet, Path: "/v1/remote", Access: Read, Does: "the callers on other hosts: last seen, spent, refused",
		Handle: LongRead(Handle(func(ctx context.Context, _ *Session, _ None) (api.Remote, error) {
			remote := state()
			return remote, addSpent(ctx, service, remote.Callers)
		})),
	}
}

// addSpent adds what each caller spent. It reads the log of each credential that a caller has once.
func addSpent(ctx context.Context, service *quota.Service, callers []api.RemoteCaller) error {
	for _, name := range service.Names() {
		if !slices.ContainsFunc(callers, func(c api.RemoteCaller) bool { return slices.Contains(c.Credentials, name) }) {
			continue
		}
		usage, err := service.Usage(ctx, name)
		if err != nil {
			return err
		}
		b, err := service.Breakdown(ctx, name, quota.BreakdownQuery{By: quota.ByCaller, Now: usage.Now})
		if err != nil {
			return err
		}
		for _, share := range b.Shares() {
			i := slices.IndexFunc(callers, func(c api.RemoteCaller) bool { return quota.RemotePrefix+c.Name == share.Name })
			if i >= 0 {
				callers[i].Spent = append(callers[i].Spent, api.RemoteSpent{Credential: name, Calls: int64(share.Calls), Units: int64(share.Units)})
			}
		}
	}
	return nil
}
