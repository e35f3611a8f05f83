package server

import (
	"cmp"
	"context"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/upstream"
)

// observe records what the upstream answered to a caller.
func (s *Server) observe(ctx context.Context, c *Session, in api.Observation) (api.Observed, error) {
	observation, err := s.observationOf(c, in)
	if err != nil {
		return api.Observed{}, err
	}
	out, err := s.Observer.Observe(ctx, observation)
	if err := refusalOf(out.Refused, err); err != nil {
		return api.Observed{}, err
	}
	if c.HasToken() {
		out.Tell(c.token, s.Tokens)
	}
	if c.remote != nil {
		out.Closed.By = "" // it may be another's name
	}
	return api.Observed{
		Class: string(out.Class), Credential: out.Credential, Operation: out.Operation, Limit: out.Limit,
		Closed: closedOf(out.Closed), Changed: out.Changed, Reset: timeOf(out.Reset), Says: out.Says,
	}, nil
}

// observationOf returns the observation that a caller makes. A pass may report on its own
// credential alone.
func (s *Server) observationOf(c *Session, in api.Observation) (upstream.Observation, error) {
	request := s.requestOf(c, api.AcquireRequest{Credential: in.Credential, Operation: in.Operation})
	if of, _, err := quota.ParseGrantID(in.GrantID); err == nil {
		request.Credential = of
	}
	observation := upstream.Observation{Credential: request.Credential, Operation: in.Operation, Grant: in.GrantID, Caller: c.Caller}
	switch {
	case c.HasToken() && request.Credential != c.Credential:
		return observation, api.NewProblem(quota.Forbidden, "the run token spends from another credential")
	case in.Operation == "" && in.GrantID == "":
		return observation, api.NewProblem(quota.BadRequest, "operation is missing, or grant_id")
	case in.Operation != "" && in.GrantID != "":
		return observation, api.NewProblem(quota.BadRequest, "operation and grant_id do not go together: the grant names its operation")
	case c.remote != nil && in.GrantID == "":
		return observation, api.NewProblem(quota.Forbidden, "a remote caller reports what answered a grant of its own: name grant_id instead of operation")
	case request.Credential == "" && in.GrantID == "":
		return observation, ProblemOf(s.noCredential(c))
	}
	if c.remote != nil {
		if err := refusalOf(s.forbidsGrant(c, in.GrantID)); err != nil {
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
