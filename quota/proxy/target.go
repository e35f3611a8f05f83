package proxy

import (
	"net/http"
	"net/url"
)

// A Target is the one upstream that a credential's calls go to.
type Target struct {
	Credential string
	Upstream   *url.URL // a scheme, a host, and perhaps a path that all others begin with
	// Key is the secret, and KeyHeader the field that it is sent in: "X-Goog-Api-Key",
	// or "Authorization", after Bearer. An empty one is not sent, and the client's own key is.
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
