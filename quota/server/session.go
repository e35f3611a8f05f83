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

// Tokens knows the run tokens of live passes, and records what was decided for each. Any number of goroutines may call
// it at the same time. A token that is not live, or no longer, is not an error: nothing is known about it.
type Tokens interface {
	// Bearer returns the pass that a live token stands for. It compares tokens in constant time.
	Bearer(token string) (b quota.Bearer, live bool)
	// Decided records what became of a request of the token's pass, before the request is answered: granted,
	// replayed, refused, or outcome not known.
	Decided(token string, r quota.Request, d quota.Decision, err error)
	// Owns reports whether the token's pass may settle that grant: one that it acquired itself,
	// not one of a call through the proxy. Nothing else decides that.
	Owns(token, grantID string) bool
	// Settled records that a grant of the token's pass was set to units, and the state of its limits. Added units are
	// always booked, since they are spent. If they exceed what a limit may have, the run ends, and past says which.
	Settled(token, grantID string, units quota.Units, limits []quota.LimitState) (past string)
	// Observed records what the upstream answered to a call of the token's pass.
	Observed(token string, word quota.Word)
	// Refused records that a call of the token's pass was not made, or not answered, and why. It is
	// no denial: those are what Decided records.
	Refused(token, why string)
}

// A Session is a request that was admitted, with its caller.
type Session struct {
	// The Bearer is that of the run token. Without one, its Caller has the uid of the calling
	// process, -1 if the connection does not show it, and the rest is zero.
	quota.Bearer
	PID int // of the process that connected, for logs; 0 when not known

	server    *Server
	request   *http.Request
	token     string        // of a live pass; empty: none
	tokenless bool          // a job's process makes the call, without the run token of its pass
	remote    *RemoteCaller // the caller on another host; nil: it is on this one
}

// Path returns the part of the path that its route's pattern calls name.
func (c *Session) Path(name string) string { return c.request.PathValue(name) }

// HasToken reports whether the call came with the run token of a live pass.
func (c *Session) HasToken() bool { return c.token != "" }

// IsOperator reports whether root or a member of the admin group makes the call, without a run token.
func (c *Session) IsOperator() bool {
	return !c.HasToken() && !c.tokenless && isOperator(c.Caller.UID, c.server.AdminGroup)
}

// admit identifies the caller of a request as far as possible, and checks the access.
func (s *Server) admit(r *http.Request, route Route) (*Session, *api.Problem) {
	peer := peerFrom(r)
	c := &Session{Bearer: quota.Bearer{Caller: quota.Caller{UID: peer.uid}}, PID: peer.pid, server: s, request: r}
	if c.remote = remoteOf(r); c.remote != nil {
		c.Caller.Remote = c.remote.Name
		return c, c.remote.checkRoute(route, r)
	}
	if values := r.Header["Authorization"]; values != nil {
		if problem := c.identify(values); problem != nil {
			return c, problem
		}
	}
	c.tokenless = !c.HasToken() && s.JobsUID > 0 && c.Caller.UID == s.JobsUID
	return c, c.check(route.Access)
}

// bearerIn returns the token in an Authorization header; ok is false if there is not one header, of the scheme Bearer.
func bearerIn(values []string) (token string, ok bool) {
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// identify makes the pass with the run token the caller.
func (c *Session) identify(values []string) *api.Problem {
	token, ok := bearerIn(values)
	switch {
	case !ok:
		return api.NewProblem(quota.Forbidden, "one Authorization header is understood: Bearer and a run token")
	case token == "":
		return api.NewProblem(quota.Forbidden, "the run token is empty").
			WithHint("outside a pass $" + api.TokenEnv + " is not set: leave the Authorization header out")
	}
	var b quota.Bearer
	live := false
	if c.server.Tokens != nil {
		b, live = c.server.Tokens.Bearer(token)
	}
	if !live {
		return api.NewProblem(quota.Forbidden, "the run token is unknown: it dies with its pass")
	}
	b.Caller.UID = c.Caller.UID
	c.Bearer, c.token = b, token
	return nil
}

// check refuses a caller that access does not allow. Who is an operator is looked up last: that reads the user database.
func (c *Session) check(access Access) *api.Problem {
	spends := c.HasToken() || c.Caller.UID >= 0 && !c.tokenless
	switch uid := c.Caller.UID; {
	case access == Read, (access == Spend || access == Correct) && spends, access == Observe && c.HasToken(), c.IsOperator():
		return nil
	case c.HasToken():
		return api.NewProblem(quota.Forbidden, "a run token may acquire, settle and release for its own run, and nothing else")
	case c.tokenless:
		return api.NewProblem(quota.Forbidden, "jobs run as user %s, who without a run token may read and nothing more", userName(uid)).
			WithHint("a pass finds its run token in $" + api.TokenEnv)
	case uid < 0:
		return api.NewProblem(quota.Forbidden, "this needs a run token, or a connection that shows the caller's uid")
	default:
		return api.NewProblem(quota.Forbidden, "user %s may read and acquire; the rest is for root and the group %q", userName(uid), c.server.AdminGroup).
			WithHint(becomeOperator(uid, c.server.AdminGroup))
	}
}

// isOperator reports whether uid is root or a member of the admin group. It reads the user database each time: a user
// who leaves the group loses the right at once. An unknown group has no members.
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

// becomeOperator says how uid becomes an operator. The group counts at once, without another login: see isOperator.
func becomeOperator(uid int, adminGroup string) string {
	join := fmt.Sprintf("usermod -aG %s %s", adminGroup, userName(uid))
	if _, err := user.LookupGroup(adminGroup); err != nil {
		join = fmt.Sprintf("groupadd %s && %s", adminGroup, join)
	}
	return "ask as root, or become a member of the group, as root: " + join
}

// userName returns the name of a user, or the uid if it has none.
func userName(uid int) string {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return strconv.Itoa(uid)
	}
	return u.Username
}
