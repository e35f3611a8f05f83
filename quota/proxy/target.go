package proxy

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A Target is the one upstream that a credential's calls go to.
type Target struct {
	Credential string
	Upstream   *url.URL // a scheme, a host, and perhaps a path that all others begin with
	// Key is the secret, and KeyHeader the field that it is sent in: "X-Goog-Api-Key",
	// or "Authorization", after Bearer.
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

// free reports whether the upstream charges nothing for an answer.
func (b Billing) free(status int) bool { return b == Not304 && status == http.StatusNotModified }

const (
	apiKeyHeader  = "X-Goog-Api-Key"
	authorization = "Authorization"
	apiKeyParam   = "key"
)

// rewrite turns a request into one to the upstream: its path and query are those that were
// matched, and the only key in it is the real one.
func (t *Target) rewrite(out *http.Request, s *site, isToken func(string) bool) {
	base := strings.TrimSuffix(t.Upstream.EscapedPath(), "/")
	path := base + s.path
	out.URL = &url.URL{Scheme: t.Upstream.Scheme, Host: t.Upstream.Host, RawPath: path, RawQuery: s.query}
	out.URL.Path, _ = url.PathUnescape(path) // it was read before
	out.Host = t.Upstream.Host
	out.Method = s.method
	for name, values := range out.Header {
		if t.isUnsent(name, values, s, isToken) {
			delete(out.Header, name)
		}
	}
	out.Header.Set("Accept-Encoding", "identity") // the key is looked for in what comes
	if t.KeyHeader == authorization {
		out.Header.Set(authorization, "Bearer "+t.Key)
		return
	}
	out.Header.Set(t.KeyHeader, t.Key)
}

// unsent are fields that do not reach the upstream: keys, what could name the run token,
// and what could turn the request that was matched into another one.
var unsent = append([]string{apiKeyHeader, "Referer", "Upgrade", "Connection", "X-Original-Url", "X-Rewrite-Url"}, methodOverrides...)

// isUnsent reports whether a field does not reach the upstream, under any name that is read
// as the name of such a field.
func (t *Target) isUnsent(name string, values []string, s *site, isToken func(string) bool) bool {
	plain := dashed(name)
	return slices.Contains(unsent, plain) || plain == t.KeyHeader && name != plain ||
		slices.ContainsFunc(values, func(value string) bool {
			return strings.Contains(value, s.token) || plain == authorization && slices.ContainsFunc(keysIn(value), isToken)
		})
}

// keysOf returns the keys that a request comes with, in the usual places.
func keysOf(r *http.Request) []string {
	keys := append(r.URL.Query()[apiKeyParam], r.Header[apiKeyHeader]...)
	for _, value := range r.Header[authorization] {
		keys = append(keys, keysIn(value)...)
	}
	return keys
}

// keysIn returns what follows Bearer in an Authorization header, or token, as GitHub's clients
// write it; or the user and the password of Basic.
func keysIn(value string) []string {
	fields := strings.Fields(value)
	if len(fields) != 2 {
		return nil
	}
	switch strings.ToLower(fields[0]) {
	case "bearer", "token":
		return fields[1:]
	case "basic":
		text, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(fields[1], "="))
		if err != nil {
			return nil
		}
		return strings.SplitN(string(text), ":", 2)
	}
	return nil
}
