package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"quotad/quota"
)

// Bind takes the fields of POST /v1/acquire.
func (a *AcquireRequest) Bind(f *Fields) {
	a.Count = 1
	f.Text("credential", &a.Credential)
	f.Text("operation", &a.Operation)
	f.Int("count", &a.Count)
	f.Text("request_id", &a.RequestID)
	f.Bool("use_reserve", &a.UseReserve)
	f.Bool("fresh", &a.Fresh)
}

func (s *Server) acquire(w http.ResponseWriter, r *http.Request, c *Call) {
	start := time.Now()
	var in AcquireRequest
	if problem := decode(r, &in); problem != nil {
		writeProblem(w, problem)
		return
	}
	request := c.requestOf(in)
	d, err := s.decide(r.Context(), c, request)
	s.observe(Event{Verb: "acquire", Request: request, PID: c.PID, Decision: d, Err: err, Took: time.Since(start)})
	if err != nil {
		writeProblem(w, problemFrom(err))
		return
	}
	writeDecision(w, d, request.UseReserve)
}

func (c *Call) requestOf(in AcquireRequest) quota.Request {
	if in.Credential == "" {
		in.Credential = c.Credential
	}
	return quota.Request{
		Credential: in.Credential,
		Operation:  in.Operation,
		Count:      quota.Units(in.Count),
		RequestID:  in.RequestID,
		Fresh:      in.Fresh,
		UseReserve: in.UseReserve,
		Caller:     c.Caller,
	}
}

// decide has a request decided, and recorded if a pass made it.
func (s *Server) decide(ctx context.Context, c *Call, r quota.Request) (quota.Decision, error) {
	if why := c.forbids(r); why != "" {
		return quota.Decision{Reason: quota.Forbidden, Detail: why}, nil
	}
	if r.Credential == "" {
		return quota.Decision{Reason: quota.BadRequest, Detail: "credential is missing: only a run token implies one"}, nil
	}
	d, err := s.keeper.Acquire(ctx, r)
	if err == nil && c.HasToken() {
		s.tokens.Decided(c.token, r, d)
	}
	return d, err
}

// forbids says why the caller may not make a request, or nothing.
func (c *Call) forbids(r quota.Request) string {
	switch {
	case c.HasToken() && r.Credential != c.Credential:
		return "the run token spends from another credential"
	case c.HasToken() && r.UseReserve:
		return "a run token may not use the reserve"
	case r.UseReserve && !c.IsOperator():
		return fmt.Sprintf("the reserve is for root and the group %q", c.adminGroup)
	default:
		return ""
	}
}
