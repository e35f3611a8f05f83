package proxy

import (
	"net/http"
	"net/url"
)

// A Target is the one upstream that a credential's calls go to.
type Target struct {
	Credential string
	Upstream   *url.URL // a scheme, a host, and perhaps a path that all others begin with
	// Key is what the upstream requires; nil: the client's own key is sent, if it has one. It is sent
	// as KeyParameter of the query or, if that is empty, in the field KeyHeader: "X-Goog-Api-Key", or
	// "Authorization", after Bearer.
	Key                     *Key
	KeyHeader, KeyParameter string
	Billing                 Billing
	Dialect                 Dialect
	Routes                  *Routes
}

// isKey reports whether a parameter of the query is where the key is, so that a client's is not sent.
func (t *Target) isKey(parameter string) bool {
	return t.Key != nil && (parameter == t.KeyParameter && parameter != "" || parameter == apiKeyParam && t.KeyHeader == apiKeyHeader)
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
