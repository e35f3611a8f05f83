package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// Clients are the callers of one API of your own, and the limits that each of them has
// to itself: an element of GET /v1/clients.
type Clients struct {
	Name       string           `json:"name"`
	Algorithm  string           `json:"algorithm"` // "log" or "counter"
	Limits     []Limit          `json:"limits"`    // of each subject, before it has used anything
	Operations map[string]int64 `json:"operations,omitempty"`
	OnOutage   string           `json:"on_outage"` // "open" or "closed"

	// What this daemon decided since it started: calls granted, those granted without the ledger
	// included, calls denied, and calls that could not be decided.
	Granted      int64 `json:"granted"`
	Denied       int64 `json:"denied"`
	OutageGrants int64 `json:"outage_grants"`
	Undecided    int64 `json:"undecided"`
}

// SubjectState is the body of GET /v1/clients/{name}/subject.
type SubjectState struct {
	Name   string  `json:"name"`           // of the clients
	Hash   string  `json:"hash,omitempty"` // under which the subject is kept, in hex; empty: under its own name
	Limits []Limit `json:"limits"`
}

// SubjectReset is the answer to DELETE /v1/clients/{name}/subject.
type SubjectReset struct {
	Name  string `json:"name"`
	Reset bool   `json:"reset"`
}

// A ClientRequest is one call, or several of a kind, that a subject wants to make.
type ClientRequest struct {
	Subject   string `json:"subject"`   // an address, user or key: any bytes, 1 to 8192 of them
	Operation string `json:"operation"` // empty: a call costs 1
	Count     int64  `json:"count"`     // calls; 0 means 1
}

// SetBytes takes the subject of a form, which may hold any bytes, unlike JSON.
func (r *ClientRequest) SetBytes(form url.Values) { r.Subject = form.Get("subject") }

// AcquireClient asks whether a subject may make a call now. The Decision is a grant, or a denial of reason
// limit_exceeded or cost_exceeds_limit. Decision.Limits is the state of every limit, unless the mode is "outage".
// Errors are as for Acquire. The request is not sent again after a lost answer: the call may have been counted.
func (c *Client) AcquireClient(ctx context.Context, name string, r ClientRequest) (Decision, error) {
	return c.decide(ctx, request{method: http.MethodPost, path: Path("clients", name, "acquire"), fields: r.form(), once: true})
}

// form returns a request as a form, which may hold any bytes, unlike JSON.
func (r ClientRequest) form() url.Values {
	form := url.Values{"subject": {r.Subject}}
	if r.Operation != "" {
		form.Set("operation", r.Operation)
	}
	if r.Count > 1 || r.Count < 0 {
		form.Set("count", strconv.FormatInt(r.Count, 10))
	}
	return form
}
