package server

import (
	"context"
	"net/http"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/clientlimit"
)

// A subjectRequest names a subject.
type subjectRequest struct {
	Subject string `json:"subject" max:"8192" text:"any"`
}

func (s *Server) clientRoutes() []Route {
	return []Route{
		{"POST", "/v1/clients/{name}/acquire", Spend, "ask whether a client of your own may make a call; subject, operation, count", decoded(s.acquireClient, api.ClientRequest{Count: 1})},
		{"GET", "/v1/clients", Read, "the clients: their limits, and what became of their calls", Handle(s.listClients)},
		{"GET", "/v1/clients/{name}", Read, "clients of one name", Handle(s.getClients)},
		{"GET", "/v1/clients/{name}/subject", Read, "the state of one client's limits; subject", Handle(s.subject)},
		{"DELETE", "/v1/clients/{name}/subject", Operate, "forget what one client spent; subject", Handle(s.resetSubject)},
	}
}

func (s *Server) acquireClient(w http.ResponseWriter, r *http.Request, c *Session, in api.ClientRequest) error {
	request := clientlimit.Request{Subject: in.Subject, Operation: in.Operation, Count: quota.Units(in.Count)}
	d, err := s.Clients.Acquire(r.Context(), c.Path("name"), request)
	if err != nil {
		return err
	}
	WriteDecision(w, d, false, true)
	return nil
}

func (s *Server) listClients(context.Context, *Session, None) ([]api.Clients, error) {
	return each(s.Clients.Groups(), clientsOf), nil
}

func (s *Server) getClients(_ context.Context, c *Session, _ None) (api.Clients, error) {
	group, refused := s.Clients.Group(c.Path("name"))
	if group == nil {
		return api.Clients{}, api.ProblemOf(refused)
	}
	return clientsOf(group), nil
}

func clientsOf(c *clientlimit.Group) api.Clients {
	one := api.Clients{
		Name: c.Name, Algorithm: string(c.Algorithm), OnOutage: "closed", Operations: make(map[string]int64, len(c.Operations)),
		Granted: c.Granted.Load(), Denied: c.Denied.Load(), OutageGrants: c.OutageGrants.Load(), Undecided: c.Undecided.Load(),
	}
	if c.OpenOnOutage {
		one.OnOutage = "open"
	}
	for operation, units := range c.Operations {
		one.Operations[operation] = int64(units)
	}
	one.Limits = each(c.Limits, func(l quota.Limit) api.Limit { return api.LimitOf(quota.LimitState{Limit: l}) })
	return one
}

func (s *Server) subject(ctx context.Context, c *Session, in subjectRequest) (api.SubjectState, error) {
	usage, key, refused, err := s.Clients.Usage(ctx, c.Path("name"), in.Subject)
	if err := refusalOf(refused, err); err != nil {
		return api.SubjectState{}, err
	}
	return api.SubjectState{Name: c.Path("name"), Hash: key.String(), Limits: each(usage.Limits, api.LimitOf)}, nil
}

func (s *Server) resetSubject(ctx context.Context, c *Session, in subjectRequest) (api.SubjectReset, error) {
	name := c.Path("name")
	refused, err := s.Clients.Reset(ctx, name, in.Subject)
	if err := refusalOf(refused, err); err != nil {
		return api.SubjectReset{}, err
	}
	s.Emit(ClientReset{Clients: name, Caller: c.Caller, PID: c.PID})
	return api.SubjectReset{Name: name, Reset: true}, nil
}

// A ClientReset reports that an operator reset a subject of clients. It does not say which.
type ClientReset struct {
	Clients string
	Caller  quota.Caller
	PID     int // of the process that connected; 0 when not known
}
