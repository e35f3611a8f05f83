package server

import (
	"context"
	"slices"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// ownSections are the members of GET /v1/status from this package.
var ownSections = []string{"credentials", "ledger", "version"}

// status answers even if the ledger does not: that is when people ask for it.
// A remote caller reads about its credentials alone.
func (s *Server) status(ctx context.Context, c *Session, _ None) (map[string]any, error) {
	sections := make(map[string]any, len(s.Status)+len(ownSections))
	if c.remote == nil {
		for name, section := range s.Status {
			sections[name] = section(ctx)
		}
	}
	sections["credentials"] = each(s.names(c), func(name string) api.Credential { return s.stateOrError(ctx, c, name) })
	sections["ledger"] = c.ledger(s.Service.Health(ctx))
	sections["version"] = s.Version
	return sections, nil
}

// ledger returns the state of the ledger. Its warnings are for callers on this host.
func (c *Session) ledger(health quota.Health) api.LedgerState {
	ledger := api.LedgerState{Backend: health.Backend, State: health.State, Warnings: slices.Concat(health.Warnings, health.Hosts, health.Clock, health.Unwritten)}
	if c.remote != nil {
		ledger.Warnings = nil
	}
	return ledger
}

// A credentialQuery names one credential; empty: all.
type credentialQuery struct {
	Credential string `json:"credential"`
}

func (s *Server) credentials(ctx context.Context, c *Session, in credentialQuery) ([]api.Credential, error) {
	names := s.names(c)
	if in.Credential != "" {
		name, err := s.named(c, in.Credential)
		if names = []string{name}; err != nil {
			return nil, err
		}
	}
	credentials := []api.Credential{}
	for _, name := range names {
		state, err := s.priced(ctx, c, name)
		if err != nil {
			return nil, err
		}
		credentials = append(credentials, state)
	}
	return credentials, nil
}

// named returns the credential that a caller names: the only one if it names none.
func (s *Server) named(c *Session, name string) (string, error) {
	names := s.names(c)
	switch {
	case name == "" || name == api.OnlyCredential:
		if len(names) != 1 {
			return "", api.ProblemOf(s.noCredential(c))
		}
		return names[0], nil
	case c.remote != nil && !slices.Contains(names, name):
		return "", c.remote.forbids("read credential", name)
	}
	return name, nil
}

// priced returns the state of a credential with what its operations cost, and since when its limits count.
func (s *Server) priced(ctx context.Context, c *Session, name string) (api.Credential, error) {
	usage, err := s.Service.Usage(ctx, name)
	if err != nil {
		return api.Credential{}, err
	}
	state := c.stateOf(name, usage)
	state.Now = api.TimeOf(usage.Now)
	for i, l := range c.visible(usage.Limits) {
		after, _ := l.Window.Bounds(usage.Now)
		state.Limits[i].CountsSince = api.TimeOf(after.Add(time.Microsecond)) // the first instant
	}
	if credential, known := s.Service.Credential(name); known {
		state.Operations = c.operationsOf(credential)
	}
	return state, nil
}

// operationsOf returns what operations cost; to a remote caller, those that it may use, in the limits that count it.
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

func (c *Session) stateOf(name string, usage quota.Usage) api.Credential {
	state := api.Credential{Name: name, Limits: each(c.visible(usage.Limits), api.LimitOf)}
	if !usage.AsOf.IsZero() {
		state.AsOf, state.GrantedSince = &usage.AsOf, int64(usage.GrantedSince)
	}
	return state
}

// stateOrError is for answers that say more than the state.
func (s *Server) stateOrError(ctx context.Context, c *Session, name string) api.Credential {
	usage, err := s.Service.Usage(ctx, name)
	if err != nil {
		return api.Credential{Name: name, Limits: []api.Limit{}, Error: err.Error()}
	}
	return c.stateOf(name, usage)
}

func (s *Server) readyz(ctx context.Context, c *Session, _ None) (api.LedgerState, error) {
	health := s.Service.Health(ctx)
	if !health.Reachable {
		return api.LedgerState{}, api.NewProblem(api.LedgerUnavailable, "%s", health.State)
	}
	return c.ledger(health), nil
}
