package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/upstream"
)

// ownSections are the members of GET /v1/status that this package gives.
var ownSections = []string{"credentials", "ledger", "version"}

// status answers even when the ledger does not: then is when it is asked for.
// A remote caller reads of its credentials, and of nothing else.
func (s *Server) status(ctx context.Context, c *Session, _ None) (map[string]any, error) {
	sections := make(map[string]any, len(s.sections)+len(ownSections))
	if c.remote == nil {
		for name, section := range s.sections {
			sections[name] = section(ctx)
		}
	}
	credentials := []api.Credential{}
	for _, name := range s.names(c) {
		credentials = append(credentials, s.stateOrError(ctx, c, name))
	}
	sections["credentials"] = credentials
	sections["ledger"] = c.ledger(s.service.Health(ctx))
	sections["version"] = s.version
	return sections, nil
}

// ledger is what a caller reads of it; the warnings are for those on this host.
func (c *Session) ledger(health quota.Health) api.Ledger {
	ledger := api.Ledger{Backend: health.Backend, State: health.State, Warnings: health.Warnings}
	if c.remote != nil {
		ledger.Warnings = nil
	}
	return ledger
}

func (s *Server) credentials(ctx context.Context, c *Session, _ None) ([]api.Credential, error) {
	credentials := []api.Credential{}
	for _, name := range s.names(c) {
		state, err := s.priced(ctx, c, name)
		if err != nil {
			return nil, err
		}
		credentials = append(credentials, state)
	}
	return credentials, nil
}

func (s *Server) credential(ctx context.Context, c *Session, _ None) (api.Credential, error) {
	return s.priced(ctx, c, c.Path("name"))
}

// priced is the state of a credential with what its operations cost.
func (s *Server) priced(ctx context.Context, c *Session, name string) (api.Credential, error) {
	state, err := s.stateOf(ctx, c, name)
	if credential, known := s.service.Credential(name); known {
		state.Operations = c.operationsOf(credential)
	}
	return state, err
}

// operationsOf is what operations cost; to a remote caller, those that it may use, in the limits
// that count it.
func (c *Session) operationsOf(of *quota.Credential) map[string]map[string]int64 {
	operations := make(map[string]map[string]int64, len(of.Operations))
	for operation, cost := range of.Operations {
		if c.remote != nil && c.remote.Operations != nil && !slices.Contains(c.remote.Operations, operation) {
			continue
		}
		costs := make(map[string]int64)
		for _, limit := range of.Limits {
			if c.remote != nil && !limit.CountsJob(c.Caller.CountedAs()) {
				continue
			}
			if units := cost.In(limit, operation); units > 0 {
				costs[limit.Name] = int64(units)
			}
		}
		operations[operation] = costs
	}
	return operations
}

func (s *Server) stateOf(ctx context.Context, c *Session, name string) (api.Credential, error) {
	usage, err := s.usageOf(ctx, name)
	if err != nil {
		return api.Credential{}, err
	}
	limits, drifts := limitsOf(c.visible(usage.Limits)), s.observer.Drifts(name)
	for i := range limits {
		if d, said := drifts[limits[i].Name]; said {
			limits[i].Drift = driftOf(d)
		}
	}
	state := api.Credential{Name: name, Limits: limits}
	if !usage.AsOf.IsZero() {
		state.AsOf = &usage.AsOf
	}
	return state, nil
}

func driftOf(d upstream.Drift) *api.Drift {
	known := func(a upstream.Amount) *int64 {
		if !a.Known {
			return nil
		}
		units := int64(a.Units)
		return &units
	}
	return &api.Drift{At: d.At.UTC(), Units: known(d.Says), Ours: known(d.Ours), Theirs: known(d.Theirs), By: d.By(), Far: d.Far, Cause: d.Cause}
}

// stateOrError is for answers that tell more than the state.
func (s *Server) stateOrError(ctx context.Context, c *Session, name string) api.Credential {
	state, err := s.stateOf(ctx, c, name)
	if err != nil {
		return api.Credential{Name: name, Limits: []api.Limit{}, Error: err.Error()}
	}
	return state
}

func (s *Server) usageOf(ctx context.Context, name string) (quota.Usage, error) {
	usage, known, err := s.service.Usage(ctx, name)
	if !known {
		return usage, s.unknownCredential(name)
	}
	return usage, err
}

func (s *Server) unknownCredential(name string) error {
	p := api.NewProblem(quota.UnknownCredential, "credential %.80q is not configured", name)
	p.Hint = quota.DidYouMean(name, s.service.Names(), "configured credentials")
	return p
}

func (s *Server) readyz(ctx context.Context, c *Session, _ None) (api.Ledger, error) {
	health := s.service.Health(ctx)
	if !health.Reachable {
		return api.Ledger{}, api.NewProblem(api.LedgerUnavailable, "%s", health.State)
	}
	return c.ledger(health), nil
}

func (s *Server) versionOf(context.Context, *Session, None) (map[string]string, error) {
	return map[string]string{"version": s.version}, nil
}

func (s *Server) adjust(ctx context.Context, c *Session, in api.Adjustment) (api.Adjusted, error) {
	name := c.Path("name")
	if credential, known := s.service.Credential(name); known {
		if _, known := credential.Limit(in.Limit); !known {
			return api.Adjusted{}, unknownLimit(credential, in.Limit)
		}
	}
	d, err := s.repair("adjust", c, func() (quota.Decision, error) {
		return s.service.Adjust(ctx, name, quota.Adjustment{Limit: in.Limit, Units: in.Units, Caller: c.Caller, Note: in.Note})
	})
	if err != nil {
		return api.Adjusted{}, err
	}
	answer := api.Adjusted{Limit: in.Limit, Units: int64(d.Units)}
	if in.Units < 0 {
		answer.Units = -answer.Units
	}
	answer.Credential = s.stateOrError(ctx, c, name)
	return answer, nil
}

func (s *Server) reset(ctx context.Context, c *Session, in api.Reset) (api.Credential, error) {
	name := c.Path("name")
	if _, known := s.service.Credential(name); known && in.Confirm != name {
		p := api.NewProblem(quota.BadRequest, "confirm must be the credential's name: %.80q", in.Confirm)
		p.Hint = "a reset forgets all that was spent, and cannot be undone"
		return api.Credential{}, p
	}
	_, err := s.repair("reset", c, func() (quota.Decision, error) {
		return s.service.Reset(ctx, name, c.Caller, in.Note)
	})
	if err != nil {
		return api.Credential{}, err
	}
	return s.stateOrError(ctx, c, name), nil
}

// repair changes the books of the credential in the path, and tells who observes.
// A refusal is a problem.
func (s *Server) repair(verb string, c *Session, do func() (quota.Decision, error)) (quota.Decision, error) {
	start := time.Now()
	d, err := do()
	s.tell(Event{Verb: verb, Request: quota.Request{Credential: c.Path("name"), Caller: c.Caller}, PID: c.PID,
		Decision: d, Err: err, Took: time.Since(start)})
	if err == nil && !d.Granted() {
		err = ProblemOf(d)
	}
	return d, err
}

func unknownLimit(c *quota.Credential, name string) error {
	p := api.NewProblem(api.NotFound, "credential %q has no limit %.80q", c.Name, name)
	p.Hint = quota.DidYouMean(name, c.LimitNames(), "limits of "+c.Name)
	return p
}

// ReloadRoute returns the route by which an operator has the daemon read its
// configuration again. The error of reload is the caller's to read: nothing has
// changed then.
func ReloadRoute(reload func(by string) (api.Reloaded, error)) Route {
	return Route{
		Method: http.MethodPost, Path: "/v1/reload", Access: Operate, Does: "read the configuration again",
		Handle: Handle(func(_ context.Context, c *Session, _ None) (api.Reloaded, error) {
			done, err := reload(c.Caller.By())
			if errors.As(err, new(*api.Problem)) {
				return api.Reloaded{}, err
			}
			if err != nil {
				return api.Reloaded{}, api.NewProblem(api.Conflict, "%v", err)
			}
			return done, nil
		}),
	}
}
