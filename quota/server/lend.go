package server

import (
	"context"
	"slices"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// lend makes a limit of the credential in the path higher until a time, or ends its loans.
func (s *Server) lend(ctx context.Context, c *Session, in api.Lend) (api.Lent, error) {
	name := c.Path("name")
	usage, err := s.usageOf(ctx, name)
	if err != nil {
		return api.Lent{}, err
	}
	credential, _ := s.service.Credential(name)
	if _, known := credential.Limit(in.Limit); !known {
		return api.Lent{}, unknownLimit(credential, in.Limit)
	}
	loan, err := loanOf(in, usage.Now)
	if err != nil {
		return api.Lent{}, err
	}
	if err := s.withinGrant(name, usage, loan); err != nil {
		return api.Lent{}, err
	}
	loan.Caller = c.Caller
	changed := false
	_, err = s.repair("lend", c, func() (d quota.Decision, err error) {
		d, changed, err = s.service.Lend(ctx, name, loan)
		d.Limit, d.Units = loan.Limit, loan.Units
		if changed {
			d.RetryAt, d.Detail = loan.Until, loan.Note
		}
		return d, err
	})
	if err != nil {
		return api.Lent{}, err
	}
	return lentAnswer(in.Limit, changed, s.stateOrError(ctx, c, name)), nil
}

// loanOf returns the loan that a request asks for.
func loanOf(in api.Lend, now time.Time) (quota.Loan, error) {
	loan := quota.Loan{Limit: in.Limit, Note: in.Note}
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
	loan.Units = quota.Units(*in.Units)
	until, err := closingTime(in.Until, now)
	loan.Until = until
	return loan, err
}

// withinGrant refuses a loan that is past what the upstream is known to grant.
func (s *Server) withinGrant(name string, usage quota.Usage, loan quota.Loan) error {
	i := slices.IndexFunc(usage.Limits, func(l quota.LimitState) bool { return l.Name == loan.Limit })
	l := usage.Limits[i]
	units, source, known := s.observer.Grants(name, l.Limit)
	if !known || loan.Units == 0 || l.Total()+loan.Units <= units {
		return nil
	}
	p := api.NewProblem(quota.BadRequest, "the upstream grants %s of limit %q, as %s: here it has %s already, and is not lent %s more",
		units.Text(), l.Name, source, quota.Thousands(l.Total()), quota.Thousands(loan.Units))
	p.Hint = "if the upstream grants more by now, set the limit's units in the configuration"
	if room := units - l.Total(); room > 0 {
		p.Hint = "lend " + room.Text() + " at most; " + p.Hint
	}
	return p
}

func lentAnswer(limit string, changed bool, credential api.Credential) api.Lent {
	answer := api.Lent{Limit: limit, Changed: changed, Credential: credential}
	for _, l := range credential.Limits {
		if l.Name == limit {
			answer.Units, answer.Until = l.Lent, l.LentUntil
		}
	}
	return answer
}
