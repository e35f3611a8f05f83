package upstream

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

var (
	_ http.Handler      = (*Upstream)(nil)
	_ http.RoundTripper = (*Upstream)(nil)
)

// RoundTrip answers a request without a network, for an http.Client with an upstream as its
// transport. It fails only if the request's context has ended, and then charges nothing.
func (u *Upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	answer := &recorder{header: make(http.Header), status: http.StatusOK}
	u.ServeHTTP(answer, r)
	return &http.Response{
		Status:     fmt.Sprintf("%d %s", answer.status, http.StatusText(answer.status)),
		StatusCode: answer.status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        answer.header,
		Body:          io.NopCloser(&answer.body),
		ContentLength: int64(answer.body.Len()),
		Request:       r,
	}, nil
}

// A recorder keeps what a handler writes.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }
