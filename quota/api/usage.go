package api

import (
	"context"
	"time"

	"quotad/quota"
)

// Usage is the body of GET /v1/credentials/{name}/usage: who spent what. Without a since it
// says what the limits hold now: each counts what is in its own window, and the totals by limit are
// what the status shows as used. With a since, entries that have left a window count, too.
type Usage struct {
	Credential string    `json:"credential"`
	By         string    `json:"by"`
	Since      time.Time `json:"since"`
	Until      time.Time `json:"until"` // now, by the ledger's clock
	// Windows says when the window of each limit began, if no since was given.
	// Since is the earliest of them.
	Windows map[string]time.Time `json:"windows,omitempty"`
	Shares  []SpentBy            `json:"shares"` // the greatest first; hours in their order
	Total   SpentBy              `json:"total"`
	Partial bool                 `json:"partial,omitempty"` // the oldest entries were left out, beyond the maximum that was asked for
}

// SpentBy is what one job, region, operation, caller or hour spent, after settling.
type SpentBy struct {
	// Name is empty for units that were spent outside a pass or, by operation,
	// booked. The name of an hour is its beginning, in RFC 3339.
	Name   string           `json:"name"`
	Calls  int64            `json:"calls"`  // upstream, less those of released grants
	Units  int64            `json:"units"`  // of each entry the greatest of its charges
	Limits map[string]int64 `json:"limits"` // units by limit
}

// Why is the body of GET /v1/credentials/{name}/why: whether calls would be granted
// now, and if not, why. Asking spends nothing.
type Why struct {
	Credential string `json:"credential"`
	Operation  string `json:"operation"`
	Count      int64  `json:"count"`
	Job        string `json:"job,omitempty"` // whose calls; empty outside any pass
	Units      int64  `json:"units"`         // what they cost
	Granted    bool   `json:"granted"`
	Outage     bool   `json:"outage,omitempty"` // granted without the ledger, which cannot be reached

	Reason       string     `json:"reason,omitempty"` // limit_exceeded, limit_closed or cost_exceeds_limit
	Limit        string     `json:"limit,omitempty"`  // that refuses them the longest
	Detail       string     `json:"detail,omitempty"` // for people
	RetryAfterMs int64      `json:"retry_after_ms,omitempty"`
	RetryAt      *time.Time `json:"retry_at,omitempty"` // when they fit if nothing else happens

	// WouldDeny is what the limits that are not enforced would deny of calls that are granted.
	WouldDeny []quota.Shortage `json:"would_deny,omitempty"`

	FitsCount     int64      `json:"fits_count"`     // how many of these calls would be granted now
	ReserveAllows bool       `json:"reserve_allows"` // an operator may spend them from the reserve now
	Limits        []Limit    `json:"limits"`         // those that the calls count against
	Obstacles     []Obstacle `json:"obstacles"`      // the limits that refuse the calls; none of a grant
}

// Obstacle is a limit that the calls do not fit now.
type Obstacle struct {
	Limit string `json:"limit"`
	Cost  int64  `json:"cost"` // of the calls, in this limit
	// Missing is by how many units the calls do not fit; 0 if the limit is closed.
	Missing int64 `json:"missing"`
	// RaiseTo is to how many units the configuration may raise the limit so that the calls fit; 0
	// where the upstream is known not to grant that much.
	RaiseTo int64 `json:"raise_to,omitempty"`
	// Sure says that there are RaiseTo units: the upstream is known to grant them, or the limit is a
	// part of another one that counts these calls too.
	Sure bool `json:"sure,omitempty"`
	// Held is what the limit's window holds.
	Held int64 `json:"held"`
	// Who holds what in the limit's window, the greatest first, at most ten.
	Jobs       []quota.Holder `json:"jobs"`
	Regions    []quota.Holder `json:"regions"`
	Operations []quota.Holder `json:"operations"`
}

// UsageQuery says which entries of a log Usage sums, and by what.
type UsageQuery struct {
	By    string `json:"by,omitempty"`    // "job" (when empty), "region", "operation", "caller" or "hour"
	Since Since  `json:"since,omitempty"` // empty: of each limit what its window holds
	Most  int    `json:"most,omitempty"`  // how many entries to read at most, the newest; 0: all
}

// Usage returns who spent what. If the log is long, it may take longer than other answers.
func (c *Client) Usage(ctx context.Context, credential string, q UsageQuery) (Usage, error) {
	return AskLong[Usage](ctx, c, Path("credentials", credential, "usage"), q)
}

// A WhyQuery says which calls Why is about.
type WhyQuery struct {
	Operation string `json:"operation"`
	Count     int64  `json:"count"`
	Job       string `json:"job,omitempty"` // whose calls; empty: of a caller outside any pass
}

// Why returns whether calls would be granted now, and if not, why. If the log is long, it may take
// longer than other answers.
func (c *Client) Why(ctx context.Context, credential string, q WhyQuery) (Why, error) {
	return AskLong[Why](ctx, c, Path("credentials", credential, "why"), q)
}
