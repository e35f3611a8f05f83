package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
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
	method, path string        // path begins with '/', and its parts are escaped already
	fields       any           // sent in the query of a GET or DELETE, else as JSON, url.Values as a form; nil: none
	once         bool          // it is not sent again if it may have arrived
	within       time.Duration // for one answer; 0: attemptTimeout

	query       string // fields as they are sent
	payload     []byte
	contentType string
}

// A reply is an answer, read to its end.
type reply struct {
	status  int
	version string // of the daemon; empty when not known
	body    []byte
}

// do makes a request and decodes its answer into into, unless that is nil.
func (c *Client) do(ctx context.Context, r request, into any) error {
	answer, err := c.exchange(ctx, r)
	if err != nil || into == nil {
		return err
	}
	if err := json.Unmarshal(answer.body, into); err != nil {
		return &unreadableError{version: answer.version, err: fmt.Errorf("cannot read quotad's answer (%d, %.200q): %w", answer.status, answer.body, err)}
	}
	return nil
}

// exchange sends a request and reads its answer. It sends it again if nothing
// can have arrived because the daemon is busy and, unless r.once, after a lost reply.
func (c *Client) exchange(ctx context.Context, r request) (reply, error) {
	c.once.Do(c.open)
	r.within = cmp.Or(r.within, attemptTimeout)
	end, limited := ctx.Deadline()
	if !limited {
		end = time.Now().Add(max(patience, r.within))
	}
	if err := r.encode(); err != nil {
		return reply{}, fmt.Errorf("cannot encode the fields of %s %s: %w", r.method, r.path, err)
	}
	for attempt := 1; ; {
		answer, err := c.attempt(ctx, r, min(r.within, time.Until(end)))
		if err == nil {
			return answer, answer.problem()
		}
		full := crowded(err) // a daemon listens: that is retried for the whole time
		retry := full || attempt < attempts && !r.once && lost(err)
		if !retry || !quota.Sleep(ctx, time.Duration(attempt)*retryDelay) || time.Now().After(end) {
			return reply{}, c.failure(ctx, err)
		}
		if full {
			continue
		}
		attempt++
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

// valuesOf returns the members of a struct, by the names and under the conditions of its JSON.
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
		list, isList := member.([]any)
		if !isList {
			list = []any{member}
		}
		for _, one := range list {
			values.Add(name, fmt.Sprint(one))
		}
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

// attempt sends a request once, and waits for its answer within a time.
func (c *Client) attempt(ctx context.Context, r request, within time.Duration) (reply, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(within, func() { cancel(errNoAnswer) })
	resp, err := c.send(ctx, r)
	defer cancel(nil)
	defer late.Stop()
	var answer reply
	if err == nil {
		defer resp.Body.Close()
		answer.status = resp.StatusCode
		answer.version, _ = strings.CutPrefix(resp.Header.Get("Server"), ServerName)
		answer.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	}
	if err != nil && context.Cause(ctx) == errNoAnswer {
		err = errNoAnswer
	}
	return answer, err
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

// ServerName precedes the version in the header Server.
const ServerName = "quotad/"

// problem returns the refusal in an answer; nil if it is none. If the answer is not a
// Problem, its status alone says why.
func (r reply) problem() error {
	if r.status/100 == 2 {
		return nil
	}
	var p Problem
	if json.Unmarshal(r.body, &p) != nil || p.Reason == "" {
		p = Problem{Detail: fmt.Sprintf("%.200q", r.body), Reason: answerOf(r.status).reason}
	}
	p.Status, p.answer = r.status, r
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

// An unreadableError says that an answer was not understood.
type unreadableError struct {
	version string // of the daemon that gave it
	err     error
}

func (e *unreadableError) Error() string { return e.err.Error() }
func (e *unreadableError) Unwrap() error { return e.err }

// DaemonVersion returns the version of the daemon whose answer led to a client's error; empty if none answered.
func DaemonVersion(err error) string {
	var p *Problem
	var unreadable *unreadableError
	switch {
	case errors.As(err, &p):
		return p.answer.version
	case errors.As(err, &unreadable):
		return unreadable.version
	default:
		return ""
	}
}
