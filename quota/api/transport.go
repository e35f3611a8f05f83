package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"quotad/quota"
)

// ErrUnreachable says that no daemon answered: none listens, this user may not
// connect, or it went away. Hint returns the cure.
var ErrUnreachable = errors.New("quotad cannot be reached")

const (
	attempts       = 3
	attemptTimeout = 5 * time.Second // for one answer
	patience       = 5 * time.Second // for all attempts, when the context sets no deadline
	retryDelay     = 50 * time.Millisecond

	// clientIdle is shorter than the daemon's, so that a request is rarely sent into a connection that is being closed.
	clientIdle = IdleTimeout - time.Second
	maxAnswer  = 64 << 20
)

// The daemon's own time limits that a client needs to know.
const (
	IdleTimeout    = 5 * time.Second  // between two requests of a connection, which it then closes
	CommandTimeout = 45 * time.Second // for the answer of a route that runs a command
)

// A request is one that a client makes.
type request struct {
	method, path string // path begins with '/', and its parts are escaped already
	fields       any    // sent in the query of a GET or DELETE, else as JSON, url.Values as a form; nil: none
	once         bool   // it is not sent again if it may have arrived

	query       string // fields as they are sent
	payload     []byte
	contentType string
}

// do makes a request and decodes its answer into into, unless that is nil.
func (c *Client) do(ctx context.Context, r request, into any) error {
	body, err := c.exchange(ctx, r)
	if err != nil || into == nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("cannot read quotad's answer %.200q: %w", body, err)
	}
	return nil
}

// exchange sends a request and returns the body of its answer. It sends it again if nothing
// can have arrived because the daemon is busy and, unless r.once, after a lost reply.
func (c *Client) exchange(ctx context.Context, r request) ([]byte, error) {
	c.once.Do(c.open)
	end, limited := ctx.Deadline()
	if !limited {
		end = time.Now().Add(patience)
	}
	if err := r.encode(); err != nil {
		return nil, fmt.Errorf("cannot encode the fields of %s %s: %w", r.method, r.path, err)
	}
	for attempt := 1; ; {
		within := time.Until(end)
		if !r.once {
			within = min(within, attemptTimeout)
		}
		status, body, err := c.attempt(ctx, r, within)
		if err == nil {
			return body, problemIn(status, body)
		}
		full := crowded(err) // a daemon listens: that is retried for the whole time
		retry := full || attempt < attempts && !r.once && lost(err)
		if !retry || !quota.Sleep(ctx, time.Duration(attempt)*retryDelay) || time.Now().After(end) {
			return nil, c.failure(ctx, err)
		}
		if !full {
			attempt++
		}
	}
}

// encode writes the fields as they are sent.
func (r *request) encode() (err error) {
	switch values, isForm := r.fields.(url.Values); {
	case r.fields == nil:
	case r.method == http.MethodGet || r.method == http.MethodDelete:
		if !isForm {
			values, err = valuesOf(r.fields)
		}
		r.query = "?" + values.Encode()
	case isForm:
		r.payload, r.contentType = []byte(values.Encode()), "application/x-www-form-urlencoded"
	default:
		r.contentType = "application/json"
		r.payload, err = json.Marshal(r.fields)
	}
	return err
}

// valuesOf returns the members of a flat struct, by the names and under the conditions of its JSON.
func valuesOf(fields any) (url.Values, error) {
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	var members map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&members); err != nil {
		return nil, err
	}
	values := url.Values{}
	for name, member := range members {
		values.Set(name, fmt.Sprint(member))
	}
	return values, nil
}

var errNoAnswer = fmt.Errorf("no answer: %w", context.DeadlineExceeded)

func (c *Client) open() {
	c.socket = FindSocket(c.Socket)
	c.transport = &http.Transport{
		// No Proxy: http_proxy in a job's environment is not meant for a socket.
		DialContext:         c.dial,
		DisableCompression:  true,
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     clientIdle,
	}
}

func (c *Client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := CheckSocketPath(c.socket); err != nil {
		return nil, &net.OpError{Op: "dial", Net: "unix", Err: err}
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", c.socket)
}

// attempt sends a request once, and reads its answer within a time.
func (c *Client) attempt(ctx context.Context, r request, within time.Duration) (status int, body []byte, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(within, func() { cancel(errNoAnswer) }).Stop()
	resp, err := c.send(ctx, r)
	if err == nil {
		defer resp.Body.Close()
		status = resp.StatusCode
		body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	}
	if err != nil && context.Cause(ctx) == errNoAnswer {
		err = errNoAnswer
	}
	return status, body, err
}

func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, "http://quotad"+r.path+r.query, bytes.NewReader(r.payload))
	if err != nil {
		return nil, err
	}
	if len(r.payload) > 0 {
		req.Header.Set("Content-Type", r.contentType)
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	return c.transport.RoundTrip(req)
}

// problemIn returns the refusal in an answer; nil if it is none. If the answer is not a
// Problem, its status alone says why.
func problemIn(status int, body []byte) error {
	if status/100 == 2 {
		return nil
	}
	var p Problem
	if json.Unmarshal(body, &p) != nil || p.Reason == "" {
		p = Problem{Detail: fmt.Sprintf("%.200q", body), Reason: answerOf(status).reason}
	}
	p.Status, p.body = status, body
	return &p
}

// lost reports whether the request may have arrived although no answer did.
func lost(err error) bool {
	var op *net.OpError
	return !errors.As(err, &op) || op.Op != "dial"
}

// crowded reports whether the socket's backlog was full: a daemon listens.
func crowded(err error) bool { return errors.Is(err, syscall.EAGAIN) && !lost(err) }

// failure returns the error of an exchange: the context's own if the caller
// cancelled it, else that the daemon cannot be reached.
func (c *Client) failure(ctx context.Context, err error) error {
	if ctx.Err() == context.Canceled {
		return fmt.Errorf("gave up on quotad at %q: %w", c.socket, context.Cause(ctx))
	}
	return &unreachableError{socket: c.socket, err: err}
}

type unreachableError struct {
	socket string
	err    error
}

func (e *unreachableError) Error() string {
	if lost(e.err) {
		return fmt.Sprintf("quotad at %q did not answer: %v", e.socket, cause(e.err))
	}
	return fmt.Sprintf("cannot reach quotad at %q: %v", e.socket, cause(e.err))
}

// Is makes errors.Is find ErrUnreachable and, if the request may have arrived, quota.ErrOutcomeUnknown.
func (e *unreachableError) Is(target error) bool {
	return target == ErrUnreachable || target == quota.ErrOutcomeUnknown && lost(e.err)
}

func (e *unreachableError) Unwrap() error { return e.err }

// cause says what the system said, without the layers that repeat the address.
func cause(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	var no syscall.Errno
	switch {
	case errors.As(err, &no):
		return no.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "it takes too long"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection broke"
	}
	return err.Error()
}

// Hint returns the cure of a client's error, or "" if none is known.
func Hint(err error) string {
	var p *Problem
	if errors.As(err, &p) {
		return p.Hint
	}
	var e *unreachableError
	switch {
	case !errors.As(err, &e):
		return ""
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("join the group that may use %s (ls -l shows it), or ask an operator", e.socket)
	case crowded(e.err):
		return "quotad accepts no more connections: journalctl -u quotad -n 5"
	case lost(e.err):
		return "quotad does not answer; it may be starting, or fail to: journalctl -u quotad -n 5"
	default:
		return startHint(e.socket)
	}
}
