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
	writeDecision(w, d, decisionOf(d, false), false, true)
	return nil
}

func (s *Server) subject(ctx context.Context, c *Session, in subjectRequest) (api.SubjectState, error) {
	usage, key, err := s.Clients.Usage(ctx, c.Path("name"), in.Subject)
	if err != nil {
		return api.SubjectState{}, err
	}
	return api.SubjectState{Name: c.Path("name"), Hash: key.String(), Limits: each(usage.Limits, api.LimitOf)}, nil
}

func (s *Server) resetSubject(ctx context.Context, c *Session, in subjectRequest) (api.SubjectState, error) {
	if err := s.Clients.Reset(ctx, c.Path("name"), in.Subject); err != nil {
		return api.SubjectState{}, err
	}
	s.Emit(ClientReset{Clients: c.Path("name"), Caller: c.Caller, PID: c.PID})
	return s.subject(ctx, c, in)
}

// A ClientReset reports that an operator reset a subject of clients. It does not say which.
type ClientReset struct {
	Clients string
	Caller  quota.Caller
	PID     int // of the process that connected; 0 when not known
}
