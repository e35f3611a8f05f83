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
	// Silent says that the upstream gave no answer, and why, or one of its own trouble (5xx); empty: it gave another
	// one, or was not asked for all of it.
	Silent string
	Sent   int // how often the request was written to the upstream: more than once where a connection had ended
	// ObserveErr is why the answer could not be observed; nil: it was.
	ObserveErr error
	Took       time.Duration
}

// An exchange is a call that is being sent, and its answer.
type exchange struct {
	*call
	key    string         // that is sent; empty: the client's own is
	header http.Header    // of the client
	grant  quota.Decision // of the units of one sending
	free   bool           // the upstream does not charge for its answer
	event  Finished
	ctx    context.Context

	mu      sync.Mutex // guards what follows: the transport calls from goroutines of its own
	sent    int        // how often the request was written
	writing bool       // the transport got a connection, and may be writing to it
}

// serve acquires units for a request, sends it and passes its answer on.
func (x *exchange) serve(w http.ResponseWriter, r *http.Request) {
	x.event = Finished{Credential: x.target.Credential, Operation: x.operation, Caller: x.bearer.Caller}
	x.ctx, x.header = context.WithValue(r.Context(), exchangeKey{}, x), r.Header
	defer x.finish(time.Now())
	refused := x.unlock()
	if refused == nil {
		refused = x.acquire()
	}
	if refused != nil {
		x.event.Refused = refused.problem.Reason
		refused.write(w, x.target.Refusals)
		return
	}
	x.proxy.reverse.ServeHTTP(w, r.WithContext(httptrace.WithClientTrace(x.ctx, &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { x.gotConn() },
		WroteRequest: func(httptrace.WroteRequestInfo) { x.wrote() },
	})))
}

// fail answers where the upstream did not.
func (x *exchange) fail(w http.ResponseWriter, err error) {
	err = x.withoutKey(err)
	x.event.Err = err
	problem := api.NewProblem(api.UpstreamUnreachable, "no answer from %s: %s", x.target.Upstream.Host, causeOf(err))
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		problem.WithStatus(http.StatusGatewayTimeout)
	}
	if !errors.Is(err, context.Canceled) {
		x.event.Silent = problem.Detail
	}
	if !x.proxy.stops.Load() {
		x.proxy.config.Tokens.Refused(x.token, problem.Detail)
	}
	(&refusal{problem: problem}).write(w, x.target.Refusals)
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
	if x.key = key; err == nil {
		return nil
	}
	problem := api.NewProblem(api.UpstreamUnreachable, "there is no key of credential %q: %v", x.target.Credential, err).WithStatus(http.StatusServiceUnavailable)
	x.proxy.config.Tokens.Refused(x.token, problem.Detail)
	return &refusal{problem: problem}
}

// settleTime is how long a release may take, even if the client has left.
const settleTime = 5 * time.Second

// acquire asks for the units of one sending.
func (x *exchange) acquire() *refusal {
	start := time.Now()
	request := quota.Request{
		Credential: x.target.Credential, Operation: x.operation, Count: 1,
		UseReserve: x.bearer.UseReserve, Proxied: true, Caller: x.bearer.Caller,
	}
	d, err := server.AcquireByToken(x.ctx, x.proxy.config.Service, x.proxy.config.Tokens, x.token, request)
	x.proxy.config.Emit(server.Decided{Verb: "acquire", Request: request, Decision: d, Err: err, Took: time.Since(start)})
	switch {
	case err != nil:
		return &refusal{problem: api.ProblemFrom(err)}
	case !d.Granted():
		return refusalOf(d, x.bearer)
	}
	x.grant = d
	return nil
}

// wrote records that the request, or a part of it, may have reached the upstream.
func (x *exchange) wrote() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.writing {
		x.sent, x.writing = x.sent+1, false
	}
}

// gotConn is called before the request is written to a connection: the transport sends a request again where the
// connection has ended meanwhile, and the upstream may have counted what was written there.
func (x *exchange) gotConn() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.writing = true
}

// finish settles the grant to what was sent, less what was free. The transport may still write to a connection that it
// got.
func (x *exchange) finish(began time.Time) {
	x.mu.Lock()
	charged := x.sent
	x.event.Sent, x.event.Took = x.sent, time.Since(began)
	if x.writing {
		charged++
	}
	x.mu.Unlock()
	if x.free {
		charged--
	}
	if charged != 1 && x.grant.GrantID != "" {
		x.settle(max(0, charged))
	}
	x.proxy.config.Emit(x.event)
}

// settle counts a number of sendings in place of one. A grant that cannot be released stays debited, which is the safe
// side. In a limit where the operation costs less than in others, a settlement adds nothing: there the rest is booked.
func (x *exchange) settle(sendings int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.ctx), settleTime)
	defer cancel()
	start, service, verb := time.Now(), x.proxy.config.Service, "settle"
	if sendings == 0 {
		verb = "release"
	}
	units := x.grant.Units * quota.Units(sendings)
	d, err := service.Settle(ctx, x.grant.GrantID, quota.Settlement{Units: units, Caller: x.bearer.Caller})
	if err == nil && d.Granted() {
		x.proxy.config.Tokens.Settled(x.token, x.grant.GrantID, units, nil)
	}
	credential, _ := service.Credential(x.target.Credential)
	for _, l := range x.grant.Limits {
		cost := credential.Operations[x.operation].In(l.Limit, x.operation)
		if err == nil && sendings > 1 && cost < x.grant.Units {
			more := quota.Booking{Limit: l.Name, Units: cost * quota.Units(sendings-1), Caller: x.bearer.Caller, Note: "sent again"}
			_, err = service.Book(ctx, credential.Name, more)
		}
	}
	x.proxy.config.Emit(server.Decided{
		Verb: verb, Request: quota.Request{Credential: x.target.Credential, Caller: x.bearer.Caller},
		GrantID: x.grant.GrantID, Decision: d, Err: err, Took: time.Since(start),
	})
}

type exchangeKey struct{}

func exchangeOf(r *http.Request) *exchange { return r.Context().Value(exchangeKey{}).(*exchange) }
