package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

func (s *Server) adjust(ctx context.Context, c *Session, in api.Adjustment) (api.Adjusted, error) {
	d, credential, err := s.change(ctx, "adjust", c, func(name string) (quota.Decision, error) {
		return s.Service.Adjust(ctx, name, quota.Adjustment{Limit: in.Limit, Units: in.Units, Caller: c.Caller, Note: in.Note})
	})
	answer := api.Adjusted{Limit: in.Limit, Units: int64(d.Units), Credential: credential}
	if in.Units < 0 {
		answer.Units = -answer.Units
	}
	return answer, err
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

func (s *Server) closeLimit(ctx context.Context, c *Session, in api.Closing) (api.Shut, error) {
	usage, err := s.Service.Usage(ctx, c.Path("name"))
	if err != nil {
		return api.Shut{}, err
	}
	until, err := untilOf(in.Until, usage.Now)
	if err != nil {
		return api.Shut{}, err
	}
	return s.shut(ctx, "close", c, quota.Change{Kind: quota.KindClosing, Limit: in.Limit, Until: until, Note: in.Note})
}

func (s *Server) openLimit(ctx context.Context, c *Session, in api.Closing) (api.Shut, error) {
	if in.Until != "" {
		return api.Shut{}, api.NewProblem(quota.BadRequest, "until is for closing a limit, not for opening one")
	}
	return s.shut(ctx, "open", c, quota.Change{Kind: quota.KindOpening, Limit: in.Limit, Note: in.Note})
}

func (s *Server) shut(ctx context.Context, verb string, c *Session, k quota.Change) (api.Shut, error) {
	changed, credential, err := s.changeLimit(ctx, verb, c, k)
	return api.Shut{Limit: k.Limit, Changed: changed, Closed: limitIn(credential, k.Limit).Closed, Credential: credential}, err
}

// lend makes a limit of the credential in the path higher until a time, or ends its loans.
func (s *Server) lend(ctx context.Context, c *Session, in api.Lend) (api.LoanChange, error) {
	usage, err := s.Service.Usage(ctx, c.Path("name"))
	if err != nil {
		return api.LoanChange{}, err
	}
	loan, err := loanOf(in, usage.Now)
	if err == nil {
		err = s.checkGrant(c.Path("name"), usage.Limits, loan)
	}
	if err != nil {
		return api.LoanChange{}, err
	}
	changed, credential, err := s.changeLimit(ctx, "lend", c, loan)
	l := limitIn(credential, in.Limit)
	return api.LoanChange{Limit: in.Limit, Changed: changed, Units: l.Lent, Until: l.LentUntil, Credential: credential}, err
}

// changeLimit changes a limit of the credential in the path.
func (s *Server) changeLimit(ctx context.Context, verb string, c *Session, k quota.Change) (changed bool, is api.Credential, err error) {
	k.Caller = c.Caller
	_, is, err = s.change(ctx, verb, c, func(name string) (d quota.Decision, err error) {
		d, changed, err = s.Service.ChangeLimit(ctx, name, k)
		d.Limit, d.Units = k.Limit, k.Units
		if changed {
			d.RetryAt, d.Detail = k.Until, k.Note
		}
		return d, err
	})
	return changed, is, err
}

// loanOf returns the loan that a request asks for.
func loanOf(in api.Lend, now time.Time) (quota.Change, error) {
	loan := quota.Change{Kind: quota.KindLoan, Limit: in.Limit, Note: in.Note}
	switch {
	case in.Units == nil:
		return loan, api.NewProblem(quota.BadRequest, "units are missing: by how many units the limit is higher, or 0 to end its loans")
	case *in.Units == 0 && in.Until != "":
		return loan, api.NewProblem(quota.BadRequest, "0 units end the loans of a limit now: leave until out, or name the units that you lend")
	case *in.Units < 0:
		return loan, api.NewProblem(quota.BadRequest, "units must be a whole number from 1 to %d, or 0 to end loans: to keep units back, close the limit or raise its reserve", quota.MaxUnits)
	case *in.Units == 0:
		return loan, nil
	case in.Until == "":
		return loan, api.NewProblem(quota.BadRequest, "until is missing: when the loan ends, or after how long, like 6h")
	}
	until, err := untilOf(in.Until, now)
	loan.Units, loan.Until = quota.Units(*in.Units), until
	return loan, err
}

// checkGrant refuses a loan beyond what the upstream is known to grant.
func (s *Server) checkGrant(name string, limits []quota.LimitState, loan quota.Change) error {
	i := slices.IndexFunc(limits, func(l quota.LimitState) bool { return l.Name == loan.Limit })
	if i < 0 {
		return nil // the service refuses it
	}
	l := limits[i]
	units, source, known := s.Observer.Grants(name, l.Limit)
	if !known || loan.Units == 0 || l.Total()+loan.Units <= units {
		return nil
	}
	hint := "if the upstream grants more by now, set the limit's units in the configuration"
	if room := units - l.Total(); room > 0 {
		hint = "lend " + room.Text() + " at most; " + hint
	}
	return api.NewProblem(quota.BadRequest, "the upstream grants %s of limit %q, as %s: here it has %s already, and is not lent %s more",
		units.Text(), l.Name, source, quota.Thousands(l.Total()), quota.Thousands(loan.Units)).WithHint(hint)
}

// raisable returns for how long an operator may lend a limit what calls lack, and to how many units
// the configuration may raise it so that they fit; 0 where the upstream is known not to grant that
// much. A loan needs a reason to believe that the units are there: the upstream grants them, or the
// limit is a part of another one that counts these calls too.
func (s *Server) raisable(name string, o quota.Obstacle, counting []quota.LimitState) (lend time.Duration, to quota.Units) {
	span := min(time.Hour, o.LongestLoan())
	now := time.Now()
	loan := quota.Change{Kind: quota.KindLoan, Limit: o.Name, Units: o.Missing, Until: now.Add(span)}
	onlyWaits := o.Missing == 0 || !o.Closed.IsZero() || !o.CatchingUp.IsZero()
	if onlyWaits || s.checkGrant(name, counting, loan) != nil || loan.Validate(name, o.LimitState, now) != nil {
		return 0, 0
	}
	_, _, known := s.Observer.Grants(name, o.Limit)
	isWhole := func(l quota.LimitState) bool { return !l.IsPart() }
	if known || o.IsPart() && slices.ContainsFunc(counting, isWhole) {
		lend = span
	}
	return lend, o.Units + o.Missing
}

// untilOf reads an instant, or after how long it is.
func untilOf(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	if after, err := api.ParseSpan(text); err == nil {
		return now.Add(after), nil
	}
	return time.Time{}, api.NewProblem(quota.BadRequest, `until must be an instant like 2026-03-14T09:00:00Z, or how long from now like 90m or 1d: %.40q`, text)
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
	return d, s.stateOrError(ctx, c, name), nil
}

func limitIn(c api.Credential, name string) api.Limit {
	i := slices.IndexFunc(c.Limits, func(l api.Limit) bool { return l.Name == name })
	if i < 0 { // the ledger is away by now
		return api.Limit{}
	}
	return c.Limits[i]
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
