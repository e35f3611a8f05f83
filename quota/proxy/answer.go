package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"quotad/quota/upstream"
)

// answered looks at an answer before it is passed on: whether it was free, and what the
// upstream says of its quota. It is passed on as it is, but for what would lead a client
// past the proxy or tell it the key.
func (x *exchange) answered(res *http.Response) error {
	x.wrote() // even if the upstream did not wait for the end of the request
	x.mu.Lock()
	x.free = x.target.Billing.free(res.StatusCode)
	x.event.Status = res.StatusCode
	x.mu.Unlock()
	x.keepInside(res.Header)
	answer := upstream.Answer{Status: res.StatusCode, Header: res.Header.Clone()}
	if res.StatusCode < 400 || res.ContentLength == 0 || res.Request.Method == http.MethodHead {
		x.hear(answer)
		return nil
	}
	compressed := res.Header.Get("Content-Encoding")
	res.Body = &heardBody{ReadCloser: res.Body, left: res.ContentLength, hear: func(body []byte) {
		answer.Body = plain(body, compressed)
		x.hear(answer)
	}}
	return nil
}

// keepInside has addresses of the upstream lead through the proxy, and holds back a field
// that repeats the key.
func (x *exchange) keepInside(h http.Header) {
	root := x.target.Upstream.Scheme + "://" + x.target.Upstream.Host + strings.TrimSuffix(x.target.Upstream.EscapedPath(), "/")
	for _, name := range []string{"Location", "Content-Location", "Link"} {
		for i, value := range h[name] {
			h[name][i] = strings.ReplaceAll(value, root+"/", x.through+"/")
		}
	}
	for name, values := range h {
		for _, value := range values {
			if strings.Contains(value, x.target.Key) {
				h.Del(name)
			}
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
	case out.Limit != "":
		x.proxy.tokens.Observed(x.token, out.Limit, out.Closed.Until)
	}
}

// errUnheard is why an answer says nothing that could be taken in.
type errUnheard string

func (e errUnheard) Error() string { return string(e) }

// A heardBody is the body of an error as it passes. Its beginning is heard before its
// last byte is passed on, or when nobody reads on.
type heardBody struct {
	io.ReadCloser
	left  int64 // until its end; below 0: not known
	begun []byte
	hear  func(body []byte) // nil: it was
}

func (b *heardBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.begun = append(b.begun, p[:min(n, upstream.MaxBody-len(b.begun))]...)
	if b.left > 0 {
		b.left -= int64(n)
	}
	if err != nil || b.left == 0 || len(b.begun) == upstream.MaxBody {
		b.end()
	}
	return n, err
}

// Close implements io.Closer.
func (b *heardBody) Close() error {
	b.end()
	return b.ReadCloser.Close()
}

func (b *heardBody) end() {
	if b.hear != nil {
		b.hear(b.begun)
		b.hear = nil
	}
}

// plain returns the text of a body, as much of it as can be read; nothing of one that is
// compressed in another way than we asked for.
func plain(body []byte, encoding string) []byte {
	switch encoding {
	case "", "identity":
	case "gzip":
		reader, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil
		}
		body, _ = io.ReadAll(io.LimitReader(reader, upstream.MaxBody)) // what was cut off ends early
	default:
		return nil
	}
	body = bytes.ToValidUTF8(body, []byte("?"))
	return body[:min(len(body), upstream.MaxBody)]
}
