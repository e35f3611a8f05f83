package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"quotad/quota"
)

// Entry is a line of a credential's log.
type Entry struct {
	ID        string    `json:"id,omitempty"` // for settle and release
	At        time.Time `json:"at"`
	Kind      string    `json:"kind"`                // grant, settlement, booking, reset, closing, opening or denied
	Operation string    `json:"operation,omitempty"` // of a grant
	Count     int64     `json:"count,omitempty"`     // calls
	By        string    `json:"by"`                  // the job, "remote/" and a remote caller, or "@" and a uid
	Region    string    `json:"region,omitempty"`
	// Units is the greatest of the charges.
	Units   int64    `json:"units"`
	Charges []Charge `json:"charges"` // none of a settlement or a reset
	// WouldDeny names the limits that are not enforced and would have denied a grant.
	WouldDeny []string   `json:"would_deny,omitempty"`
	Outage    bool       `json:"outage,omitempty"`     // it was granted while the ledger could not be reached
	GrantID   string     `json:"grant_id,omitempty"`   // of a settlement: the grant
	SettledTo *int64     `json:"settled_to,omitempty"` // also of a grant that was settled
	Limit     string     `json:"limit,omitempty"`      // of a closing, an opening or a denial
	Until     *time.Time `json:"until,omitempty"`      // of a closing: when the limit opens by itself; of a denial: when it would fit
	Note      string     `json:"note,omitempty"`       // of all but grants and settlements: why

	// Of a denied acquire, which is in no log: the daemon remembers the last of them.
	Credential string `json:"credential,omitempty"`
	Reason     string `json:"reason,omitempty"`
}

// Denied is the Kind of an acquire that was refused, for whatever reason.
const Denied = "denied"

// Charge is what an entry counts in a limit.
type Charge struct {
	Limit   string `json:"limit"`
	Units   int64  `json:"units"`   // after settling
	Debited int64  `json:"debited"` // before
}

// LogPage is the body of GET /v1/log.
type LogPage struct {
	Entries []Entry `json:"entries"`
	Next    string  `json:"next,omitempty"` // the LogQuery.After of the following page; absent in the last one
}

// LogQuery selects entries of a log.
type LogQuery struct {
	Credential string `json:"credential,omitempty"` // empty: the only one
	// Denied asks for the last acquires that were refused, of all credentials if none is named, in place of the log.
	Denied bool   `json:"denied,omitempty"`
	After  string `json:"after,omitempty"`  // the LogPage.Next of the page before; empty: from the beginning
	Since  string `json:"since,omitempty"`  // nothing older than that instant, see ParseInstant; empty: all that is kept
	Newest bool   `json:"newest,omitempty"` // newest first
	Most   int64  `json:"most,omitempty"`   // page size, at most quota.MaxLogPage; 0: 100
}

// ParseInstant reads an instant: in RFC 3339, or by how long before or after now it is ("90m", "7d").
func ParseInstant(text string, now time.Time, past bool) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	span, err := ParseSpan(text)
	if err != nil || span <= 0 {
		return now, fmt.Errorf("%.40q is no instant like 2026-03-14T09:00:00Z, and no length of time like 90m or 7d", text)
	}
	if past {
		span = -span
	}
	return now.Add(span), nil
}

// ParseSpan reads a length of time as people write it: like time.ParseDuration, but it may begin with a number of days
// of 24 hours ("90m", "7d", "1d12h"). If there are too many days, the error wraps strconv.ErrRange.
func ParseSpan(text string) (time.Duration, error) {
	number, rest, hasDays := strings.Cut(text, "d")
	if !hasDays {
		return time.ParseDuration(text)
	}
	days, err := strconv.ParseUint(number, 10, 16)
	span := time.Duration(0)
	if err == nil && rest != "" {
		span, err = time.ParseDuration(rest)
	}
	total := time.Duration(days)*24*time.Hour + span
	if err == nil && (span < 0 || total < 0) {
		err = strconv.ErrRange
	}
	return total, err
}

// Log returns a page of a log.
func (c *Client) Log(ctx context.Context, q LogQuery) (LogPage, error) {
	return Ask[LogPage](ctx, c, http.MethodGet, "/v1/log", q)
}

// Walk calls do with the entries of a log until it returns false.
func (c *Client) Walk(ctx context.Context, q LogQuery, do func(Entry) bool) error {
	for q.Most = quota.MaxLogPage; ; {
		page, err := c.Log(ctx, q)
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			if !do(e) {
				return nil
			}
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}
