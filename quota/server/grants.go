package server

import (
	"fmt"
	"net/http"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

func (s *Server) settle(w http.ResponseWriter, r *http.Request, c *Session) {
	var in api.SettleRequest
	if problem := decode(r, &in); problem != nil {
		writeProblem(w, problem)
		return
	}
	if in.Units == nil {
		writeProblem(w, api.NewProblem(quota.BadRequest, "units is missing"))
		return
	}
	s.correct(w, c, "settle", quota.Units(*in.Units))
}

func (s *Server) release(w http.ResponseWriter, r *http.Request, c *Session) {
	if problem := decode(r, new(None)); problem != nil {
		writeProblem(w, problem)
		return
	}
	s.correct(w, c, "release", 0)
}

// correct settles the grant in the path and answers.
func (s *Server) correct(w http.ResponseWriter, c *Session, verb string, units quota.Units) {
	start := time.Now()
	id := c.Path("id")
	d, err := s.correction(c, id, units)
	s.observe(Event{Verb: verb, Request: quota.Request{Caller: c.Caller}, PID: c.PID, GrantID: id,
		Decision: d, Err: err, Took: time.Since(start)})
	if err != nil {
		writeProblem(w, api.ProblemFrom(err))
		return
	}
	writeDecision(w, d, false)
}

func (s *Server) correction(c *Session, id string, units quota.Units) (quota.Decision, error) {
	if d, err := s.forbidsGrant(c, id); err != nil || !d.Granted() {
		return d, err
	}
	d, err := s.keeper.Settle(c.request.Context(), id, units, c.Caller)
	if err == nil && d.Granted() && c.HasToken() {
		s.tokens.Settled(c.token, id, units)
	}
	return d, err
}

// forbidsGrant refuses to have a caller change a grant that is not his: with a run
// token it is one of its run's, else one that he himself acquired outside a pass.
func (s *Server) forbidsGrant(c *Session, id string) (quota.Decision, error) {
	switch {
	case c.HasToken() && !s.tokens.Owns(c.token, id):
		return quota.Decision{Reason: quota.Forbidden, Detail: "the grant is not one of the run token's"}, nil
	case c.HasToken() || c.IsOperator():
		return quota.Decision{}, nil
	}
	by, err := s.keeper.Grantee(c.request.Context(), id)
	switch {
	case err != nil || by == c.Caller.By():
		return quota.Decision{}, err
	case by == "":
		return quota.Gone(id), nil
	}
	return quota.Decision{
		Reason: quota.Forbidden,
		Detail: fmt.Sprintf("the grant is not one that uid %d acquired outside a pass", c.Caller.UID),
		Hint:   "a pass settles and releases its own grants with its run token; any grant is changed by root and the group " + c.adminGroup,
	}, nil
}
