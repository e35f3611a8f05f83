package server

import (
	"context"
	"net/http"
	"net/url"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/clientlimit"
)

// A subjectRequest names a subject.
type subjectRequest struct {
	Subject string `json:"subject"`
}

// SetBytes takes the subject of a form, which may hold any bytes.
func (r *subjectRequest) SetBytes(form url.Values) { r.Subject = form.Get("subject") }

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
