package server

import (
	"context"
	"slices"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// status answers even if the ledger does not: that is when people ask for it.
// A remote caller reads about its credentials alone.
func (s *Server) status(ctx context.Context, c *Session, _ None) (map[string]any, error) {
	sections := make(map[string]any, len(s.Status)+3)
	if c.remote == nil {
		for name, section := range s.Status {
			sections[name] = section(ctx)
		}
	}
	sections["credentials"] = each(s.names(c), func(name string) api.Credential { return s.stateOf(ctx, c, name) })
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

// named returns the credential that a caller names: the only one if it names none.
func (s *Server) named(c *Session, name string) (string, error) {
	if name != "" && name != api.OnlyCredential {
		return name, nil
	}
	if names := s.names(c); len(names) == 1 {
		return names[0], nil
	}
	return "", api.ProblemOf(s.noCredential(c))
}

// stateOf returns the state of a credential, or why it is not known.
func (s *Server) stateOf(ctx context.Context, c *Session, name string) api.Credential {
	usage, err := s.Service.Usage(ctx, name)
	if err != nil {
		return api.Credential{Name: name, Limits: []api.Limit{}, Error: err.Error()}
	}
	limits := c.visible(usage.Limits)
	state := api.Credential{Name: name, Limits: each(limits, api.LimitOf), Now: api.TimeOf(usage.Now), AsOf: api.TimeOf(usage.AsOf)}
	for i, l := range limits {
		after, _ := l.Window.Bounds(usage.Now)
		state.Limits[i].CountsSince = api.TimeOf(after.Add(time.Microsecond)) // the first instant
	}
	if state.AsOf != nil {
		state.GrantedSince = int64(usage.GrantedSince)
	}
	return state
}

func (s *Server) readyz(ctx context.Context, c *Session, _ None) (api.LedgerState, error) {
	health := s.Service.Health(ctx)
	if !health.Reachable {
		return api.LedgerState{}, api.NewProblem(api.LedgerUnavailable, "%s", health.State)
	}
	return c.ledger(health), nil
}
