package api

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"sync"

	"quotad/quota"
)

// A Client asks the daemon. The zero value finds the socket by itself and has no token. Any number of goroutines may
// use one at the same time. It must not be copied once used.
//
// If the connection breaks before the answer is complete, the client sends a request that may be repeated again, up to
// twice. These are reads, and acquire, settle and release, which a request id or a grant id makes repeatable. A refusal
// is an answer, and final. Without a deadline in the context, a call gives up after five seconds. If the request may
// have arrived by then, ErrUnreachable is quota.ErrOutcomeUnknown, too.
type Client struct {
	Socket string // the daemon's; empty: FindSocket("")
	Token  string // the run token of a pass; empty outside a pass

	once      sync.Once // guards making socket and transport
	socket    string
	transport *http.Transport
}

// FromEnv returns the client of a pass, with the socket and the token from its
// environment. Outside a pass it finds the socket as FindSocket("") does.
func FromEnv() *Client {
	return &Client{Socket: FindSocket(""), Token: os.Getenv(TokenEnv)}
}

// Acquire asks to spend before a call upstream. Without an error, the Decision is a grant, whose units are debited, or
// a denial because units are missing: not granted, and of reason limit_exceeded, limit_closed or cost_exceeds_limit.
// The first two have a time in RetryAt, of the ledger's clock. Any other refusal is a *Problem, whose Reason says why:
// an unknown operation is not a denial. The other errors are ErrUnreachable, ErrLedgerUnavailable and the context's.
//
// Without a request id, Acquire makes one up, so that it can send the request again after a lost
// reply without a second debit.
func (c *Client) Acquire(ctx context.Context, r AcquireRequest) (Decision, error) {
	if r.RequestID == "" && !r.DryRun {
		r.RequestID = rand.Text()[:16] // 80 random bits: short, because the ledger keeps it
	}
	return c.decide(ctx, request{method: http.MethodPost, path: "/v1/acquire", fields: r})
}

// Settle sets a grant to the units that were really spent, from 0 to 2^53-1. More than was debited is booked, too, even
// past the limit, because it has happened. If the grant has left every window, the error is a *Problem of reason
// unknown_grant. Other refusals and errors are as for Acquire.
func (c *Client) Settle(ctx context.Context, grantID string, units int64) (Decision, error) {
	return c.decide(ctx, request{method: http.MethodPost, path: Path("grants", grantID, "settle"), fields: SettleRequest{Units: &units}})
}

// Release sets a grant to zero because its call was provably never sent. Refusals and errors are as for Settle.
func (c *Client) Release(ctx context.Context, grantID string) (Decision, error) {
	return c.decide(ctx, request{method: http.MethodDelete, path: Path("grants", grantID)})
}

// Status returns the quota part of the daemon's status; Get(ctx, "/v1/status", &v) reads the other parts too.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return Ask[Status](ctx, c, http.MethodGet, "/v1/status", nil)
}

// Book counts units that were spent elsewhere. It is not sent again when the answer is lost: that would book twice.
// Errors here and below are as for Do.
func (c *Client) Book(ctx context.Context, credential string, b quota.Booking) (Booked, error) {
	return Ask[Booked](ctx, c, http.MethodPost, Path("credentials", credential, "book"), b)
}

// OnlyCredential names, in questions and bookings, the credential that alone is
// configured. If several are, the answer is a *Problem of reason quota.BadRequest.
const OnlyCredential = "-"

// CloseLimit closes a limit of a credential, or opens it.
func (c *Client) CloseLimit(ctx context.Context, credential string, k Closing) (Shut, error) {
	return Ask[Shut](ctx, c, http.MethodPost, Path("credentials", credential, "close"), k)
}

// Observe reports what the upstream answered. To report it twice does no harm, so it is sent
// again when the answer is lost.
func (c *Client) Observe(ctx context.Context, o Observation) (seen Observed, err error) {
	err = c.do(ctx, request{method: http.MethodPost, path: "/v1/observe", fields: o}, &seen)
	return seen, err
}

// Reset has every limit of a credential start from zero, and open.
func (c *Client) Reset(ctx context.Context, credential, note string) (Credential, error) {
	return Ask[Credential](ctx, c, http.MethodPost, Path("credentials", credential, "reset"), Reset{Confirm: credential, Note: note})
}

// Do makes a request of any method, and decodes the answer into into. Fields is a struct or url.Values: a GET or DELETE
// has them in its query, another request in its body. A nil fields is none, and a nil into discards the answer. The
// path begins with '/', and its parts are escaped already. What the daemon refuses is a *Problem; the other errors are
// ErrUnreachable and the context's.
func (c *Client) Do(ctx context.Context, method, path string, fields, into any) error {
	return c.do(ctx, request{method: method, path: path, fields: fields, once: method == http.MethodPost || method == http.MethodPatch}, into)
}

// Get reads a resource. Errors are as for Do.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	return c.Do(ctx, http.MethodGet, path, nil, into)
}

// Ask is Client.Do, and returns the answer.
func Ask[T any](ctx context.Context, c *Client, method, path string, fields any) (answer T, err error) {
	err = c.Do(ctx, method, path, fields, &answer)
	return answer, err
}

// decide makes a request that is answered by a decision. A denial is a decision; of
// another refusal, decide returns both the answer and the error.
func (c *Client) decide(ctx context.Context, r request) (Decision, error) {
	var d Decision
	err := c.do(ctx, r, &d)
	var p *Problem
	switch {
	case errors.As(err, &p) && p.Status/100 == 4 && json.Unmarshal(p.body, &d) == nil:
		if d.Granted = false; answerFor(quota.Reason(d.Reason)).denial {
			return d, nil
		}
	case err == nil && !d.Granted:
		return Decision{}, errors.New("quotad answered 200 without granting")
	}
	return d, err
}

// Path returns the path of a resource, from its parts as they are: "credentials", "youtube", "log".
func Path(parts ...string) string {
	path := "/v1"
	for _, part := range parts {
		path += "/" + url.PathEscape(part)
	}
	return path
}
