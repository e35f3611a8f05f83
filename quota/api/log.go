package api

import (
	"context"
	"net/http"
	"time"

	"quotad/quota"
)

// Entry is a line of a credential's log.
type Entry struct {
	ID        string    `json:"id"` // for settle and release, and to read on behind it
	At        time.Time `json:"at"`
	Operation string    `json:"operation,omitempty"` // empty of a correction
	Count     int64     `json:"count,omitempty"`     // calls
	By        string    `json:"by"`                  // the job, or "@" and the uid of a caller outside a pass
	Region    string    `json:"region,omitempty"`
	Units     int64     `json:"units"`          // the greatest of the charges
	Charges   []Charge  `json:"charges"`        // none of the trace of a correction
	Note      string    `json:"note,omitempty"` // of a correction: what was done, and why
}

// Charge is what an entry counts in a limit.
type Charge struct {
	Limit   string `json:"limit"`
	Units   int64  `json:"units"`   // after settling
	Debited int64  `json:"debited"` // before
}

// LogPage is the body of GET /v1/credentials/{name}/log.
type LogPage struct {
	Entries []Entry `json:"entries"`
	Next    string  `json:"next,omitempty"` // what after is for the following page; absent of the last one
}

// LogQuery selects entries of a log.
type LogQuery struct {
	After  string // behind this entry; empty: from the beginning
	Since  string // nothing older: an instant (RFC 3339), or how long ago ("90m", "7d"); empty: all that is kept
	Newest bool   // newest first
	Most   int    // page size, at most quota.MaxLogPage; 0: 100
}

const usualPage = 100

// logRequest is what GET /v1/credentials/{name}/log takes.
type logRequest struct {
	after  string
	since  since
	newest bool
	most   int64
	follow bool
}

// Bind takes the fields of a log query.
func (q *logRequest) Bind(f *Fields) {
	q.most = usualPage
	f.Text("after", &q.after)
	q.since.bind(f)
	f.Bool("newest", &q.newest)
	f.Int("most", &q.most)
	f.Bool("follow", &q.follow)
	if q.most < 1 || q.most > quota.MaxLogPage {
		f.Fail("most must be from 1 to %d: %d", quota.MaxLogPage, q.most)
	}
	if q.follow && q.newest {
		f.Fail("follow reads on towards what is written next: newest does not go with it")
	}
}

func (s *Server) log(w http.ResponseWriter, r *http.Request, c *Call) {
	var in logRequest
	if problem := decode(r, &in); problem != nil {
		writeProblem(w, problem)
		return
	}
	name := c.Path("name")
	q, err := s.logQuery(r.Context(), name, in)
	if err != nil {
		writeProblem(w, problemFrom(err))
		return
	}
	page, err := s.logPage(r.Context(), name, q)
	switch {
	case err != nil:
		writeProblem(w, problemFrom(err))
	case in.follow && r.Method == http.MethodGet:
		s.follow(r.Context(), newStream(w), name, q, page)
	default:
		writeJSON(w, http.StatusOK, pageOf(name, page))
	}
}

func (s *Server) logQuery(ctx context.Context, name string, in logRequest) (quota.LogQuery, error) {
	q := quota.LogQuery{Newest: in.newest, Most: int(in.most)}
	if in.after != "" {
		credential, id, err := quota.ParseGrantID(in.after)
		if err != nil || credential != name {
			return q, NewProblem(quota.BadRequest, "after must be the id of an entry of this log: %.80q", in.after)
		}
		q.After = id
	}
	if in.since.isZero() {
		return q, nil
	}
	usage, err := s.usageOf(ctx, name)
	q.Since = in.since.instant(usage.Now)
	return q, err
}

func (s *Server) logPage(ctx context.Context, name string, q quota.LogQuery) (quota.LogPage, error) {
	page, known, err := s.keeper.Log(ctx, name, q)
	if !known {
		return page, s.unknownCredential(name)
	}
	return page, err
}

func pageOf(name string, page quota.LogPage) LogPage {
	answer := LogPage{Entries: entriesOf(name, page.Entries)}
	if !page.Next.IsZero() {
		answer.Next = quota.GrantID(name, page.Next)
	}
	return answer
}

func entriesOf(name string, list []quota.Entry) []Entry {
	entries := make([]Entry, len(list))
	for i, e := range list {
		entries[i] = Entry{
			ID: quota.GrantID(name, e.ID), At: e.At.UTC(), Operation: e.Operation, Count: int64(e.Count),
			By: e.By, Region: e.Region, Note: e.Note, Charges: make([]Charge, len(e.Charges)),
		}
		for j, charge := range e.Charges {
			entries[i].Charges[j] = Charge{Limit: charge.Limit, Units: int64(charge.Now), Debited: int64(charge.Units)}
			entries[i].Units = max(entries[i].Units, int64(charge.Now))
		}
	}
	return entries
}
