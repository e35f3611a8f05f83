package proxy

import (
	"context"
	"net/http"
	"strings"
	"time"

	"quotad/quota/upstream"
)

// answered looks at an answer before it is passed on: whether it was free, and what the
// upstream says of its quota. It is passed on as it is, but for the key, and for what would
// lead a client past the proxy.
func (x *exchange) answered(res *http.Response) error {
	x.wrote() // even if the upstream did not wait for the end of the request
	x.mu.Lock()
	x.free = x.target.Billing.free(res.StatusCode)
	x.event.Status = res.StatusCode
	x.mu.Unlock()
	x.keepInside(res.Header)
	secret(x.target.Key).hideIn(res.Header)
	answer := upstream.Answer{Status: res.StatusCode, Header: res.Header.Clone()}
	unreadable := x.openBody(res)
	if unreadable != nil || res.StatusCode < 400 || res.Body == http.NoBody {
		x.hear(answer)
		return unreadable
	}
	res.Body = &heardBody{ReadCloser: res.Body, left: res.ContentLength, hear: func(body []byte) {
		answer.Body = body
		x.hear(answer)
	}}
	return nil
}

// keepInside has addresses of the upstream lead through the proxy.
func (x *exchange) keepInside(h http.Header) {
	root := x.target.Upstream.Scheme + "://" + x.target.Upstream.Host + strings.TrimSuffix(x.target.Upstream.EscapedPath(), "/")
	for _, name := range []string{"Location", "Content-Location", "Link"} {
		for i, value := range h[name] {
			h[name][i] = strings.ReplaceAll(value, root+"/", x.through+"/")
		}
	}
}

// hearTime is how long taking in an answer may keep it from the client.
const hearTime = 2 * time.Second

// hear takes in what the upstream answered, before the client can know all of it: what it
// asks next is decided by that.
func (x *exchange) hear(answer upstream.Answer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.ctx), hearTime)
	defer cancel()
	out, err := x.proxy.observer.Observe(ctx, upstream.Observation{
		Credential: x.target.Credential, Operation: x.operation, Answer: answer, Caller: x.bearer.Caller,
	})
	switch {
	case err != nil:
		x.note(func(e *Exchange) { e.Unheard = err })
	case out.Refused.Reason != "":
		x.note(func(e *Exchange) { e.Unheard = errUnheard(out.Refused.Detail) })
	default:
		out.Tell(x.token, x.proxy.tokens)
	}
}

// errUnheard is why an answer says nothing that could be taken in.
type errUnheard string

func (e errUnheard) Error() string { return string(e) }
