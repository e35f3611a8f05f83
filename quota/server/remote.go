package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// A Remote knows the remote callers by their tokens, and records when and from where each
// came. Any number of goroutines may use it at the same time.
type Remote struct {
	since   time.Time
	callers atomic.Pointer[[]*RemoteCaller]
	wrong   atomic.Uint64 // requests without a token that is known
}

// NewRemote returns a Remote without callers.
func NewRemote() *Remote {
	r := &Remote{since: time.Now()}
	r.callers.Store(new([]*RemoteCaller))
	return r
}

// SetCallers replaces the callers. The counts of one that stays are kept.
func (m *Remote) SetCallers(callers []RemoteCaller) {
	next := make([]*RemoteCaller, len(callers))
	for i, c := range callers {
		c.counts = &remoteCounts{}
		for _, was := range *m.callers.Load() {
			if was.Name == c.Name {
				c.counts = was.counts
			}
		}
		next[i] = &c
	}
	m.callers.Store(&next)
}

type remoteKey struct{}

// remoteOf returns the remote caller who makes a request; nil if it came over the socket.
func remoteOf(r *http.Request) *RemoteCaller {
	c, _ := r.Context().Value(remoteKey{}).(*RemoteCaller)
	return c
}

// admit finds the caller whose token a request bears.
func (m *Remote) admit(w http.ResponseWriter, r *http.Request) (*http.Request, *api.Problem) {
	token, problem := tokenIn(r)
	if problem == nil {
		if c := m.bearer(token); c != nil {
			now := time.Now()
			c.counts.last.Store(&remoteVisit{now, addressOf(r.RemoteAddr)})
			r = r.WithContext(context.WithValue(r.Context(), remoteKey{}, c))
			if wait := c.wait(now); wait > 0 {
				c.counts.refused.Add(1)
				w.Header().Set("Retry-After", strconv.FormatInt(api.Seconds(wait), 10))
				return r, api.NewProblem(api.Busy, "remote caller %q asks more than its rate allows, which is %s a second", c.Name, quota.Count(c.rate(), "request", "requests")).
					WithHint("rate in [remote.callers." + c.Name + "] allows more")
			}
			return r, nil
		}
		problem = api.NewProblem(api.Unauthorized, "the token is not one of a remote caller").
			WithHint("token_file in [remote.callers.NAME] holds the tokens that are valid, read by: quotactl reload")
	}
	m.wrong.Add(1)
	w.Header().Set("WWW-Authenticate", "Bearer")
	return r, problem
}

// bearer returns the caller with a token; nil: no caller has it. It compares with every digest, each
// in constant time.
func (m *Remote) bearer(token string) (found *RemoteCaller) {
	digest := sha256.Sum256([]byte(token))
	for _, c := range *m.callers.Load() {
		for _, known := range c.Tokens {
			if subtle.ConstantTimeCompare(known[:], digest[:]) == 1 {
				found = c
			}
		}
	}
	return found
}

// tokenIn returns the token in the header of a request.
func tokenIn(r *http.Request) (string, *api.Problem) {
	values := r.Header["Authorization"]
	if len(values) == 0 && inQuery(r.URL.RawQuery) {
		return "", api.NewProblem(api.Unauthorized, "a token in the address is not read: addresses end up in logs").
			WithHint("replace that token, and send the new one in the header Authorization: Bearer TOKEN")
	}
	if token, ok := bearerIn(values); ok && token != "" {
		return token, nil
	}
	return "", api.NewProblem(api.Unauthorized, "a remote caller shows its token").WithHint("send one header Authorization: Bearer TOKEN")
}

// inQuery reports whether a query seems to hold a token.
func inQuery(query string) bool {
	for pair := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(strings.ToLower(pair), "=")
		if slices.Contains([]string{"token", "access_token", "api_key", "apikey", "key", "bearer", "authorization", "auth"}, name) {
			return true
		}
	}
	return false
}

// addressOf reads an address with or without a port; zero: it is none.
func addressOf(text string) netip.Addr {
	with, err := netip.ParseAddrPort(text)
	address := with.Addr()
	if err != nil {
		address, _ = netip.ParseAddr(text)
	}
	return address.Unmap().WithZone("")
}

// State returns the callers, and what became of their requests.
func (m *Remote) State() api.Remote {
	state := api.Remote{Since: m.since.UTC(), WrongTokens: m.wrong.Load(), Callers: []api.RemoteCaller{}}
	for _, c := range *m.callers.Load() {
		one := api.RemoteCaller{
			Spent: []api.RemoteSpent{},
			Name:  c.Name, Credentials: c.Credentials, Operations: c.Operations, Subjects: c.Clients, Tokens: len(c.Tokens),
			Granted: c.counts.granted.Load(), Refused: c.counts.refused.Load(), Forbidden: c.counts.forbidden.Load(),
		}
		if last := c.counts.last.Load(); last != nil {
			one.LastSeen, one.From = api.TimeOf(last.at), last.from.String()
		}
		state.Callers = append(state.Callers, one)
	}
	slices.SortFunc(state.Callers, func(a, b api.RemoteCaller) int { return cmp.Compare(a.Name, b.Name) })
	return state
}
