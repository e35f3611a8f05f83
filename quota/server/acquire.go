package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/upstream"
)

func (s *Server) acquire(w http.ResponseWriter, r *http.Request, c *Session, in api.AcquireRequest) error {
	start := time.Now()
	request := s.requestOf(c, in)
	if in.DryRun {
		return s.dryRun(w, r, c, request, in.Job)
	}
	d, err := s.decide(r.Context(), c, request)
	s.Emit(Decided{Verb: "acquire", Request: request, PID: c.PID, Decision: d, Err: err, Took: time.Since(start)})
	if err != nil {
		return err
	}
	d.Limits = c.visible(d.Limits)
	WriteDecision(w, c.Answer(d), request.UseReserve)
	return nil
}

// dryRun answers what would be decided now; outside of a pass, also for the calls of a job. Anybody may ask what the
// reserve would do.
func (s *Server) dryRun(w http.ResponseWriter, r *http.Request, c *Session, request quota.Request, job string) error {
	ordinary := request
	ordinary.UseReserve = false
	switch refused := refusalOf(c.forbids(ordinary), nil); {
	case job != "" && (c.HasToken() || c.remote != nil):
		return api.NewProblem(quota.Forbidden, "job is for callers outside of a pass, on the daemon's own host")
	case refused != nil:
		return refused
	case job != "":
		request.Caller = quota.Caller{UID: unknownUID, Job: job} // a remote caller counts as a job of its name
	}
	d, err := s.Service.DryRun(r.Context(), request)
	if err != nil {
		return err
	}
	short, fits := d.Short(request.UseReserve), d.Fits(max(1, request.Count), request.UseReserve)
	d.Limits = c.visible(d.Limits)
	body := decisionOf(d, request.UseReserve)
	body.DryRun, body.Missing, body.Fits, body.KeyRefused = true, short, int64(fits), s.Observer.Refuses(request.Credential)
	writeDecision(w, d, body, false, false)
	return nil
}

// requestOf returns the request that a caller makes. A run token names the credential; outside a
// pass, the credential may be left out if only one is configured.
func (s *Server) requestOf(c *Session, in api.AcquireRequest) quota.Request {
	in.Credential = cmp.Or(in.Credential, c.Credential)
	if in.Credential == "" {
		if names := s.names(c); len(names) == 1 {
			in.Credential = names[0]
		}
	}
	return quota.Request{
		Credential: in.Credential,
		Operation:  in.Operation,
		Count:      quota.Units(in.Count),
		RequestID:  in.RequestID,
		UseReserve: in.UseReserve || c.UseReserve,
		Optional:   in.Optional,
		Caller:     c.Caller,
	}
}

// decide decides a request, and records the decision if a pass made the request.
func (s *Server) decide(ctx context.Context, c *Session, r quota.Request) (quota.Decision, error) {
	if d := c.forbids(r); !d.Granted() {
		return d, nil
	}
	if !c.HasToken() {
		return s.Service.Acquire(ctx, r)
	}
	return AcquireByToken(ctx, s.Service, s.Tokens, c.token, r)
}

// AcquireByToken decides a request of the pass with a run token, and records the decision.
func AcquireByToken(ctx context.Context, service *quota.Service, tokens Tokens, token string, r quota.Request) (quota.Decision, error) {
	d, err := service.Acquire(ctx, r)
	tokens.Decided(token, r, d, err)
	return d, err
}

func (s *Server) noCredential(c *Session) quota.Decision {
	d := quota.Decision{Reason: quota.BadRequest, Detail: "credential is missing, and none is configured"}
	if names := s.names(c); len(names) > 0 {
		d.Detail = "credential is missing, and several are configured: " + strings.Join(names, ", ")
		d.Hint = "name one of them"
	}
	return d
}

// forbids refuses a request that its caller may not make, or that names no credential.
func (c *Session) forbids(r quota.Request) quota.Decision {
	if c.remote != nil {
		if d := c.remote.checkRequest(r); !d.Granted() {
			return d
		}
	}
	switch {
	case c.HasToken() && r.Credential != c.Credential:
		return quota.Decision{Reason: quota.Forbidden, Detail: "the run token spends from another credential"}
	case c.HasToken() && r.UseReserve && !c.UseReserve:
		return quota.Decision{Reason: quota.Forbidden, Detail: "the run token may not use the reserve",
			Hint: "use_reserve = true in [jobs." + c.Caller.Job + "] lets the job's passes"}
	case r.UseReserve && !c.HasToken() && !c.IsOperator():
		return quota.Decision{Reason: quota.Forbidden, Detail: fmt.Sprintf("the reserve is for root and the group %q", c.server.AdminGroup),
			Hint: becomeOperator(c.Caller.UID, c.server.AdminGroup)}
	case r.Credential == "":
		return c.server.noCredential(c)
	}
	return quota.Decision{}
}

func (s *Server) settle(w http.ResponseWriter, _ *http.Request, c *Session, in api.SettleRequest) error {
	if in.Units == nil {
		return api.NewProblem(quota.BadRequest, "units is missing")
	}
	return s.correct(w, c, "settle", quota.Units(*in.Units))
}

func (s *Server) release(w http.ResponseWriter, _ *http.Request, c *Session, _ None) error {
	return s.correct(w, c, "release", 0)
}

// correct settles the grant in the path and answers.
func (s *Server) correct(w http.ResponseWriter, c *Session, verb string, units quota.Units) error {
	start, id, past := time.Now(), c.Path("id"), ""
	ctx, cancel := s.Service.Within(c.request.Context())
	defer cancel()
	d, err := s.forbidsGrant(ctx, c, id)
	if err == nil && d.Granted() {
		operator := c.IsOperator() // which reads the user database
		d, err = s.Service.Settle(ctx, id, quota.Settlement{
			Units: units, Caller: c.Caller, Bounded: !operator, UseReserve: c.UseReserve,
		})
		switch limit, by := quota.Overspent(d.Limits, operator); {
		case err != nil || !d.Granted():
		case c.HasToken():
			past = s.Tokens.Settled(c.token, id, units, d.Limits)
		case d.Raised && by > 0:
			past = fmt.Sprintf("limit %q by %s", limit, by.Text())
		}
	}
	credential, _, _ := quota.ParseGrantID(id) // unknown if it is none
	s.Emit(Decided{Verb: verb, Request: quota.Request{Credential: credential, Caller: c.Caller}, PID: c.PID, GrantID: id,
		Decision: d, Past: past, Err: err, Took: time.Since(start)})
	if err != nil {
		return err
	}
	d.Limits = c.visible(d.Limits)
	WriteDecision(w, d, false)
	return nil
}

// forbidsGrant refuses to change a grant that is not the caller's. With a run token,
// Tokens.Owns decides; without one, the caller must have acquired it outside a pass.
func (s *Server) forbidsGrant(ctx context.Context, c *Session, id string) (quota.Decision, error) {
	switch {
	case c.HasToken() && !s.Tokens.Owns(c.token, id):
		return quota.Decision{Reason: quota.Forbidden, Detail: "the grant is not one that the pass acquired itself",
			Hint: "a call through the proxy is settled by the proxy, which knows whether it was sent"}, nil
	case c.HasToken() || c.IsOperator():
		return quota.Decision{}, nil
	case c.remote != nil:
		if of, _, _ := quota.ParseGrantID(id); !slices.Contains(c.remote.Credentials, of) {
			return c.notItsGrant(), nil
		}
	}
	e, _, err := s.Service.Grant(ctx, id)
	switch {
	case err != nil || e.By == c.Caller.By():
		return quota.Decision{}, err
	case e.By == "":
		return quota.Gone(id), nil
	case c.remote != nil:
		return c.notItsGrant(), nil
	}
	return quota.Decision{
		Reason: quota.Forbidden,
		Detail: fmt.Sprintf("the grant is not one that user %s acquired outside a pass", userName(c.Caller.UID)),
		Hint:   "a pass settles and releases its own grants with its run token; any grant is changed by root and the group " + c.server.AdminGroup,
	}, nil
}

// observe records what the upstream answered to a caller.
func (s *Server) observe(ctx context.Context, c *Session, in api.Observation) (api.Observed, error) {
	observation, err := s.observationOf(c, in)
	if err != nil {
		return api.Observed{}, err
	}
	out, err := s.Observer.Observe(ctx, observation)
	if err != nil {
		return api.Observed{}, err
	}
	if c.HasToken() {
		out.Report(c.token, s.Tokens)
	}
	if c.remote != nil {
		out.Closed.By = "" // it may be another's name
	}
	return api.Observed{
		Class: string(out.Class), Limit: out.Limit, Closed: api.ClosedOf(out.Closed), Changed: out.Changed, Says: out.Says,
	}, nil
}

// observationOf returns the observation that a caller makes. A pass may report on its own credential alone.
func (s *Server) observationOf(c *Session, in api.Observation) (upstream.Observation, error) {
	request := s.requestOf(c, api.AcquireRequest{Credential: in.Credential, Operation: in.Operation})
	if of, _, err := quota.ParseGrantID(in.GrantID); err == nil {
		request.Credential = of
	}
	observation := upstream.Observation{Credential: request.Credential, Operation: in.Operation, Grant: in.GrantID, Caller: c.Caller}
	switch {
	case c.HasToken() && request.Credential != c.Credential:
		return observation, api.NewProblem(quota.Forbidden, "the run token spends from another credential")
	case (in.Operation == "") == (in.GrantID == ""):
		return observation, api.NewProblem(quota.BadRequest, "name the operation, or the grant by grant_id: one of them")
	case c.remote != nil && in.GrantID == "":
		return observation, api.NewProblem(quota.Forbidden, "a remote caller reports what answered a grant of its own: name grant_id instead of operation")
	case request.Credential == "" && in.GrantID == "":
		return observation, api.ProblemOf(s.noCredential(c))
	}
	if c.remote != nil {
		if err := refusalOf(s.forbidsGrant(c.request.Context(), c, in.GrantID)); err != nil {
			return observation, err
		}
	}
	status, header, err := upstream.ParseHeader(in.Header)
	if err != nil {
		return observation, api.NewProblem(quota.BadRequest, "%v", err)
	}
	observation.Answer = upstream.Answer{Status: cmp.Or(int(in.Status), status), Header: header, Body: []byte(in.Body)}
	return observation, nil
}

// A Decided is the result of an acquire, settle, release, book, close, open or reset.
type Decided struct {
	Verb     string        // which of these
	Request  quota.Request // of an acquire, with names as the caller sent them; of the others the Caller and, if known, the Credential
	PID      int           // of the process that connected; 0 when not known
	GrantID  string        // that was settled or released
	Decision quota.Decision
	Past     string // of a settle: what it exceeds, which ends the run of a pass; empty: nothing
	Err      error  // why there is no decision; nil when there is one
	Took     time.Duration
}

// The results of a Decided that no quota.Reason names.
const (
	Granted  = "granted"
	Replayed = "replayed" // granted before under the same request id
)

// Result names the result as the API answers it: Granted, Replayed, or the reason of the refusal.
func (e Decided) Result() string {
	switch {
	case e.Err != nil:
		return string(api.ProblemFrom(e.Err).Reason)
	case !e.Decision.Granted():
		return string(e.Decision.Reason)
	case e.Decision.Replayed:
		return Replayed
	default:
		return Granted
	}
}
