package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"syscall"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/server"
)

// A Finished is the outcome of a request that was matched.
type Finished struct {
	Credential, Operation string
	Caller                quota.Caller
	// Status is the upstream's answer; 0: there was none, and Err or Refused says why.
	Status  int
	Refused quota.Reason
	Err     error
	// Silent says that the upstream gave no answer, and why; empty: it did, or was not asked for all of it.
	Silent string
	Sent   int // how often the request was written to the upstream: more than once where a connection had ended
	// ObserveErr is why the answer could not be observed; nil: it was.
	ObserveErr error
	Took       time.Duration
}

// An exchange is a call that is being sent, and its answer.
type exchange struct {
	*call
	operation string
	key       secret          // that is sent; empty: the client's own is
	header    http.Header     // of the client
	ctx       context.Context // ends when the client leaves, or by cancel
	cancel    context.CancelCauseFunc

	mu      sync.Mutex // guards what follows: the transport calls from goroutines of its own
	grants  []quota.Decision
	sent    int      // how often the request was written
	written bool     // on the connection that the transport got last
	got     bool     // the transport got a connection, and may be writing to it
	refused *refusal // of sending it again
	free    bool     // the upstream does not charge for its answer
	event   Finished
}

// serve acquires units for a request, sends it and passes its answer on.
func (x *exchange) serve(w http.ResponseWriter, r *http.Request) {
	x.event = Finished{Credential: x.target.Credential, Operation: x.operation, Caller: x.bearer.Caller}
	x.header = r.Header
	x.ctx, x.cancel = context.WithCancelCause(context.WithValue(r.Context(), exchangeKey{}, x))
	defer x.cancel(nil)
	defer x.finish(time.Now())
	refused := x.unlock()
	if refused == nil {
		refused = x.acquire(x.ctx)
	}
	if refused != nil {
		x.refuse(w, refused)
		return
	}
	x.proxy.reverse.ServeHTTP(w, r.WithContext(httptrace.WithClientTrace(x.ctx, &httptrace.ClientTrace{
		GotConn:      x.gotConn,
		WroteRequest: func(httptrace.WroteRequestInfo) { x.wrote() },
	})))
}

// refuse answers for the upstream.
func (x *exchange) refuse(w http.ResponseWriter, refused *refusal) {
	x.update(func(e *Finished) { e.Refused = refused.problem.Reason })
	refused.write(w, x.target.Dialect)
}

// fail answers where the upstream did not.
func (x *exchange) fail(w http.ResponseWriter, err error) {
	for _, key := range append(x.ownKeys(), x.key) {
		err = key.redactError(err)
	}
	x.mu.Lock()
	refused := x.refused
	x.event.Err = err
	x.mu.Unlock()
	if refused != nil {
		x.refuse(w, refused)
		return
	}
	problem := api.NewProblem(api.UpstreamUnreachable, "no answer from %s: %s", x.target.Upstream.Host, causeOf(err))
	var timeout net.Error
	var unreadable *unreadableError
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		problem.WithStatus(http.StatusGatewayTimeout)
	case errors.As(err, &unreadable):
		problem.Detail = err.Error()
	}
	if !errors.Is(err, context.Canceled) && !errors.As(err, &unreadable) {
		x.update(func(e *Finished) { e.Silent = problem.Detail })
	}
	if !errors.Is(context.Cause(x.ctx), errStopped) {
		x.proxy.config.Tokens.Refused(x.token, problem.Detail)
	}
	(&refusal{problem: problem}).write(w, x.target.Dialect)
}

// causeOf returns what an error of the transport says, without what it was doing to whom.
func causeOf(err error) string {
	var name *net.DNSError
	var number syscall.Errno
	switch {
	case errors.Is(err, context.Canceled):
		return "the client left before"
	case errors.As(err, &name):
		return name.Err
	case errors.As(err, &number):
		return number.Error()
	case errors.Is(err, io.EOF):
		return "it closed the connection"
	}
	return err.Error()
}

// unlock gets the key of the upstream.
func (x *exchange) unlock() *refusal {
	if x.target.Key == nil {
		return nil
	}
	key, err := x.target.Key.get(x.ctx)
	if x.key = secret(key); err == nil {
		return nil
	}
	problem := api.NewProblem(api.UpstreamUnreachable, "there is no key of credential %q: %v", x.target.Credential, err).WithStatus(http.StatusServiceUnavailable)
	x.proxy.config.Tokens.Refused(x.token, problem.Detail)
	return &refusal{problem: problem}
}

// settleTime is how long a release may take, even if the client has left.
const settleTime = 5 * time.Second

// acquire asks for the units of one sending.
func (x *exchange) acquire(ctx context.Context) *refusal {
	start := time.Now()
	request := quota.Request{
		Credential: x.target.Credential, Operation: x.operation, Count: 1,
		UseReserve: x.bearer.UseReserve, Proxied: true, Caller: x.bearer.Caller,
	}
	d, err := server.AcquireByToken(ctx, x.proxy.config.Service, x.proxy.config.Tokens, x.token, request)
	x.proxy.config.Emit(server.Decided{Verb: "acquire", Request: request, Decision: d, Err: err, Took: time.Since(start)})
	switch {
	case err != nil:
		return &refusal{problem: api.ProblemFrom(err)}
	case !d.Granted():
		return refusalOf(d, x.bearer)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.grants = append(x.grants, d)
	return nil
}

// wrote records that the request, or a part of it, may have reached the upstream.
func (x *exchange) wrote() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.written {
		x.sent++
		x.written, x.got = true, false
	}
}

// gotConn is called before the request is written to a connection. It has units acquired before each
// sending: the transport sends a request again where the connection has ended meanwhile, and the upstream
// may have counted what was written there.
func (x *exchange) gotConn(info httptrace.GotConnInfo) {
	x.mu.Lock()
	again := x.written
	x.written, x.got = false, true
	x.mu.Unlock()
	if !again {
		return
	}
	if refused := x.acquire(x.ctx); refused != nil {
		x.mu.Lock()
		x.refused = refused
		x.mu.Unlock()
		x.cancel(errNotAgain)
		info.Conn.Close() // nothing more is written
	}
}

// finish releases the grants for which nothing was sent, or for which the upstream does not
// charge. The transport may still write to a connection that it got.
func (x *exchange) finish(began time.Time) {
	x.mu.Lock()
	charged := x.sent
	if x.got {
		charged++
	}
	if x.free {
		charged--
	}
	unspent := x.grants[min(len(x.grants), max(0, charged)):]
	x.event.Sent, x.event.Took = x.sent, time.Since(began)
	event := x.event
	x.mu.Unlock()
	for _, grant := range unspent {
		if grant.GrantID != "" {
			x.release(grant.GrantID)
		}
	}
	x.proxy.config.Emit(event)
}

// release releases a grant. One that cannot be released stays debited, which is the safe
// side.
func (x *exchange) release(grantID string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.ctx), settleTime)
	defer cancel()
	start := time.Now()
	d, err := x.proxy.config.Service.Settle(ctx, grantID, quota.Settlement{Caller: x.bearer.Caller})
	if err == nil && d.Granted() {
		x.proxy.config.Tokens.Settled(x.token, grantID, 0, nil)
	}
	x.proxy.config.Emit(server.Decided{
		Verb: "release", Request: quota.Request{Credential: x.target.Credential, Caller: x.bearer.Caller},
		GrantID: grantID, Decision: d, Err: err, Took: time.Since(start),
	})
}

// update changes what is reported of the exchange.
func (x *exchange) update(change func(*Finished)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	change(&x.event)
}

type exchangeKey struct{}

func exchangeOf(r *http.Request) *exchange { return r.Context().Value(exchangeKey{}).(*exchange) }
