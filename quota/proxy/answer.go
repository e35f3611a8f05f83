package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"quotad/quota/upstream"
)

// answered reads an answer before it is passed on: whether it was free, and what the
// upstream says of its quota. It overwrites the key, unpacks gzip that it did not ask for, and changes
// what would lead a client past the proxy; the rest is passed on as it is.
func (x *exchange) answered(res *http.Response) error {
	x.wrote() // even if the upstream did not wait for the end of the request
	x.mu.Lock()
	x.free = x.target.Billing.free(res.StatusCode)
	x.event.Status = res.StatusCode
	x.mu.Unlock()
	x.rewriteLocations(res.Header)
	x.key.redactHeader(res.Header)
	if x.target.Key != nil {
		x.target.Key.answered(string(x.key), res.StatusCode)
	}
	answer := upstream.Answer{Status: res.StatusCode, Header: res.Header.Clone()}
	var own []secret // of the client: it may get them back, but nothing that quotad writes holds them
	if res.StatusCode >= 400 {
		own = x.ownKeys()
	}
	for _, key := range own {
		key.redactHeader(answer.Header)
	}
	unreadable := x.openBody(res)
	if unreadable != nil || res.StatusCode < 400 || res.Body == http.NoBody {
		x.observe(answer)
		return unreadable
	}
	res.Body = &observedBody{ReadCloser: res.Body, left: res.ContentLength, observe: func(body []byte) {
		for _, key := range own {
			key.redact(body, true)
		}
		answer.Body = body
		x.observe(answer)
	}}
	return nil
}

// rewriteLocations has addresses of the upstream lead through the proxy.
func (x *exchange) rewriteLocations(h http.Header) {
	root := x.target.Upstream.Scheme + "://" + x.target.Upstream.Host + strings.TrimSuffix(x.target.Upstream.EscapedPath(), "/")
	for _, name := range []string{"Location", "Content-Location", "Link"} {
		for i, value := range h[name] {
			h[name][i] = strings.ReplaceAll(value, root+"/", x.through+"/")
		}
	}
}

// observeTime is how long observing an answer may delay it.
const observeTime = 2 * time.Second

// observe reports an answer to the observer before the client has all of it, so that the
// client's next request is decided by it.
func (x *exchange) observe(answer upstream.Answer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.ctx), observeTime)
	defer cancel()
	out, err := x.proxy.config.Observer.Observe(ctx, upstream.Observation{
		Credential: x.target.Credential, Operation: x.operation, Answer: answer, Caller: x.bearer.Caller,
	})
	switch {
	case err != nil:
		x.update(func(e *Finished) { e.ObserveErr = err })
	case out.Refused.Reason != "":
		x.update(func(e *Finished) { e.ObserveErr = errors.New(out.Refused.Detail) })
	default:
		out.Report(x.token, x.proxy.config.Tokens)
	}
}

// An unreadableError is why an answer is not passed on.
type unreadableError struct{ encoding string }

// Error implements error.
func (e *unreadableError) Error() string {
	return fmt.Sprintf("the upstream's answer is not passed on: it is encoded as %.40q, though identity was requested, and it cannot be searched for the key", e.encoding)
}

// openBody removes the key from the body of an answer, if it has one.
func (x *exchange) openBody(res *http.Response) error {
	if res.Body == http.NoBody {
		return nil
	}
	switch encoding := encodingOf(res.Header); {
	case encoding == "":
	case encoding == "gzip" && res.StatusCode != http.StatusPartialContent:
		res.Body = &gunzippedBody{ReadCloser: res.Body}
		res.ContentLength = -1
		res.Header.Del("Content-Encoding")
		res.Header.Del("Content-Length")
	case x.key != "":
		return &unreadableError{encoding}
	}
	x.key.redactHeader(res.Trailer)
	res.Body = &keylessBody{ReadCloser: res.Body, key: x.key, ended: func() { x.key.redactHeader(res.Trailer) }}
	return nil
}

// encodingOf returns how a body is encoded, by all fields that say so: "" of one that is not.
func encodingOf(h http.Header) string {
	all := strings.ToLower(strings.Join(h.Values("Content-Encoding"), ","))
	return strings.Trim(strings.ReplaceAll(all, "identity", ""), " ,")
}

// A gunzippedBody is the text of a body that the upstream compressed, though it was not asked
// to. It waits for the body when it is read, and not before.
type gunzippedBody struct {
	io.ReadCloser
	plain *gzip.Reader // nil: nothing was read
}

// Read implements io.Reader.
func (b *gunzippedBody) Read(p []byte) (n int, err error) {
	if b.plain == nil {
		if b.plain, err = gzip.NewReader(b.ReadCloser); err != nil {
			return 0, err
		}
	}
	return b.plain.Read(p)
}

// A keylessBody is the body of an answer, with the key overwritten. It is as long as before,
// and holds back no more than may be the beginning of a key.
type keylessBody struct {
	io.ReadCloser
	key   secret
	held  []byte // read, and not passed on yet
	ended func() // called when the trailer has come
}

// Read implements io.Reader. It needs room for all that is held back.
func (b *keylessBody) Read(p []byte) (int, error) {
	for len(p) > len(b.held) {
		n := copy(p, b.held)
		m, err := b.ReadCloser.Read(p[n:])
		text := p[:n+m]
		done := b.key.redact(text, err != nil)
		b.held = append(b.held[:0], text[done:]...)
		if err != nil {
			b.ended()
			return done, b.key.redactError(err)
		}
		if done > 0 {
			return done, nil
		}
	}
	return 0, io.ErrShortBuffer
}

// Close implements io.Closer.
func (b *keylessBody) Close() error {
	err := b.ReadCloser.Close()
	b.ended()
	return err
}

// An observedBody is the body of an error. Its beginning is observed before its last byte is
// passed on, or when it is closed.
type observedBody struct {
	io.ReadCloser
	left    int64 // until its end; below 0: not known
	begun   []byte
	observe func(body []byte) // nil: it was called
}

// Read implements io.Reader.
func (b *observedBody) Read(p []byte) (int, error) {
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
func (b *observedBody) Close() error {
	b.end()
	return b.ReadCloser.Close()
}

func (b *observedBody) end() {
	if b.observe != nil {
		text := bytes.ToValidUTF8(b.begun, []byte("?"))
		b.observe(text[:min(len(text), upstream.MaxBody)])
		b.observe = nil
	}
}
