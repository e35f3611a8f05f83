package api

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// SubjectState is the answer to GET and DELETE /v1/clients/{name}/subject.
type SubjectState struct {
	Name   string  `json:"name"` // of the clients
	Hash   string  `json:"hash"` // under which the subject is kept, in hex
	Limits []Limit `json:"limits"`
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
	form := url.Values{"subject": {r.Subject}, "operation": {r.Operation}, "count": {strconv.FormatInt(cmp.Or(r.Count, 1), 10)}}
	return c.decide(ctx, request{method: http.MethodPost, path: Path("clients", name, "acquire"), fields: form, once: true})
}
