package proxy

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"

	"quotad/quota/upstream"
)

// An unreadableError is why an answer is not passed on.
type unreadableError struct{ encoding string }

// Error implements error.
func (e *unreadableError) Error() string {
	return fmt.Sprintf("the upstream's answer is not passed on: it is encoded as %.40q, though identity was requested, and it cannot be searched for the key", e.encoding)
}

// openBody has the body of an answer, if it has one, pass without the key.
func (x *exchange) openBody(res *http.Response) error {
	if res.Body == http.NoBody {
		return nil
	}
	switch encoding := strings.ToLower(cmp.Or(res.Header.Get("Content-Encoding"), "identity")); {
	case encoding == "identity":
	case encoding == "gzip" && res.StatusCode != http.StatusPartialContent:
		res.Body = &gunzippedBody{ReadCloser: res.Body}
		res.ContentLength = -1
		res.Header.Del("Content-Encoding")
		res.Header.Del("Content-Length")
	default:
		return &unreadableError{encoding}
	}
	key := secret(x.target.Key)
	key.hideIn(res.Trailer)
	res.Body = &keylessBody{ReadCloser: res.Body, key: key, ended: func() { key.hideIn(res.Trailer) }}
	return nil
}

// A gunzippedBody is what one holds that the upstream has compressed all the same. It
// waits for the body when it is read, and not before.
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

// A keylessBody is that of an answer as it passes, with the key overwritten. It is as long
// as before, and holds back no more than may be the beginning of a key.
type keylessBody struct {
	io.ReadCloser
	key   secret
	held  []byte // was read, and not passed on
	ended func() // is called when the trailer has come
}

// Read implements io.Reader. It needs room for all that is held back.
func (b *keylessBody) Read(p []byte) (int, error) {
	for len(p) > len(b.held) {
		n := copy(p, b.held)
		m, err := b.ReadCloser.Read(p[n:])
		text := p[:n+m]
		done := b.key.hide(text, err != nil)
		b.held = append(b.held[:0], text[done:]...)
		if err != nil {
			b.ended()
			return done, b.key.outOf(err)
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

// A heardBody is the body of an error as it passes. Its beginning is heard before its
// last byte is passed on, or when nobody reads on.
type heardBody struct {
	io.ReadCloser
	left  int64 // until its end; below 0: not known
	begun []byte
	hear  func(body []byte) // nil: it was
}

// Read implements io.Reader.
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
		text := bytes.ToValidUTF8(b.begun, []byte("?"))
		b.hear(text[:min(len(text), upstream.MaxBody)])
		b.hear = nil
	}
}
