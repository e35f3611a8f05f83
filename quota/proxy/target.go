package proxy

import (
	"net/http"
	"net/url"
	"strings"
)

// A Target is the one upstream that a credential's calls go to.
type Target struct {
	Credential string
	Upstream   *url.URL // a scheme, a host, and perhaps a path that all others begin with
	// Key is the secret, and KeyHeader the field that it is sent in: "X-Goog-Api-Key",
	// or "Authorization", where Bearer comes before it.
	Key, KeyHeader string
	Billing        Billing
	Dialect        Dialect
	Routes         *Routes
}

// Billing says which answers an upstream does not charge for.
type Billing string

// The rules of billing.
const (
	Always Billing = "always"  // also for an answer that refuses, or fails
	Not304 Billing = "not-304" // a 304 is free
)

// free tells whether the upstream charges nothing for an answer.
func (b Billing) free(status int) bool { return b == Not304 && status == http.StatusNotModified }

const (
	apiKeyHeader  = "X-Goog-Api-Key"
	authorization = "Authorization"
	apiKeyParam   = "key"
)

// rewrite makes a request to the upstream of the one that came: its path and query are
// those that were matched, and the only key in it is the real one.
func (t *Target) rewrite(out *http.Request, s *site, isToken func(string) bool) {
	base := strings.TrimSuffix(t.Upstream.EscapedPath(), "/")
	path := base + s.path
	out.URL = &url.URL{Scheme: t.Upstream.Scheme, Host: t.Upstream.Host, RawPath: path, RawQuery: s.query}
	out.URL.Path, _ = url.PathUnescape(path) // it was read before
	out.Host = t.Upstream.Host
	out.Method = s.method
	for _, name := range unsent {
		out.Header.Del(name)
	}
	if isToken(bearerOf(out.Header)) {
		out.Header.Del(authorization)
	}
	out.Header.Set("Accept-Encoding", "identity") // the key is looked for in what comes
	if t.KeyHeader == authorization {
		out.Header.Set(authorization, "Bearer "+t.Key)
		return
	}
	out.Header.Set(t.KeyHeader, t.Key)
}

// unsent are fields that do not reach the upstream: keys, what could name the run token,
// and what could make another request of the one that was matched.
var unsent = []string{
	apiKeyHeader, "Referer", "Upgrade", "Connection", methodOverride,
	"X-Http-Method", "X-Method-Override", "X-Original-Url", "X-Rewrite-Url",
}

// strip takes keys out of a query, and leaves the rest as it was written. What is not
// understood by all who read a query does not pass.
func (t *Target) strip(query string, isToken func(string) bool) string {
	var kept []string
	for part := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(name)
		value, err2 := url.QueryUnescape(value)
		switch {
		case err != nil || err2 != nil || strings.Contains(part, ";"):
		case name == apiKeyParam && (t.KeyHeader == apiKeyHeader || isToken(value)):
		case strings.HasPrefix(name, "$http"): // Google takes a method and headers from there
		case part != "":
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "&")
}

// keyOf returns the key that a request comes with, in any of the usual places.
func keyOf(r *http.Request) string {
	if key := r.URL.Query().Get(apiKeyParam); key != "" {
		return key
	}
	if key := r.Header.Get(apiKeyHeader); key != "" {
		return key
	}
	return bearerOf(r.Header)
}

// bearerOf returns what stands in an Authorization header behind Bearer, or behind
// token, as GitHub's clients write it.
func bearerOf(h http.Header) string {
	scheme, token, _ := strings.Cut(h.Get(authorization), " ")
	if strings.EqualFold(scheme, "Bearer") || strings.EqualFold(scheme, "token") {
		return strings.TrimSpace(token)
	}
	return ""
}
