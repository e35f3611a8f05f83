package proxy

import (
	"context"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"
	"time"

	"quotad/quota"
	"quotad/quota/server"
	"quotad/quota/upstream"
)

// AddressEnv names, in the environment of a pass, where it calls the upstream through the
// proxy.
const AddressEnv = "QUOTAD_PROXY"

// Config is what a proxy needs: every field, unless its comment says what its zero value
// means.
type Config struct {
	// Address is where the proxy is reached, as each request must name it: "127.0.0.1:9465".
	Address  string
	Service  *quota.Service
	Observer *upstream.Observer
	Tokens   server.Tokens

	// Emit is called with a server.Decided of every acquire and release, a server.Forbidden of every
	// request that its sender may not make, and a Finished of every request that was matched, when
	// it is over. A client waits meanwhile, so it should be quick.
	Emit func(event any)

	// ErrorLog is where net/http logs. Nil: where package log writes to.
	ErrorLog *log.Logger
}

// A Proxy passes requests of passes on to the upstreams of their credentials. It serves no
// credential before SetTargets.
type Proxy struct {
	config Config

	targets   atomic.Pointer[map[string]*Target]
	transport *http.Transport
	reverse   *httputil.ReverseProxy
	front     *server.Frontend
	answering sync.WaitGroup
	stops     atomic.Bool // a pass whose call is cut now was not refused
}

// New returns a proxy that is ready to Serve.
func New(c Config) *Proxy {
	p := &Proxy{config: c, transport: newTransport()}
	p.SetTargets(nil)
	p.reverse = &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { exchangeOf(r.In).rewrite(r.Out) },
		Transport:      p.transport,
		FlushInterval:  -1,
		ErrorLog:       c.ErrorLog,
		ModifyResponse: func(res *http.Response) error { return exchangeOf(res.Request).answered(res) },
		ErrorHandler:   func(w http.ResponseWriter, r *http.Request, err error) { exchangeOf(r).fail(w, err) },
	}
	p.front = server.NewFrontend(server.FrontendConfig{Handler: p, Endless: true, ErrorLog: c.ErrorLog})
	return p
}

// newTransport returns a transport that keeps connections open, and does not change answers.
// It follows no redirect.
func newTransport() *http.Transport {
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
		ResponseHeaderTimeout:  5 * time.Minute,
		MaxResponseHeaderBytes: 256 << 10,
	}
}

// SetTargets replaces where credentials' calls go to. Requests under way keep their target, whose key is asked for no
// more.
func (p *Proxy) SetTargets(list []*Target) {
	targets := make(map[string]*Target, len(list))
	for _, t := range list {
		targets[t.Credential] = t
	}
	if before := p.targets.Swap(&targets); before != nil {
		for _, t := range *before {
			if now := targets[t.Credential]; t.Key != nil && (now == nil || now.Key != t.Key) {
				t.Key.Close()
			}
		}
	}
}

// Target returns where a credential's calls go to; nil: it is not proxied.
func (p *Proxy) Target(credential string) *Target { return (*p.targets.Load())[credential] }

// Root begins the addresses of all credentials: "http://127.0.0.1:9465".
func (p *Proxy) Root() string { return "http://" + p.config.Address }

// AddressFor returns the address by which the pass of a run token calls a credential's
// upstream, with a slash at its end; empty where that is not proxied.
func (p *Proxy) AddressFor(credential, token string) string {
	if p.Target(credential) == nil {
		return ""
	}
	return p.Root() + "/" + token + "/" + credential + "/"
}

// Serve serves the connections of a listener, which it bounds and closes in the end, until Shutdown.
func (p *Proxy) Serve(l net.Listener) error { return p.front.Serve(l) }

// Shutdown waits for the requests under way, cuts those that outlast ctx, and
// returns when what they spent is settled.
func (p *Proxy) Shutdown(ctx context.Context) error {
	p.stops.Store(true)
	err := p.front.Shutdown(ctx)
	p.answering.Wait()
	p.SetTargets(nil)
	p.transport.CloseIdleConnections()
	return err
}

// ServeHTTP answers one request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.answering.Add(1)
	defer p.answering.Done()
	c, refused := p.locate(r)
	if !refused.Granted() {
		p.reject(w, c, refused)
		return
	}
	x := &exchange{call: c}
	x.serve(w, r)
}

// reject refuses a request that its sender may not make, that is malformed, or that no route matches.
func (p *Proxy) reject(w http.ResponseWriter, c *call, refused quota.Decision) {
	dialect, caller := Problem, c.bearer.Caller
	if c.target != nil {
		dialect = c.target.Refusals
	}
	if c.token != "" {
		p.config.Tokens.Refused(c.token, refused.Detail)
	} else {
		w.Header().Set("Connection", "close") // its place is for a pass
	}
	if c.token == "" || refused.Reason == quota.Forbidden {
		p.config.Emit(server.Forbidden{Route: "proxy", Caller: caller, Detail: refused.Detail})
	} else {
		r := quota.Request{Credential: c.bearer.Credential, Count: 1, Caller: caller}
		p.config.Emit(server.Decided{Verb: "acquire", Request: r, Decision: refused})
	}
	refusalOf(refused, c.bearer).write(w, dialect)
}
