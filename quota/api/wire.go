package api

import (
	"time"

	"quotad/quota"
)

// AcquireRequest is the body of POST /v1/acquire. The credential may be left out
// with a pass's run token, and if only one is configured.
type AcquireRequest struct {
	Credential string `json:"credential,omitempty"`
	Operation  string `json:"operation"`
	Count      int64  `json:"count,omitempty"`      // calls, from 1 to 2^53-1; 1 when absent
	RequestID  string `json:"request_id,omitempty"` // names the upstream call, by at most 128 printable bytes; see quota.Request
	UseReserve bool   `json:"use_reserve,omitempty"`
	// Optional says that a pass can do without the call: a denial does not end the pass, nor its run.
	Optional bool `json:"optional,omitempty"`
	// DryRun asks what would be decided now. It moves nothing, and a grant has no id.
	DryRun bool `json:"dry_run,omitempty"`
	// Job names, in a dry run outside of a pass, the job or the remote caller ("remote/shop") that would call.
	Job string `json:"job,omitempty"`
}

// Decision is the answer to an acquire, and the body of a settle's: a grant,
// or a refusal in the form of an RFC 9457 problem.
type Decision struct {
	Granted   bool   `json:"granted"`
	GrantID   string `json:"grant_id,omitempty"` // of a grant, unless it costs nothing
	Units     int64  `json:"units,omitempty"`    // debited, of a grant
	Remaining int64  `json:"remaining"`          // the smallest over the limits involved, after this answer; 0 if Limits is empty
	// Now is when it was decided, by the ledger's clock; for the calls of clients alone.
	Now      *time.Time `json:"now,omitempty"`
	Limits   []Limit    `json:"limits,omitempty"`   // those involved
	Replayed bool       `json:"replayed,omitempty"` // granted before under the same request id
	Mode     string     `json:"mode,omitempty"`     // "outage" for a grant without the ledger
	// WouldDeny is what the limits that are not enforced would have denied of a grant.
	WouldDeny []quota.Shortage `json:"would_deny,omitempty"`

	// Of a dry run: how many of these calls would be granted now, which limits they do not fit, and in which words
	// the upstream refuses the key, if it does.
	DryRun     bool             `json:"dry_run,omitempty"`
	Fits       int64            `json:"fits,omitempty"`
	Missing    []quota.Shortage `json:"missing,omitempty"`
	KeyRefused string           `json:"key_refused,omitempty"`

	Reason       string     `json:"reason,omitempty"` // of a refusal, one of quota's reasons
	Limit        string     `json:"limit,omitempty"`  // that refused
	Requested    int64      `json:"requested,omitempty"`
	RetryAfterMs int64      `json:"retry_after_ms,omitempty"` // of limit_exceeded and limit_closed
	RetryAt      *time.Time `json:"retry_at,omitempty"`       // RFC 3339, UTC
	UpstreamSays string     `json:"upstream_says,omitempty"`  // of limit_closed

	// Members of a problem (RFC 9457); empty in a grant.
	Status int    `json:"status,omitempty"`
	Detail string `json:"detail,omitempty"`
	Hint   string `json:"hint,omitempty"` // the cure, if it is known
}

// Limit is the state of a limit.
type Limit struct {
	Name      string `json:"name"`
	Units     int64  `json:"units"`
	Reserve   int64  `json:"reserve"`
	Used      int64  `json:"used"`
	Remaining int64  `json:"remaining"` // for ordinary callers: units less reserve less used, never negative
	Window    string `json:"window"`    // "24h" or "7d", or "day America/Los_Angeles"
	// WindowMs is the length of a sliding window; absent for a calendar window.
	WindowMs int64 `json:"window_ms,omitempty"`
	// Describe says in words what the limit counts: "in any 24h, by all but trending".
	Describe string `json:"describe"`
	// When the next debit leaves the window, and how many units that frees.
	NextUnitsAt *time.Time    `json:"next_units_at,omitempty"`
	NextUnits   int64         `json:"next_units,omitempty"`
	Closed      *quota.Closed `json:"closed,omitempty"` // absent while the limit is open
	// Of a share: the jobs whose calls it counts, or does not count. A remote caller is named
	// as in the log: "remote/shop".
	Jobs       []string `json:"jobs,omitempty"`
	ExceptJobs []string `json:"except_jobs,omitempty"`
	Observes   bool     `json:"observes,omitempty"` // it is not enforced: it refuses nothing
	// CountsSince is when its window began; in the state of a credential.
	CountsSince *time.Time `json:"counts_since,omitempty"`
}

// A Closing is the body of POST /v1/credentials/{name}/close.
type Closing struct {
	Limit string `json:"limit"`
	Until string `json:"until,omitempty"` // when the limit opens by itself, or after how long ("90m", "1d")
	Open  bool   `json:"open,omitempty"`  // open it now
	Note  string `json:"note,omitempty"`
}

// Shut is the answer to a Closing.
type Shut struct {
	Limit string `json:"limit"`
	// Changed is false if the limit was already closed until later, or was open.
	Changed    bool          `json:"changed"`
	Closed     *quota.Closed `json:"closed,omitempty"` // as it is now; absent while it is open
	Credential Credential    `json:"credential"`
}

// An Observation is the body of POST /v1/observe: what the upstream answered. It names
// the operation, or the grant that paid for it.
type Observation struct {
	Credential string `json:"credential,omitempty"` // as in AcquireRequest
	Operation  string `json:"operation,omitempty"`
	GrantID    string `json:"grant_id,omitempty"`
	// Status of the answer; may be left out if the header begins with the status line.
	Status int64  `json:"status,omitempty"`
	Header string `json:"header,omitempty"` // lines of "Name: value", verbatim
	Body   string `json:"body,omitempty"`   // verbatim, not compressed
}

// Observed is the answer to an Observation.
type Observed struct {
	Class   string        `json:"class"`            // ok, minute, day, key, billing or unknown
	Limit   string        `json:"limit,omitempty"`  // that the answer is about, by its name in quotad
	Closed  *quota.Closed `json:"closed,omitempty"` // as that limit is now
	Changed bool          `json:"changed"`          // whether this observation closed it
	Says    string        `json:"says,omitempty"`   // the upstream's words
}

// Credential is a credential with the state of its limits.
type Credential struct {
	Name   string  `json:"name"`
	Limits []Limit `json:"limits"`
	// AsOf is when the log was read last, if the ledger cannot be reached now.
	AsOf *time.Time `json:"as_of,omitempty"`
	// GrantedSince is what this host has granted since then, which is in the limits below, too.
	GrantedSince int64      `json:"granted_since,omitempty"`
	Error        string     `json:"error,omitempty"` // why the state of the limits is not known
	Now          *time.Time `json:"now,omitempty"`   // by the ledger's clock
}

// LedgerState is the state of the ledger.
type LedgerState struct {
	Backend  string   `json:"backend"`
	State    string   `json:"state"` // "ok", or what is wrong
	Warnings []string `json:"warnings,omitempty"`
}

// Status is quota's part of the body of GET /v1/status; the jobs' part is in package jobs/api.
type Status struct {
	Credentials []Credential `json:"credentials"`
	Ledger      LedgerState  `json:"ledger"`
	Version     string       `json:"version"`
}

// SettleRequest is the body of POST /v1/grants/{id}/settle.
type SettleRequest struct {
	Units *int64 `json:"units"`
}

// Booked is the answer to POST /v1/credentials/{name}/book, whose body is a quota.Booking.
type Booked struct {
	GrantID    string     `json:"grant_id"` // for settle, by which an operator corrects it
	Limit      string     `json:"limit"`
	Units      int64      `json:"units"`
	Credential Credential `json:"credential"` // as it is now
}

// Reset is the body of POST /v1/credentials/{name}/reset.
type Reset struct {
	Confirm string `json:"confirm"` // the credential's name again: this cannot be undone
	Note    string `json:"note,omitempty"`
}

// EventTest is the body of POST /v1/notify.
type EventTest struct {
	Event string `json:"event"` // "trouble": one of the kinds of [on_event]
}

// EventTested is its answer: how the event's command ended, and what it wrote.
type EventTested struct {
	Event   string   `json:"event"`
	Outcome string   `json:"outcome"`          // "ok" or "failed"
	Detail  string   `json:"detail,omitempty"` // why it failed: "exit status 1"
	TookMS  int64    `json:"took_ms"`
	Output  []string `json:"output"`
}

// Reloaded is the body of the answer to POST /v1/reload.
type Reloaded struct {
	File     string   `json:"file"`
	Changed  string   `json:"changed"`            // how many tables of each kind: "3 jobs, 2 limits changed"
	Warnings []string `json:"warnings,omitempty"` // of the file, such as a schedule that does not fit
}

// Configuration says which configuration is in force: the member "config" of GET /v1/status.
type Configuration struct {
	File     string    `json:"file"`
	ReadAt   time.Time `json:"read_at"`
	FailedAt time.Time `json:"failed_at,omitzero"` // of the last reload, if it failed: the earlier configuration stays in force
	Error    string    `json:"error,omitempty"`    // why it failed, a line for each error
}
