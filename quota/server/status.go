package server

import (
	"context"

	"quotad/quota"
	"quotad/quota/api"
)

// ownSections are the members of GET /v1/status that this package gives.
var ownSections = []string{"credentials", "ledger", "version"}

// status answers even when the ledger does not: then is when it is asked for.
func (s *Server) status(ctx context.Context, _ *Session, _ None) (map[string]any, error) {
	sections := make(map[string]any, len(s.sections)+len(ownSections))
	for name, section := range s.sections {
		sections[name] = section(ctx)
	}
	credentials := make([]api.Credential, 0, len(s.keeper.Credentials()))
	for _, c := range s.keeper.Credentials() {
		credentials = append(credentials, s.stateOrError(ctx, c.Name))
	}
	health := s.keeper.Health(ctx)
	sections["credentials"] = credentials
	sections["ledger"] = api.Ledger{Backend: health.Backend, State: health.State, Warnings: health.Warnings}
	sections["version"] = s.version
	return sections, nil
}

func (s *Server) credentials(ctx context.Context, _ *Session, _ None) ([]api.Credential, error) {
	credentials := make([]api.Credential, 0, len(s.keeper.Credentials()))
	for _, c := range s.keeper.Credentials() {
		state, err := s.priced(ctx, c.Name)
		if err != nil {
			return nil, err
		}
		credentials = append(credentials, state)
	}
	return credentials, nil
}

func (s *Server) credential(ctx context.Context, c *Session, _ None) (api.Credential, error) {
	return s.priced(ctx, c.Path("name"))
}

// priced is the state of a credential with what its operations cost.
func (s *Server) priced(ctx context.Context, name string) (api.Credential, error) {
	state, err := s.stateOf(ctx, name)
	if c, known := s.keeper.Credential(name); known {
		state.Operations = operationsOf(c)
	}
	return state, err
}

func operationsOf(c *quota.Credential) map[string]map[string]int64 {
	operations := make(map[string]map[string]int64, len(c.Operations))
	for operation, cost := range c.Operations {
		costs := make(map[string]int64)
		for _, limit := range c.Limits {
			if units := cost.In(limit, operation); units > 0 {
				costs[limit.Name] = int64(units)
			}
		}
		operations[operation] = costs
	}
	return operations
}

func (s *Server) stateOf(ctx context.Context, name string) (api.Credential, error) {
	usage, err := s.usageOf(ctx, name)
	if err != nil {
		return api.Credential{}, err
	}
	return api.Credential{Name: name, Limits: limitsOf(usage.Limits)}, nil
}

// stateOrError is for answers that tell more than the state.
func (s *Server) stateOrError(ctx context.Context, name string) api.Credential {
	state, err := s.stateOf(ctx, name)
	if err != nil {
		return api.Credential{Name: name, Limits: []api.Limit{}, Error: err.Error()}
	}
	return state
}

func (s *Server) usageOf(ctx context.Context, name string) (quota.Usage, error) {
	usage, known, err := s.keeper.Usage(ctx, name)
	if !known {
		return usage, s.unknownCredential(name)
	}
	return usage, err
}

func (s *Server) unknownCredential(name string) error {
	p := api.NewProblem(quota.UnknownCredential, "credential %.80q is not configured", name)
	p.Hint = quota.DidYouMean(name, s.keeper.Names(), "configured credentials")
	return p
}

// healthz answers because it can.
func (s *Server) healthz(context.Context, *Session, None) (map[string]string, error) {
	return map[string]string{"status": "ok"}, nil
}

func (s *Server) readyz(ctx context.Context, _ *Session, _ None) (api.Ledger, error) {
	health := s.keeper.Health(ctx)
	if !health.Reachable {
		return api.Ledger{}, api.NewProblem(api.LedgerUnavailable, "%s", health.State)
	}
	return api.Ledger{Backend: health.Backend, State: health.State, Warnings: health.Warnings}, nil
}

func (s *Server) versionOf(context.Context, *Session, None) (map[string]string, error) {
	return map[string]string{"version": s.version}, nil
}

// An index is the body of GET /v1.
type index struct {
	Version string       `json:"version"`
	Routes  []indexRoute `json:"routes"`
}

type indexRoute struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Access Access `json:"access"`
	Does   string `json:"does"`
}

func (s *Server) index(context.Context, *Session, None) (index, error) {
	list := index{Version: s.version, Routes: make([]indexRoute, len(s.routes))}
	for i, r := range s.routes {
		list.Routes[i] = indexRoute{Method: r.Method, Path: r.Path, Access: r.Access, Does: r.Does}
	}
	return list, nil
}
