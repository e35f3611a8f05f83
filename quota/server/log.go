package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

const usualPage = 100

// logRequest is what GET /v1/credentials/{name}/log takes.
type logRequest struct {
	After  string `json:"after"`
	Since  since  `json:"since"`
	Newest bool   `json:"newest"`
	Most   int64  `json:"most"`
	Follow bool   `json:"follow"`
}

func (q logRequest) check() *api.Problem {
	if q.Most < 1 || q.Most > quota.MaxLogPage {
		return api.NewProblem(quota.BadRequest, "most must be from 1 to %d: %d", quota.MaxLogPage, q.Most)
	}
	if q.Follow && q.Newest {
		return api.NewProblem(quota.BadRequest, "follow sends newer entries as they are written: it cannot be combined with newest")
	}
	return nil
}

func (s *Server) log(w http.ResponseWriter, r *http.Request, c *Session, in logRequest) {
	if problem := in.check(); problem != nil {
		writeProblem(w, problem)
		return
	}
	if in.Follow && r.Method == http.MethodGet {
		leave, problem := s.longReads.follow(c.Caller.UID)
		if problem != nil {
			writeProblem(w, problem)
			return
		}
		defer leave()
	}
	name := c.Path("name")
	q, err := s.logQuery(r.Context(), name, in)
	if err != nil {
		writeProblem(w, api.ProblemFrom(err))
		return
	}
	page, err := s.logPage(r.Context(), name, q)
	switch {
	case err != nil:
		writeProblem(w, api.ProblemFrom(err))
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
			return q, api.NewProblem(quota.BadRequest, "after must be the id of an entry of this log: %.80q", in.After)
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
	page, known, err := s.service.Log(ctx, name, q)
	if !known {
		return page, s.unknownCredential(name)
	}
	return page, err
}

func pageOf(name string, page quota.LogPage) api.LogPage {
	answer := api.LogPage{Entries: entriesOf(name, page.Entries)}
	if !page.Next.IsZero() {
		answer.Next = quota.GrantID(name, page.Next)
	}
	return answer
}

func entriesOf(name string, list []quota.Entry) []api.Entry {
	entries := make([]api.Entry, len(list))
	for i, e := range list {
		entries[i] = entryOf(name, e)
	}
	return entries
}

func entryOf(name string, e quota.Entry) api.Entry {
	entry := api.Entry{
		ID: quota.GrantID(name, e.ID), At: e.ID.Time(), Kind: string(e.Kind), Operation: e.Operation, Count: int64(e.Count),
		By: e.By, Region: e.Region, Charges: make([]api.Charge, len(e.Charges)), Asked: e.Asked, Note: e.Note,
		Limit: e.Limit, Until: timeOf(e.Until),
	}
	for i, counts := range e.Counts() {
		entry.Charges[i] = api.Charge{Limit: counts.Limit, Units: int64(counts.Units), Debited: int64(e.Charges[i].Units)}
		entry.Units = max(entry.Units, int64(counts.Units))
	}
	if e.Kind == quota.KindAdjustment {
		entry.Units = entry.Charges[0].Debited
	}
	if e.Kind == quota.KindLoan {
		if entry.Units = int64(e.Units); e.Units == 0 {
			entry.Until = nil
		}
	}
	if e.Settled || e.Kind == quota.KindSettlement {
		to := int64(e.SettledTo)
		entry.SettledTo = &to
	}
	if e.Kind == quota.KindSettlement {
		entry.GrantID = quota.GrantID(name, e.Grant)
	}
	for i, before := range e.Before {
		entry.Settled = append(entry.Settled, api.Settlement{Limit: before.Limit, Before: int64(before.Units), After: int64(e.After[i].Units)})
	}
	return entry
}

// A since is an instant as a query names it: by RFC 3339, or by how long ago it
// was. The zero value names none.
type since struct {
	at  time.Time
	ago time.Duration
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *since) UnmarshalText(text []byte) error {
	if at, err := time.Parse(time.RFC3339, string(text)); err == nil {
		*s = since{at: at}
		return nil
	}
	ago, err := api.ParseSpan(string(text))
	if err != nil || ago <= 0 {
		return fmt.Errorf("since must be an instant like 2026-03-14T09:00:00Z, or how long ago it was, like 90m, 24h or 7d: %.40q", text)
	}
	*s = since{ago: ago}
	return nil
}

func (s since) isZero() bool { return s == since{} }

// instant returns the instant when the ledger's clock shows now.
func (s since) instant(now time.Time) time.Time {
	if s.ago != 0 {
		return now.Add(-s.ago)
	}
	return s.at
}
