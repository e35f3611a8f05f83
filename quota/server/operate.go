package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

func (s *Server) book(ctx context.Context, c *Session, in quota.Booking) (api.Booked, error) {
	in.Caller = c.Caller
	d, credential, err := s.change(ctx, "book", c, func(name string) (quota.Decision, error) {
		return s.Service.Book(ctx, name, in)
	})
	return api.Booked{GrantID: d.GrantID, Limit: in.Limit, Units: int64(d.Units), Credential: credential}, err
}

func (s *Server) reset(ctx context.Context, c *Session, in api.Reset) (api.Credential, error) {
	name := c.Path("name")
	if _, known := s.Service.Credential(name); known && in.Confirm != name {
		return api.Credential{}, api.NewProblem(quota.BadRequest, "confirm must be the credential's name: %.80q", in.Confirm).
			WithHint("a reset forgets all that was spent, and cannot be undone")
	}
	_, credential, err := s.change(ctx, "reset", c, func(name string) (quota.Decision, error) {
		return s.Service.Reset(ctx, name, c.Caller, in.Note)
	})
	return credential, err
}

// closeLimit closes a limit until a time, or opens it.
func (s *Server) closeLimit(ctx context.Context, c *Session, in api.Closing) (api.Shut, error) {
	k := quota.Change{Kind: quota.KindOpening, Limit: in.Limit, Note: in.Note, Caller: c.Caller}
	verb, changed := "open", false
	switch {
	case in.Open && in.Until != "":
		return api.Shut{}, api.NewProblem(quota.BadRequest, "until is for closing a limit, not for opening one")
	case !in.Open:
		usage, err := s.Service.Usage(ctx, c.Path("name"))
		if err != nil {
			return api.Shut{}, err
		}
		if k.Until, err = api.ParseInstant(in.Until, usage.Now, false); err != nil {
			return api.Shut{}, api.NewProblem(quota.BadRequest, "until: %v", err)
		}
		k.Kind, verb = quota.KindClosing, "close"
	}
	_, is, err := s.change(ctx, verb, c, func(name string) (d quota.Decision, err error) {
		d, changed, err = s.Service.ChangeLimit(ctx, name, k)
		if d.Limit = k.Limit; changed {
			d.RetryAt, d.Detail = k.Until, k.Note
		}
		return d, err
	})
	out := api.Shut{Limit: k.Limit, Changed: changed, Credential: is}
	for _, l := range is.Limits { // none if the ledger is away by now
		if l.Name == k.Limit {
			out.Closed = l.Closed
		}
	}
	return out, err
}

// change makes a change to the credential in the path, reports the event, and returns the
// credential as it is then. A refusal is a problem.
func (s *Server) change(ctx context.Context, verb string, c *Session, do func(name string) (quota.Decision, error)) (
	quota.Decision, api.Credential, error,
) {
	name, start := c.Path("name"), time.Now()
	d, err := do(name)
	s.Emit(Decided{Verb: verb, Request: quota.Request{Credential: name, Caller: c.Caller}, PID: c.PID,
		Decision: d, Err: err, Took: time.Since(start)})
	if err := refusalOf(d, err); err != nil {
		return d, api.Credential{}, err
	}
	return d, s.stateOf(ctx, c, name), nil
}

// ReloadRoute returns the route by which an operator has the daemon read its
// configuration again. If reload fails, nothing has changed, and the caller reads why.
func ReloadRoute(reload func(by string) (api.Reloaded, error)) Route {
	return Route{
		Method: http.MethodPost, Path: "/v1/reload", Access: Operate, Does: "read the configuration again",
		Handle: Handle(func(_ context.Context, c *Session, _ None) (api.Reloaded, error) {
			done, err := reload(c.Caller.By())
			if err != nil && !errors.As(err, new(*api.Problem)) {
				err = api.NewProblem(api.Conflict, "%v", err)
			}
			return done, err
		}),
	}
}
