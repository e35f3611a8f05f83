package proxy

import "net/url"

// A Target is the one upstream that a credential's calls go to.
type Target struct {
	Credential string
	Upstream   *url.URL // a scheme, a host, and perhaps a path that all others begin with
	// Key is what the upstream requires; nil: the client's own key is sent, if it has one. It is sent as KeyParameter
	// of the query or, if that is empty, in the field KeyHeader: "X-Goog-Api-Key", or "Authorization", after Bearer.
	Key          *Key
	KeyHeader    string  `toml:"key_header" default:"Authorization"`
	KeyParameter string  `toml:"key_parameter"`
	Free         []int   `toml:"free"` // statuses of answers for which the upstream does not charge: 304
	RefusedFree  bool    // nor does it for an answer that refuses
	ReadsAll     bool    // an answer may refuse whatever its status is
	Refusals     Dialect `toml:"refusals" oneof:"google problem" default:"problem"`
	Routes       *Routes
}

// isKey reports whether a parameter of the query is where the key is, so that a client's is not sent.
func (t *Target) isKey(parameter string) bool {
	return t.Key != nil && (parameter == t.KeyParameter && parameter != "" || parameter == apiKeyParam && t.KeyHeader == apiKeyHeader)
}

const (
	apiKeyHeader  = "X-Goog-Api-Key"
	authorization = "Authorization"
	apiKeyParam   = "key"
)
