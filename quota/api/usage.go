package api

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"quotad/quota"
)

// A UsageQuery says which entries of a log Usage sums, and by what.
type UsageQuery struct {
	By    string         // "job" (also when empty: the job, or another caller), "region", "operation" or "day"
	Since string         // an instant, see ParseInstant; empty: of each limit what its window holds now
	Zone  *time.Location // of the days; nil: UTC
}

// Usage is who spent what, as the log says. Without a since it is what the limits hold now: each counts what is in its
// own window, and the totals by limit are what the status shows as used. With a since, entries that have left a window
// count, too.
type Usage struct {
	Credential string    `json:"credential"`
	By         string    `json:"by"`
	Since      time.Time `json:"since"`
	Until      time.Time `json:"until"` // now, by the ledger's clock
	// Windows says when the window of each limit began, if no since was given. Since is the earliest of them.
	Windows map[string]time.Time `json:"windows,omitempty"`
	Shares  []SpentBy            `json:"shares"` // the greatest first; days in their order
	Total   SpentBy              `json:"total"`
}

// SpentBy is what entries of one name spent, after settling.
type SpentBy struct {
	Name   string           `json:"name"`   // empty: no region, or by operation what was booked
	Calls  int64            `json:"calls"`  // upstream, less those of released grants
	Units  int64            `json:"units"`  // of each entry the greatest of its charges
	Limits map[string]int64 `json:"limits"` // units by limit
	// WouldDeny counts the calls that a limit which only observes would have refused, by limit.
	WouldDeny map[string]int64 `json:"would_deny,omitempty"`
}

// Usage reads a credential's log and sums it.
func (c *Client) Usage(ctx context.Context, credential string, q UsageQuery) (Usage, error) {
	of, err := c.credential(ctx, credential)
	if err != nil {
		return Usage{}, err
	}
	u := Usage{Credential: of.Name, By: cmp.Or(q.By, "job"), Until: *of.Now, Total: newSpentBy("")}
	if q.Since != "" {
		if u.Since, err = ParseInstant(q.Since, u.Until, true); err != nil {
			return Usage{}, err
		}
		u.Since = u.Since.UTC()
	} else {
		u.Since, u.Windows = u.Until, make(map[string]time.Time, len(of.Limits))
		for _, l := range of.Limits {
			u.Windows[l.Name] = *l.CountsSince
			u.Since = quota.Earlier(u.Since, *l.CountsSince)
		}
	}
	for _, l := range of.Limits {
		u.Total.Limits[l.Name] = 0
	}
	shares := map[string]SpentBy{}
	log := LogQuery{Credential: of.Name, Since: u.Since.Format(time.RFC3339Nano), Newest: true}
	err = c.Walk(ctx, log, func(e Entry) bool {
		if len(e.Charges) > 0 { // not the trace of a correction
			name := e.in(u.By, cmp.Or(q.Zone, time.UTC))
			share, known := shares[name]
			if !known {
				share = newSpentBy(name)
			}
			share.add(e, u.Windows)
			u.Total.add(e, u.Windows)
			shares[name] = share
		}
		return u.Windows == nil || e.Kind != string(quota.KindReset) // what is older counts no more
	})
	none := func(s SpentBy) bool { return s.Calls == 0 && s.Units == 0 }
	u.Shares = slices.DeleteFunc(slices.AppendSeq([]SpentBy{}, maps.Values(shares)), none)
	slices.SortFunc(u.Shares, func(x, y SpentBy) int {
		if u.By == "day" {
			return cmp.Compare(x.Name, y.Name)
		}
		return cmp.Or(cmp.Compare(y.Units, x.Units), cmp.Compare(x.Name, y.Name))
	})
	return u, err
}

// credential returns the state of a credential. The daemon says of a name that it does not know what is wrong with it.
func (c *Client) credential(ctx context.Context, name string) (Credential, error) {
	name = cmp.Or(name, OnlyCredential)
	status, err := c.Status(ctx)
	if err != nil {
		return Credential{}, err
	}
	for _, of := range status.Credentials {
		switch {
		case of.Name != name && (name != OnlyCredential || len(status.Credentials) > 1):
		case of.Error != "":
			return of, NewProblem(LedgerUnavailable, "%s", of.Error)
		default:
			return of, nil
		}
	}
	_, err = c.Log(ctx, LogQuery{Credential: name})
	return Credential{}, cmp.Or(err, error(NewProblem(quota.UnknownCredential, "credential %.80q was removed meanwhile", name)))
}

// in returns the name of the share that an entry belongs to.
func (e *Entry) in(by string, zone *time.Location) string {
	switch by {
	case "region":
		return e.Region
	case "operation":
		return e.Operation
	case "day":
		return e.At.In(zone).Format(time.DateOnly)
	}
	return e.By
}

func newSpentBy(name string) SpentBy {
	return SpentBy{Name: name, Limits: map[string]int64{}, WouldDeny: map[string]int64{}}
}

// add counts an entry: of a limit with a window, if that still holds it.
func (s *SpentBy) add(e Entry, windows map[string]time.Time) {
	held, units, debited := windows == nil, int64(0), int64(0)
	for _, charge := range e.Charges {
		since, known := windows[charge.Limit]
		if windows != nil && (!known || e.At.Before(since)) {
			continue
		}
		s.Limits[charge.Limit] += charge.Units
		held, units, debited = true, max(units, charge.Units), max(debited, charge.Debited)
	}
	s.Units += units
	if held && (units > 0 || debited == 0) { // else it was released
		s.Calls += e.Count
		for _, limit := range e.WouldDeny {
			s.WouldDeny[limit] += e.Count
		}
	}
}
