package api

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"sync"

	"quotad/quota"
)

// A Client asks the daemon. The zero value finds the socket by itself and has
// no token; any number of goroutines may use one at the same time, and it must
// not be copied once used.
//
// Requests that may be repeated (reads, and acquire, settle and release, which
// a request id or a grant id makes repeatable) are sent again, up to twice and
// with the same id, when the connection breaks before the answer is there. No
// answer is ever asked for again: a refusal stands. Without a deadline in the
// context a call gives up after ten seconds. Where the request may have arrived by
// then, ErrUnreachable is quota.ErrOutcomeUnknown as well.
type Client struct {
	Socket string // the daemon's; empty: FindSocket("")
	Token  string // the run token of a pass; empty outside a pass

	once      sync.Once // guards making socket and transport
	socket    string
	transport *http.Transport
}

// FromEnv returns the client of a pass: socket and token are taken from its
// environment. Outside a pass it finds the socket as FindSocket("") does.
func FromEnv() *Client {
	return &Client{Socket: FindSocket(""), Token: os.Getenv(TokenEnv)}
}

// Acquire asks to spend before a call upstream. Without an error the Decision is a
// grant, or a denial because units are missing: not granted, and of reason
// limit_exceeded or cost_exceeds_limit. Whatever else is refused is a *Problem, whose
// Reason says why: an unknown operation is no denial. The other errors are
// ErrUnreachable, ErrLedgerUnavailable and the context's.
//
// Without a request id one is made up, so that a lost reply can be asked for
// again without a second debit.
func (c *Client) Acquire(ctx context.Context, r AcquireRequest) (Decision, error) {
	if r.RequestID == "" {
		r.RequestID, r.Fresh = newRequestID(), true
	}
	return c.decide(ctx, http.MethodPost, "/v1/acquire", r)
}

// Settle sets a grant to the units that were really spent. Refusals and errors
// are as for Acquire.
func (c *Client) Settle(ctx context.Context, grantID string, units int64) (Decision, error) {
	return c.decide(ctx, http.MethodPost, grantPath(grantID)+"/settle", SettleRequest{Units: &units})
}

// Release sets a grant to zero because its call was provably never sent.
// Refusals and errors are as for Acquire.
func (c *Client) Release(ctx context.Context, grantID string) (Decision, error) {
	return c.decide(ctx, http.MethodDelete, grantPath(grantID), nil)
}

// Status returns the quota part of the daemon's status; Get(ctx, "/v1/status",
// &v) reads the other parts too.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var s Status
	err := c.Get(ctx, "/v1/status", &s)
	return s, err
}

// Get reads a resource; path begins with '/', and its parts are escaped already.
// Errors are as for Do.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	return c.Do(ctx, http.MethodGet, path, nil, into)
}

// Do makes a request of any method with body as JSON, and decodes the answer
// into into; nil stands for no body, and for an answer that nobody wants. What
// the daemon refuses is a *Problem; the other errors are ErrUnreachable and the
// context's.
func (c *Client) Do(ctx context.Context, method, path string, body, into any) error {
	return c.fetch(ctx, request{method: method, path: path, body: body, once: method == http.MethodPost || method == http.MethodPatch}, into)
}

// GetLong reads a resource that a LongRead answers, once. Errors are as for Do.
func (c *Client) GetLong(ctx context.Context, path string, into any) error {
	return c.fetch(ctx, request{method: http.MethodGet, path: path, once: true, within: LongReadTimeout}, into)
}

func (c *Client) fetch(ctx context.Context, r request, into any) error {
	reply, err := c.exchange(ctx, r)
	if err != nil {
		return err
	}
	if reply.status/100 != 2 {
		return reply.problem()
	}
	if into == nil {
		return nil
	}
	return reply.decode(into)
}

// decide makes a request that is answered by a decision and may be repeated.
func (c *Client) decide(ctx context.Context, method, path string, body any) (Decision, error) {
	reply, err := c.exchange(ctx, request{method: method, path: path, body: body})
	if err != nil {
		return Decision{}, err
	}
	if reply.status != http.StatusOK {
		return reply.refusal()
	}
	var d Decision
	if err := reply.decode(&d); err != nil {
		return Decision{}, err
	}
	if !d.Granted {
		return Decision{}, fmt.Errorf("quotad answered 200 without granting: %.200q", reply.body)
	}
	return d, nil
}

func grantPath(id string) string { return "/v1/grants/" + url.PathEscape(id) }

// newRequestID returns 96 random bits: short, because the ledger keeps it.
func newRequestID() string {
	var id [12]byte
	rand.Read(id[:]) // never fails, and fills id
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// Credentials returns what is configured, with the state of the limits and what
// operations cost. Errors here and below are as for Do.
func (c *Client) Credentials(ctx context.Context) ([]Credential, error) {
	var list []Credential
	err := c.Get(ctx, "/v1/credentials", &list)
	return list, err
}

// Adjust books units that were spent elsewhere, or gives back what was not spent.
// It is not sent again when the answer is lost: that would book twice.
func (c *Client) Adjust(ctx context.Context, credential string, a Adjustment) (Adjusted, error) {
	var answer Adjusted
	err := c.Do(ctx, http.MethodPost, credentialPath(credential, "adjust", nil), a, &answer)
	return answer, err
}

// OnlyCredential names, in questions and adjustments, the credential that alone is
// configured. Where several are, it is a *Problem of reason quota.BadRequest.
const OnlyCredential = "-"

// Reset empties a credential's log, so that every limit starts from zero.
func (c *Client) Reset(ctx context.Context, credential, note string) (Credential, error) {
	var answer Credential
	err := c.Do(ctx, http.MethodPost, credentialPath(credential, "reset", nil), Reset{Confirm: credential, Note: note}, &answer)
	return answer, err
}

func credentialPath(credential, what string, values url.Values) string {
	path := "/v1/credentials/" + url.PathEscape(credential) + "/" + what
	if len(values) > 0 {
		path += "?" + values.Encode()
	}
	return path
}

// Reload has the daemon read its configuration again, and returns what has
// changed. A configuration that cannot take the place of the one in force is a
// *Problem of reason Conflict.
func (c *Client) Reload(ctx context.Context) (Reloaded, error) {
	var done Reloaded
	err := c.Do(ctx, http.MethodPost, "/v1/reload", nil, &done)
	return done, err
}

// A reply is an answer read to its end.
type reply struct {
	status  int
	version string // of the daemon; empty when it does not tell
	body    []byte
}

// ServerName is what stands before the version in the header Server.
const ServerName = "quotad/"

func (r reply) decode(into any) error {
	if err := json.Unmarshal(r.body, into); err != nil {
		return &unreadableError{version: r.version, err: fmt.Errorf("cannot read quotad's answer (%d, %.200q): %w", r.status, r.body, err)}
	}
	return nil
}

// problem returns the problem in an answer, or one made from its status alone
// when whoever answered does not speak ours.
func (r reply) problem() *Problem {
	var p Problem
	if json.Unmarshal(r.body, &p) != nil || p.Reason == "" {
		p = Problem{Detail: fmt.Sprintf("%.200q", r.body), Reason: answerOf(r.status).reason}
	}
	p.Status, p.version = r.status, r.version
	return &p
}

// An unreadableError says that an answer was not understood.
type unreadableError struct {
	version string // of the daemon that gave it
	err     error
}

func (e *unreadableError) Error() string { return e.err.Error() }
func (e *unreadableError) Unwrap() error { return e.err }

// DaemonVersion returns the version of the daemon whose answer led to an error of the
// client's; empty where none answered.
func DaemonVersion(err error) string {
	var p *Problem
	var unreadable *unreadableError
	switch {
	case errors.As(err, &p):
		return p.version
	case errors.As(err, &unreadable):
		return unreadable.version
	default:
		return ""
	}
}

// refusal returns the denial in an answer. Any other refusal is an error, beside
// the answer as it came.
func (r reply) refusal() (Decision, error) {
	var d Decision
	row := answer{}
	if json.Unmarshal(r.body, &d) == nil {
		row = answerFor(quota.Reason(d.Reason))
	}
	if !row.decision {
		return Decision{}, r.problem()
	}
	d.Granted, d.Status = false, r.status
	if !row.denial {
		return d, r.problem()
	}
	return d, nil
}
