package server

import (
	"fmt"
	"net/http"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"quotad/quota"
	"quotad/quota/api"
)

// Tokens knows the run tokens of live passes, and keeps the record of what was
// decided for each. Any number of goroutines may call it at the same time. A
// token that is not, or no longer, live is no error: nothing is known about it.
type Tokens interface {
	// Bearer returns the pass that a live token stands for. Tokens are compared in
	// constant time.
	Bearer(token string) (b quota.Bearer, live bool)
	// Admit decides whether the token's pass may make a request that costs units, and
	// refuses what would take its run past what it may spend. Of one that is admitted,
	// decided is called once, before the pass hears what became of it: granted,
	// replayed, refused, or not known.
	Admit(token string, r quota.Request, units quota.Units) (decided func(quota.Decision, error), d quota.Decision)
	// Owns tells whether the token's pass may settle that grant: one that it acquired
	// itself, not one of a call through the proxy. It alone decides that.
	Owns(token, grantID string) bool
	// Settled tells that a grant of the token's pass was set to units, and how its
	// limits are now. Units that were added are booked whatever they are, since they are
	// spent; but where they go past what the run or a limit may have, the run ends, and
	// past says which.
	Settled(token, grantID string, units quota.Units, limits []quota.LimitState) (past string)
	// Observed tells what the upstream answered to a call of the token's pass.
	Observed(token string, word quota.Word)
}

// A Session is a request that was admitted, with who makes it.
type Session struct {
	// Caller is the uid of the calling process, -1 where the connection does not
	// tell; of a call with a run token also the job, region and run.
	Caller     quota.Caller
	PID        int    // of the process that connected, for logs; 0 when not known
	Credential string // that the run token spends from; empty without a token

	token      string
	useReserve bool // the run token may use the reserve
	adminGroup string
	longReads  *longReads
	lost       bool          // a job's process makes the call, without the run token of its pass
	remote     *RemoteCaller // who makes the call from another host; nil: it is made on this one
	request    *http.Request
}

// Path returns the part of the path that its route's pattern calls name.
func (c *Session) Path(name string) string { return c.request.PathValue(name) }

// HasToken tells whether the call came with the run token of a live pass.
func (c *Session) HasToken() bool { return c.token != "" }

// IsOperator tells whether root or a member of the admin group makes the call,
// without a run token.
func (c *Session) IsOperator() bool {
	return !c.HasToken() && !c.lost && isOperator(c.Caller.UID, c.adminGroup)
}

// admit finds out who makes a request, as far as that can be told, and whether
// access is for them.
func (s *Server) admit(r *http.Request, route Route) (*Session, *api.Problem) {
	peer := peerFrom(r)
	c := &Session{Caller: quota.Caller{UID: peer.uid}, PID: peer.pid, adminGroup: s.AdminGroup, longReads: s.longReads, request: r}
	if c.remote = remoteOf(r); c.remote != nil {
		c.Caller.Remote = c.remote.Name
		return c, c.remote.checkRoute(route, r)
	}
	if values := r.Header["Authorization"]; values != nil {
		if problem := s.identify(c, values); problem != nil {
			return c, problem
		}
	}
	c.lost = !c.HasToken() && s.JobsUID > 0 && c.Caller.UID == s.JobsUID
	return c, c.check(route.Access)
}

// identify makes the holder of a run token the caller.
func (s *Server) identify(c *Session, values []string) *api.Problem {
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	switch {
	case len(values) > 1 || !strings.EqualFold(scheme, "Bearer"):
		return api.NewProblem(quota.Forbidden, "one Authorization header is understood: Bearer and a run token")
	case token == "":
		p := api.NewProblem(quota.Forbidden, "the run token is empty")
		p.Hint = "outside a pass $" + api.TokenEnv + " is not set: leave the Authorization header out"
		return p
	case s.Tokens == nil:
		return unknownToken()
	}
	b, live := s.Tokens.Bearer(token)
	if !live {
		return unknownToken()
	}
	b.Caller.UID = c.Caller.UID
	c.Caller, c.Credential, c.token, c.useReserve = b.Caller, b.Credential, token, b.UseReserve
	return nil
}

func unknownToken() *api.Problem {
	return api.NewProblem(quota.Forbidden, "the run token is unknown: it dies with its pass")
}

// check refuses those that access is not for.
func (c *Session) check(access Access) *api.Problem {
	switch access {
	case Read:
		return nil
	case Spend, Correct:
		if c.HasToken() || c.Caller.UID >= 0 && !c.lost {
			return nil
		}
		if c.Caller.UID < 0 {
			return api.NewProblem(quota.Forbidden, "this needs a run token, or a connection that shows the caller's uid")
		}
	case Observe:
		if c.HasToken() || c.IsOperator() {
			return nil
		}
	default:
		if c.IsOperator() {
			return nil
		}
	}
	return c.refuse()
}

func (c *Session) refuse() *api.Problem {
	if c.HasToken() {
		return api.NewProblem(quota.Forbidden, "a run token may acquire, settle and release for its own run, and nothing else")
	}
	if c.lost {
		p := api.NewProblem(quota.Forbidden, "jobs run as user %s, who without a run token may read and nothing more", userName(c.Caller.UID))
		p.Hint = "a pass finds its run token in $" + api.TokenEnv
		return p
	}
	p := api.NewProblem(quota.Forbidden, "user %s may read and acquire; the rest is for root and the group %q", userName(c.Caller.UID), c.adminGroup)
	p.Hint = becomeOperator(c.Caller.UID, c.adminGroup)
	return p
}

// isOperator tells whether uid is root or a member of the admin group. The user
// database is read each time: whoever leaves the group loses the right at once.
// An unknown group has no members.
func isOperator(uid int, adminGroup string) bool {
	if uid <= 0 {
		return uid == 0
	}
	group, err := user.LookupGroup(adminGroup)
	if err != nil {
		return false
	}
	member, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return false
	}
	groups, err := member.GroupIds()
	return err == nil && slices.Contains(groups, group.Gid)
}

// becomeOperator says how uid comes to be an operator. The group counts at once,
// see isOperator: nobody has to log in again.
func becomeOperator(uid int, adminGroup string) string {
	join := fmt.Sprintf("usermod -aG %s %s", adminGroup, userName(uid))
	if _, err := user.LookupGroup(adminGroup); err != nil {
		join = fmt.Sprintf("groupadd %s && %s", adminGroup, join)
	}
	return "ask as root, or become a member of the group, as root: " + join
}

// userName returns what a user is called, his uid where nobody knows.
func userName(uid int) string {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return strconv.Itoa(uid)
	}
	return u.Username
}
