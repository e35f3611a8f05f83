package server

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"net/http"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/clientlimit"
)

// A clientBatch has the fields of POST /v1/clients/{name}/batch: lists of one length, of which
// operation and count may be absent.
type clientBatch struct {
	Subject   []string `json:"subject" max:"8192" text:"any"`
	Operation []string `json:"operation"`
	Count     []int64  `json:"count"`
}

// A subjectRequest names a subject.
type subjectRequest struct {
	Subject string `json:"subject" max:"8192" text:"any"`
}

func (s *Server) clientRoutes() []Route {
	return []Route{
		{"POST", "/v1/clients/{name}/acquire", Spend, "ask whether a client of your own may make a call; subject, operation, count", decoded(s.acquireClient, api.ClientRequest{Count: 1})},
		{"POST", "/v1/clients/{name}/batch", Spend, "the same for several calls at once, by lists of one length; subject, operation, count", Handle(s.acquireClients)},
		{"POST", "/v1/clients/{name}/stream", Spend, "batches for Go's client, one after the other on a connection: forms in lines, answered by gobs", s.streamClients()},
		{"GET", "/v1/clients", Read, "the clients: their limits, and what became of their calls", Handle(s.listClients)},
		{"GET", "/v1/clients/{name}", Read, "clients of one name", Handle(s.getClients)},
		{"GET", "/v1/clients/{name}/subject", Read, "the state of one client's limits; subject", Handle(s.subject)},
		{"DELETE", "/v1/clients/{name}/subject", Operate, "forget what one client spent; subject", Handle(s.resetSubject)},
	}
}

func (s *Server) acquireClient(w http.ResponseWriter, r *http.Request, c *Session, in api.ClientRequest) error {
	request := clientlimit.Request{Subject: in.Subject, Operation: in.Operation, Count: quota.Units(in.Count)}
	d := s.Clients.Acquire(r.Context(), c.Path("name"), request)[0]
	if d.Err != nil {
		return d.Err
	}
	WriteDecision(w, d, false, true)
	return nil
}

// A clientDecisions is the answer to a batch: a decision for each of the calls, as acquireClient
// answers one.
type clientDecisions struct {
	Decisions []decisionBody `json:"decisions"`
}

func (s *Server) acquireClients(ctx context.Context, c *Session, in clientBatch) (answer clientDecisions, err error) {
	decisions, err := s.decideClients(ctx, c.Path("name"), in)
	return clientDecisions{each(decisions, func(d quota.Decision) decisionBody { return decisionOf(d, false) })}, err
}

// decideClients decides a batch.
func (s *Server) decideClients(ctx context.Context, name string, in clientBatch) ([]quota.Decision, error) {
	requests, err := in.requests()
	if err != nil {
		return nil, err
	}
	if known, refused := s.Clients.Group(name); known == nil {
		return nil, api.ProblemOf(refused)
	}
	return s.Clients.Acquire(ctx, name, requests...), nil
}

// streamClients answers batches until their caller has gone, or asks for nothing, or the server shuts down; what has
// arrived by then is answered. Each batch has the deadlines of a request.
func (s *Server) streamClients() Handler {
	d := newDecoder[clientBatch]()
	return func(w http.ResponseWriter, r *http.Request, c *Session) error {
		control := http.NewResponseController(w)
		if err := control.EnableFullDuplex(); err != nil {
			return err
		}
		if over := connectionOf(r); over != nil {
			defer context.AfterFunc(s.closing, func() { over.Close() })()
		}
		defer control.SetReadDeadline(time.Unix(1, 0))         // net/http would read on
		w.Header()["Transfer-Encoding"] = []string{"identity"} // the answer ends with the connection
		lines, answers := bufio.NewScanner(r.Body), gob.NewEncoder(w)
		lines.Buffer(make([]byte, 0, 1<<10), int(d.maxBody))
		for more := true; more; {
			control.SetReadDeadline(time.Now().Add(api.IdleTimeout))
			more = lines.Scan()
			if !more && !errors.Is(lines.Err(), bufio.ErrTooLong) {
				break
			}
			control.SetWriteDeadline(time.Now().Add(writeTimeout))
			if answers.Encode(s.answerLine(r, c, d, lines)) != nil || control.Flush() != nil {
				break
			}
		}
		return nil
	}
}

// answerLine answers a batch of a stream, unless its line has no end.
func (s *Server) answerLine(r *http.Request, c *Session, d decoder[clientBatch], lines *bufio.Scanner) (answer api.BatchAnswer) {
	if lines.Err() != nil {
		answer.Problem = tooLong(d.maxBody)
		return answer
	}
	in, err := d.parse(isForm, lines.Text())
	if err != nil {
		answer.Problem = api.NewProblem(quota.BadRequest, "%v", err)
		return answer
	}
	if _, answer.Problem = s.admit(r, Route{Access: Spend}); answer.Problem != nil { // a run token dies with its pass
		return answer
	}
	decisions, err := s.decideClients(r.Context(), c.Path("name"), in)
	if err != nil {
		answer.Problem = api.ProblemFrom(err)
		return answer
	}
	answer.Decisions = each(decisions, func(d quota.Decision) api.Decision { return api.DecisionOf(d, false) })
	return answer
}

func (in clientBatch) requests() ([]clientlimit.Request, error) {
	n := len(in.Subject)
	switch {
	case n == 0 || n > api.MaxClientBatch:
		return nil, api.NewProblem(quota.BadRequest, "subject must be a list of 1 to %d: %d", api.MaxClientBatch, n)
	case in.Operation != nil && len(in.Operation) != n, in.Count != nil && len(in.Count) != n:
		return nil, api.NewProblem(quota.BadRequest, "operation and count must be as many as subject, or none: %d, %d and %d", len(in.Operation), len(in.Count), n)
	}
	requests := make([]clientlimit.Request, n)
	for i := range requests {
		requests[i] = clientlimit.Request{Subject: in.Subject[i], Count: 1}
		if in.Operation != nil {
			requests[i].Operation = in.Operation[i]
		}
		if in.Count != nil {
			requests[i].Count = quota.Units(in.Count[i])
		}
	}
	return requests, nil
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
	stats := c.Stats()
	one := api.Clients{
		Name: c.Name, Algorithm: string(c.Algorithm), OnOutage: "closed", Operations: make(map[string]int64, len(c.Operations)),
		Granted: stats.Granted, Denied: stats.Denied, OutageGrants: stats.OutageGrants, Undecided: stats.Undecided,
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
	return api.SubjectState{Name: c.Path("name"), Hash: key.Hash(), Limits: each(usage.Limits, api.LimitOf)}, nil
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
