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
	"strings"
	"syscall"
	"time"

	"quotad/quota"
)

// ErrUnreachable says that no daemon answered: none listens, this user may not
// connect, or it went away. Hint tells the cure.
var ErrUnreachable = errors.New("quotad cannot be reached")

const (
	attempts       = 3
	attemptTimeout = 5 * time.Second  // for one answer
	patience       = 10 * time.Second // for all attempts, when the context sets no deadline
	retryDelay     = 50 * time.Millisecond

	// Shorter than the daemon's, so that a request is rarely sent into a
	// connection that is being closed.
	clientIdle = IdleTimeout - time.Second
	maxAnswer  = 64 << 20
)

// How long the daemon waits and works, as far as a client needs to know.
const (
	IdleTimeout     = 5 * time.Second  // between two requests of a connection, which it closes then
	LongReadTimeout = 45 * time.Second // for the answer of a route that may read a whole log
)

// A request is one that a client makes.
type request struct {
	method, path string        // path begins with '/', and its parts are escaped already
	body         any           // sent as JSON; nil: none
	once         bool          // it is not sent again once it may have arrived
	within       time.Duration // for one answer; 0: attemptTimeout
}

// exchange sends a request and reads its answer. It sends it again when nothing
// can have arrived and, unless it is sent once, after a lost reply.
func (c *Client) exchange(ctx context.Context, r request) (reply, error) {
	c.once.Do(c.open)
	payload, err := encodeBody(r.body)
	if err != nil {
		return reply{}, fmt.Errorf("cannot encode the body of %s %s: %w", r.method, r.path, err)
	}
	r.within = cmp.Or(r.within, attemptTimeout)
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, max(patience, r.within), errNoAnswer)
		defer cancel()
	}
	for attempt := 1; ; {
		answer, err := c.roundTrip(ctx, r, payload)
		if err == nil {
			return answer, nil
		}
		full := crowded(err) // somebody listens: that is tried for the whole time
		if !full && (attempt == attempts || r.once || !lost(err)) || !pause(ctx, time.Duration(attempt)*retryDelay) || ctx.Err() != nil {
			return reply{}, c.failure(ctx, err)
		}
		if full {
			continue
		}
		attempt++
		if again, ok := r.body.(AcquireRequest); ok && again.Fresh {
			again.Fresh = false // from now on it may have been granted
			if payload, err = encodeBody(again); err != nil {
				return reply{}, err
			}
		}
	}
}

// encodeBody returns a body as JSON; nil stands for none.
func encodeBody(body any) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	return json.Marshal(body)
}

var (
	errNoAnswer = errors.New("no answer")
	errLate     = errors.New("it takes too long")
	errBroken   = errors.New("the connection broke")
)

func (c *Client) open() {
	c.socket = c.Socket
	if c.socket == "" {
		c.socket = FindSocket("")
	}
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

// roundTrip sends a request once and reads its answer, within its time.
func (c *Client) roundTrip(ctx context.Context, r request, payload []byte) (reply, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.within, errNoAnswer)
	defer cancel()
	resp, err := c.send(ctx, r.method, r.path, payload)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	return readReply(resp)
}

// send sends a request once and returns its answer, whose body is yet to be read.
func (c *Client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://quotad"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	return c.transport.RoundTrip(req)
}

func readReply(resp *http.Response) (reply, error) {
	read, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return reply{}, err
	}
	version, _ := strings.CutPrefix(resp.Header.Get("Server"), ServerName)
	return reply{status: resp.StatusCode, version: version, body: read}, nil
}

// lost tells whether the request may have arrived although no answer did.
func lost(err error) bool {
	var op *net.OpError
	return !errors.As(err, &op) || op.Op != "dial"
}

// crowded tells whether the socket's backlog was full: somebody listens.
func crowded(err error) bool { return errors.Is(err, syscall.EAGAIN) && !lost(err) }

// pause waits and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// failure returns the error of an exchange: the context's own where the caller
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
		return fmt.Sprintf("quotad at %q did not answer: %v", e.socket, root(e.err))
	}
	return fmt.Sprintf("cannot reach quotad at %q: %v", e.socket, root(e.err))
}

// Is tells that nobody answered and, where the request may have arrived, that
// nobody knows what came of it.
func (e *unreachableError) Is(target error) bool {
	return target == ErrUnreachable || target == quota.ErrOutcomeUnknown && lost(e.err)
}

func (e *unreachableError) Unwrap() error { return e.err }

// root returns what the system said, without the layers that repeat the address.
func root(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	var no syscall.Errno
	if errors.As(err, &no) {
		return no
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, errNoAnswer):
		return errLate
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errBroken
	}
	return err
}

// Hint returns the cure of an error of the client's, or "" where none is known.
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
		return "quotad takes no more connections: its log tells more"
	case lost(e.err):
		return "quotad was reached but did not answer: its log tells more"
	default:
		return startHint(e.socket)
	}
}
