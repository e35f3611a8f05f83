package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

func (s *Server) acquire(w http.ResponseWriter, r *http.Request, c *Session) {
	start := time.Now()
	in := api.AcquireRequest{Count: 1}
	if problem := decode(r, &in); problem != nil {
		writeProblem(w, problem)
		return
	}
	request := s.requestOf(c, in)
	d, err := s.decide(r.Context(), c, request)
	s.observe(Event{Verb: "acquire", Request: request, PID: c.PID, Decision: d, Err: err, Took: time.Since(start)})
	if err != nil {
		writeProblem(w, api.ProblemFrom(err))
		return
	}
	writeDecision(w, d, request.UseReserve)
}

// requestOf returns the request that a caller makes. A run token names the
// credential; outside a pass the only one there is may be left out.
func (s *Server) requestOf(c *Session, in api.AcquireRequest) quota.Request {
	if in.Credential == "" {
		in.Credential = c.Credential
	}
	if all := s.keeper.Credentials(); in.Credential == "" && len(all) == 1 {
		in.Credential = all[0].Name
	}
	return quota.Request{
		Credential: in.Credential,
		Operation:  in.Operation,
		Count:      quota.Units(in.Count),
		RequestID:  in.RequestID,
		Fresh:      in.Fresh,
		UseReserve: in.UseReserve || c.useReserve,
		Optional:   in.Optional,
		Caller:     c.Caller,
	}
}

// decide has a request decided, and recorded if a pass made it.
func (s *Server) decide(ctx context.Context, c *Session, r quota.Request) (quota.Decision, error) {
	if d := c.forbids(r); !d.Granted() {
		return d, nil
	}
	if r.Credential == "" {
		return s.noCredential(), nil
	}
	if !c.HasToken() {
		return s.keeper.Acquire(ctx, r)
	}
	decided, d := s.tokens.Admit(c.token, r, s.keeper.Cost(r))
	if !d.Granted() {
		return d, nil
	}
	d, err := s.keeper.Acquire(ctx, r)
	decided(d, err)
	return d, err
}

func (s *Server) noCredential() quota.Decision {
	d := quota.Decision{Reason: quota.BadRequest, Detail: "credential is missing, and none is configured"}
	if names := s.keeper.Names(); len(names) > 0 {
		d.Detail = "credential is missing, and several are configured: " + strings.Join(names, ", ")
		d.Hint = "name one of them"
	}
	return d
}

// forbids refuses a request that the caller may not make.
func (c *Session) forbids(r quota.Request) quota.Decision {
	switch {
	case c.HasToken() && r.Credential != c.Credential:
		return quota.Decision{Reason: quota.Forbidden, Detail: "the run token spends from another credential"}
	case c.HasToken() && r.UseReserve && !c.useReserve:
		return quota.Decision{Reason: quota.Forbidden, Detail: "the run token may not use the reserve",
			Hint: "use_reserve = true in [jobs." + c.Caller.Job + "] lets the job's passes"}
	case r.UseReserve && !c.HasToken() && !c.IsOperator():
		return quota.Decision{Reason: quota.Forbidden, Detail: fmt.Sprintf("the reserve is for root and the group %q", c.adminGroup),
			Hint: becomeOperator(c.Caller.UID, c.adminGroup)}
	default:
		return quota.Decision{}
	}
}
