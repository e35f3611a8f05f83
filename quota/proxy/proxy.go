package proxy

import (
	"cmp"
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/server"
	"quotad/quota/upstream"
)

// AddressEnv names, in the environment of a pass, where it calls the upstream through the
// proxy.
const AddressEnv = "QUOTAD_PROXY"

// Config is what a proxy is made of. Every field is needed, unless its comment says what
// its zero value means.
type Config struct {
	// Address is where the proxy is reached, as each request must name it: "127.0.0.1:9465".
	Address  string
	Service  *quota.Service
	Observer *upstream.Observer
	Tokens   server.Tokens

	// OnEvent is told of every acquire and release, Forbidden of every request that its
	// sender may not make, and Done of every request that was matched, when it is over. They
	// are called while a client waits, so they return soon. Nil: nobody is told.
	OnEvent   func(server.Event)
	Forbidden func(server.Attempt)
	Done      func(Exchange)

	// AnswerTime is how long an upstream may take until its header has come. 0: five minutes.
	AnswerTime time.Duration
	// Connections is how many may be open at once. 0: 4096.
	Connections int
	// ErrorLog is where net/http complains. Nil: where package log writes to.
	ErrorLog *log.Logger
}

// A Proxy passes requests of passes on to the upstreams of their credentials. It serves no
// credential before SetTargets.
type Proxy struct {
	address     string
	service     *quota.Service
	observer    *upstream.Observer
	tokens      server.Tokens
	observe     func(server.Event)
	forbidden   func(server.Attempt)
	done        func(Exchange)
	connections int // at most

	targets   atomic.Pointer[map[string]*Target]
	transport *http.Transport
	reverse   *httputil.ReverseProxy
	http      *http.Server
	answering sync.WaitGroup
	cut       context.CancelCauseFunc // ends the requests that are left
}

// errNotAgain ends a request that cannot be paid for once more, and errStopped one that
// outlasts the proxy.
var (
	errNotAgain = errors.New("the connection ended, and the call may not be sent again")
	errStopped  = errors.New("the proxy has stopped")
)

// New returns a proxy that is ready to Serve.
func New(c Config) *Proxy {
	p := &Proxy{
		address: c.Address, service: c.Service, observer: c.Observer, tokens: c.Tokens,
		observe: c.OnEvent, forbidden: c.Forbidden, done: c.Done, connections: cmp.Or(c.Connections, maxConnections),
	}
	if p.observe == nil {
		p.observe = func(server.Event) {}
	}
	if p.forbidden == nil {
		p.forbidden = func(server.Attempt) {}
	}
	if p.done == nil {
		p.done = func(Exchange) {}
	}
	p.SetTargets(nil)
	p.transport = newTransport(cmp.Or(c.AnswerTime, 5*time.Minute))
	p.reverse = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			x := exchangeOf(r.In)
			x.target.rewrite(r.Out, x.site, p.isToken)
		},
		Transport:      p.transport,
		FlushInterval:  -1,
		ErrorLog:       c.ErrorLog,
		BufferPool:     newBuffers(),
		ModifyResponse: func(res *http.Response) error { return exchangeOf(res.Request).answered(res) },
		ErrorHandler:   func(w http.ResponseWriter, r *http.Request, err error) { exchangeOf(r).fail(w, err) },
	}
	var ctx context.Context
	ctx, p.cut = context.WithCancelCause(context.Background())
	p.http = &http.Server{
		Handler:           p,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withConnection,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          c.ErrorLog,

		DisableGeneralOptionsHandler: true,
	}
	return p
}

// newTransport returns a transport that keeps connections, and passes answers on as they
// come. It follows no redirect.
func newTransport(answerTime time.Duration) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		Protocols:              protocols,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    64,
		IdleConnTimeout:        time.Minute,
		ExpectContinueTimeout:  time.Second,
		ResponseHeaderTimeout:  answerTime,
		MaxResponseHeaderBytes: maxAnswer,
	}
}

// SetTargets replaces where credentials' calls go to. Requests under way go on as they
// began.
func (p *Proxy) SetTargets(list []*Target) {
	targets := make(map[string]*Target, len(list))
	for _, t := range list {
		targets[t.Credential] = t
	}
	p.targets.Store(&targets)
}

// Target returns where a credential's calls go to; nil: nowhere.
func (p *Proxy) Target(credential string) *Target { return (*p.targets.Load())[credential] }

// Root is the address that those of all credentials begin with: "http://127.0.0.1:9465".
func (p *Proxy) Root() string { return "http://" + p.address }

// AddressFor returns the address by which the holder of a run token calls a credential's
// upstream, with a slash at its end; empty where that is not proxied.
func (p *Proxy) AddressFor(credential, token string) string {
	if p.Target(credential) == nil {
		return ""
	}
	return p.Root() + "/" + token + "/" + credential + "/"
}

// Serve answers the connections of a listener, which it closes in the end, until Shutdown.
func (p *Proxy) Serve(l net.Listener) error {
	if err := p.http.Serve(&boundedListener{Listener: l, most: p.connections}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown lets the requests under way come to their end, cuts those that outlast ctx, and
// returns when what they spent is settled.
func (p *Proxy) Shutdown(ctx context.Context) error {
	err := p.http.Shutdown(ctx)
	p.cut(errStopped)
	if err != nil {
		p.http.Close()
	}
	p.answering.Wait()
	p.transport.CloseIdleConnections()
	return err
}

// ServeHTTP answers one request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.answering.Add(1)
	defer p.answering.Done()
	connection := http.NewResponseController(w)
	w = &patientWriter{w, connection}
	if r.ContentLength != 0 {
		r.Body = &patientBody{r.Body, connection}
	}
	s, problem := p.locate(r)
	if problem != nil {
		p.turnAway(w, s, problem)
		return
	}
	operation, refused := s.operation()
	if !refused.Granted() {
		p.observe(server.Event{Verb: "acquire", Request: quota.Request{Credential: s.target.Credential, Count: 1, Caller: s.bearer.Caller}, Decision: refused})
		refusalOf(refused, false).write(w, s.target.Dialect)
		return
	}
	p.exchange(w, r, s, operation)
}

// turnAway answers a request that its sender may not make, or that is none.
func (p *Proxy) turnAway(w http.ResponseWriter, s *site, problem *api.Problem) {
	dialect, caller := Problem, quota.Caller{UID: -1}
	if s != nil {
		dialect, caller = s.target.Dialect, s.bearer.Caller
	}
	if problem.Reason == quota.Forbidden {
		p.forbidden(server.Attempt{Route: "proxy", Caller: caller, Detail: problem.Detail})
	}
	(&refusal{problem: problem}).write(w, dialect)
}

// exchange has a request that was matched paid for, sent and answered.
func (p *Proxy) exchange(w http.ResponseWriter, r *http.Request, s *site, operation string) {
	x := &exchange{site: s, proxy: p, operation: operation, began: time.Now()}
	x.event = Exchange{Credential: s.target.Credential, Operation: operation, Caller: s.bearer.Caller}
	x.ctx, x.cancel = context.WithCancelCause(context.WithValue(r.Context(), exchangeKey{}, x))
	defer x.cancel(nil)
	defer x.finish()
	if refused := x.acquire(x.ctx); refused != nil {
		x.refuse(w, refused)
		return
	}
	p.reverse.ServeHTTP(w, r.WithContext(x.trace(x.ctx)))
}

// refuse answers for the upstream.
func (x *exchange) refuse(w http.ResponseWriter, refused *refusal) {
	x.note(func(e *Exchange) { e.Refused = refused.problem.Reason })
	refused.write(w, x.target.Dialect)
}

// fail answers where no answer of the upstream came.
func (x *exchange) fail(w http.ResponseWriter, err error) {
	err = secret(x.target.Key).outOf(err)
	x.mu.Lock()
	refused := x.refused
	x.event.Err = err
	x.mu.Unlock()
	if refused != nil {
		x.refuse(w, refused)
		return
	}
	problem := api.NewProblem(api.UpstreamUnreachable, "the upstream gave no answer: %v", err)
	var timeout net.Error
	var unreadable *unreadableError
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		problem.WithStatus(http.StatusGatewayTimeout)
	case errors.As(err, &unreadable):
		problem.Detail = err.Error()
	}
	(&refusal{problem: problem}).write(w, x.target.Dialect)
}
