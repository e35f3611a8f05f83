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
	Kind      string    `json:"kind"`                // grant, settlement, adjustment or reset
	Operation string    `json:"operation,omitempty"` // of a grant
	Count     int64     `json:"count,omitempty"`     // calls
	By        string    `json:"by"`                  // the job, or "@" and the uid of a caller outside a pass
	Region    string    `json:"region,omitempty"`
	// Units is the greatest of the charges; of an adjustment what it booked, below
	// zero where it gave back.
	Units   int64    `json:"units"`
	Charges []Charge `json:"charges"` // none of a settlement or a reset
	// Of a settlement: the grant, and what its charges were before and are after.
	GrantID   string       `json:"grant_id,omitempty"`
	Settled   []Settlement `json:"settled,omitempty"`
	SettledTo *int64       `json:"settled_to,omitempty"` // also of a grant that was settled
	Asked     int64        `json:"asked,omitempty"`      // of an adjustment: the units that were asked for
	Note      string       `json:"note,omitempty"`       // of an adjustment or a reset: why
}

// Charge is what an entry counts in a limit.
type Charge struct {
	Limit   string `json:"limit"`
	Units   int64  `json:"units"`   // after settling, and less what was given back; what gave back counts nothing itself
	Debited int64  `json:"debited"` // before; below zero of what gave back
}

// Settlement is what a settlement made of a grant's charge in a limit.
type Settlement struct {
	Limit  string `json:"limit"`
	Before int64  `json:"before"`
	After  int64  `json:"after"`
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
	After  string `json:"after"`
	Since  since  `json:"since"`
	Newest bool   `json:"newest"`
	Most   int64  `json:"most"`
	Follow bool   `json:"follow"`
}

func (q logRequest) check() *Problem {
	if q.Most < 1 || q.Most > quota.MaxLogPage {
		return NewProblem(quota.BadRequest, "most must be from 1 to %d: %d", quota.MaxLogPage, q.Most)
	}
	if q.Follow && q.Newest {
		return NewProblem(quota.BadRequest, "follow reads on towards what is written next: newest does not go with it")
	}
	return nil
}

func (s *Server) log(w http.ResponseWriter, r *http.Request, c *Call) {
	in := logRequest{Most: usualPage}
	problem := decode(r, &in)
	if problem == nil {
		problem = in.check()
	}
	if problem != nil {
		writeProblem(w, problem)
		return
	}
	if in.Follow && r.Method == http.MethodGet {
		if problem := s.followers.enter(c.Caller.UID); problem != nil {
			writeProblem(w, problem)
			return
		}
		defer s.followers.leave(c.Caller.UID)
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
	case in.Follow && r.Method == http.MethodGet:
		(&follower{server: s, out: newStream(w), uid: c.Caller.UID, credential: name, query: q}).follow(r.Context(), page)
	default:
		writeJSON(w, http.StatusOK, pageOf(name, page))
	}
}

func (s *Server) logQuery(ctx context.Context, name string, in logRequest) (quota.LogQuery, error) {
	q := quota.LogQuery{Newest: in.Newest, Most: int(in.Most)}
	if in.After != "" {
		credential, id, err := quota.ParseGrantID(in.After)
		if err != nil || credential != name {
			return q, NewProblem(quota.BadRequest, "after must be the id of an entry of this log: %.80q", in.After)
		}
		q.After = id
	}
	if in.Since.isZero() {
		return q, nil
	}
	usage, err := s.usageOf(ctx, name)
	q.Since = in.Since.instant(usage.Now)
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
		entries[i] = entryOf(name, e)
	}
	return entries
}

func entryOf(name string, e quota.Entry) Entry {
	entry := Entry{
		ID: quota.GrantID(name, e.ID), At: e.At.UTC(), Kind: string(e.Kind), Operation: e.Operation, Count: int64(e.Count),
		By: e.By, Region: e.Region, Charges: make([]Charge, len(e.Charges)), Asked: e.Asked, Note: e.Note,
	}
	for i, counts := range e.Counts() {
		entry.Charges[i] = Charge{Limit: counts.Limit, Units: int64(counts.Units), Debited: int64(e.Charges[i].Units)}
		entry.Units = max(entry.Units, int64(counts.Units))
	}
	if e.Kind == quota.KindAdjustment {
		entry.Units = entry.Charges[0].Debited
	}
	if e.Settled || e.Kind == quota.KindSettlement {
		to := int64(e.SettledTo)
		entry.SettledTo = &to
	}
	if e.Kind == quota.KindSettlement {
		entry.GrantID = quota.GrantID(name, e.Grant)
	}
	for i, before := range e.Before {
		entry.Settled = append(entry.Settled, Settlement{Limit: before.Limit, Before: int64(before.Units), After: int64(e.After[i].Units)})
	}
	return entry
}
