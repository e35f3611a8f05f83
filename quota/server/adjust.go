package server

import (
	"context"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

func (s *Server) adjust(ctx context.Context, c *Session, in api.Adjustment) (api.Adjusted, error) {
	name := c.Path("name")
	if credential, known := s.keeper.Credential(name); known {
		if _, known := credential.Limit(in.Limit); !known {
			return api.Adjusted{}, unknownLimit(credential, in.Limit)
		}
	}
	d, err := s.repair("adjust", c, func() (quota.Decision, error) {
		return s.keeper.Adjust(ctx, name, quota.Adjustment{Limit: in.Limit, Units: in.Units, Caller: c.Caller, Note: in.Note})
	})
	if err != nil {
		return api.Adjusted{}, err
	}
	answer := api.Adjusted{Limit: in.Limit, Units: int64(d.Units)}
	if in.Units < 0 {
		answer.Units = -answer.Units
	}
	answer.Credential = s.stateOrError(ctx, name)
	return answer, nil
}

func (s *Server) reset(ctx context.Context, c *Session, in api.Reset) (api.Credential, error) {
	name := c.Path("name")
	if _, known := s.keeper.Credential(name); known && in.Confirm != name {
		p := api.NewProblem(quota.BadRequest, "confirm must be the credential's name: %.80q", in.Confirm)
		p.Hint = "a reset forgets all that was spent, and cannot be undone"
		return api.Credential{}, p
	}
	_, err := s.repair("reset", c, func() (quota.Decision, error) {
		return s.keeper.Reset(ctx, name, c.Caller, in.Note)
	})
	if err != nil {
		return api.Credential{}, err
	}
	return s.stateOrError(ctx, name), nil
}

// repair changes the books of the credential in the path, and tells who observes.
// A refusal is a problem.
func (s *Server) repair(verb string, c *Session, do func() (quota.Decision, error)) (quota.Decision, error) {
	start := time.Now()
	d, err := do()
	s.observe(Event{Verb: verb, Request: quota.Request{Credential: c.Path("name"), Caller: c.Caller}, PID: c.PID,
		Decision: d, Err: err, Took: time.Since(start)})
	if err == nil && !d.Granted() {
		err = refusalOf(d)
	}
	return d, err
}

func unknownLimit(c *quota.Credential, name string) error {
	p := api.NewProblem(api.NotFound, "credential %q has no limit %.80q", c.Name, name)
	names := make([]string, len(c.Limits))
	for i, l := range c.Limits {
		names[i] = l.Name
	}
	p.Hint = quota.DidYouMean(name, names, "limits of "+c.Name)
	return p
}
