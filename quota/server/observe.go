package server

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/upstream"
)

// observation takes in what the upstream answered to a caller.
func (s *Server) observation(w http.ResponseWriter, r *http.Request, c *Session, in api.Observation) {
	heard, err := s.heard(c, in)
	if err != nil {
		writeProblem(w, api.ProblemFrom(err))
		return
	}
	out, err := s.observer.Observe(r.Context(), heard)
	switch {
	case err != nil:
		writeProblem(w, api.ProblemFrom(err))
	case out.Refused.Reason != "":
		writeProblem(w, ProblemOf(out.Refused))
	default:
		if c.HasToken() {
			out.Tell(c.token, s.tokens)
		}
		if c.remote != nil {
			out.Closed.By = "" // it may be another's name
		}
		writeJSON(w, http.StatusOK, observedOf(out))
	}
}

// heard returns the observation that a caller makes. A pass may speak of its own credential.
func (s *Server) heard(c *Session, in api.Observation) (upstream.Observation, error) {
	request := s.requestOf(c, api.AcquireRequest{Credential: in.Credential, Operation: in.Operation})
	if of, _, err := quota.ParseGrantID(in.GrantID); err == nil {
		request.Credential = of
	}
	heard := upstream.Observation{Credential: request.Credential, Operation: in.Operation, Grant: in.GrantID, Caller: c.Caller}
	switch {
	case c.HasToken() && request.Credential != c.Credential:
		return heard, api.NewProblem(quota.Forbidden, "the run token spends from another credential")
	case in.Operation == "" && in.GrantID == "":
		return heard, api.NewProblem(quota.BadRequest, "operation is missing, or grant_id")
	case in.Operation != "" && in.GrantID != "":
		return heard, api.NewProblem(quota.BadRequest, "operation and grant_id do not go together: the grant names its operation")
	case c.remote != nil && in.GrantID == "":
		return heard, api.NewProblem(quota.Forbidden, "a remote caller reports what answered a grant of its own: name grant_id instead of operation")
	case request.Credential == "" && in.GrantID == "":
		return heard, ProblemOf(s.noCredential(c))
	}
	if c.remote != nil {
		if d, err := s.forbidsGrant(c, in.GrantID); err != nil {
			return heard, err
		} else if !d.Granted() {
			return heard, ProblemOf(d)
		}
	}
	status, header, err := upstream.ParseHeader(in.Header)
	if err != nil {
		return heard, api.NewProblem(quota.BadRequest, "%v", err)
	}
	heard.Answer = upstream.Answer{Status: cmp.Or(int(in.Status), status), Header: header, Body: []byte(in.Body)}
	return heard, nil
}

func observedOf(out upstream.Outcome) api.Observed {
	return api.Observed{
		Class: string(out.Class), Credential: out.Credential, Operation: out.Operation, Limit: out.Limit,
		Closed: closedOf(out.Closed), Changed: out.Changed, Reset: timeOf(out.Reset), Says: out.Says,
	}
}

func (s *Server) closeLimit(ctx context.Context, c *Session, in api.Closing) (api.Shut, error) {
	usage, err := s.usageOf(ctx, c.Path("name"))
	if err != nil {
		return api.Shut{}, err
	}
	until, err := closingTime(in.Until, usage.Now)
	if err != nil {
		return api.Shut{}, err
	}
	return s.shut(ctx, "close", c, quota.Closing{Limit: in.Limit, Until: until, Says: in.Note})
}

func (s *Server) openLimit(ctx context.Context, c *Session, in api.Closing) (api.Shut, error) {
	if in.Until != "" {
		return api.Shut{}, api.NewProblem(quota.BadRequest, "until is for closing a limit, not for opening one")
	}
	return s.shut(ctx, "open", c, quota.Closing{Limit: in.Limit, Says: in.Note})
}

// shut closes or opens a limit of the credential in the path.
func (s *Server) shut(ctx context.Context, verb string, c *Session, k quota.Closing) (api.Shut, error) {
	name := c.Path("name")
	if credential, known := s.service.Credential(name); known {
		if _, known := credential.Limit(k.Limit); !known {
			return api.Shut{}, unknownLimit(credential, k.Limit)
		}
	}
	k.Caller = c.Caller
	changed := false
	_, err := s.repair(verb, c, func() (d quota.Decision, err error) {
		d, changed, err = s.service.CloseLimit(ctx, name, k)
		d.Limit = k.Limit
		if changed {
			d.RetryAt, d.Detail = k.Until, k.Says
		}
		return d, err
	})
	if err != nil {
		return api.Shut{}, err
	}
	answer := api.Shut{Limit: k.Limit, Changed: changed, Credential: s.stateOrError(ctx, c, name)}
	for _, l := range answer.Credential.Limits {
		if l.Name == k.Limit {
			answer.Closed = l.Closed
		}
	}
	return answer, nil
}

// closingTime reads until when a limit is to be closed: an instant, or after how long.
func closingTime(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	if after, err := api.ParseSpan(text); err == nil {
		return now.Add(after), nil
	}
	return time.Time{}, api.NewProblem(quota.BadRequest, `until must be an instant like 2026-03-14T09:00:00Z, or how long from now like 90m or 1d: %.40q`, text)
}
