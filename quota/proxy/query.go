package proxy

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"quotad/quota"
	"quotad/quota/api"
)

// strip takes keys out of a query, and leaves the rest as it was written. A query that
// readers may understand differently, or that cannot be sent as it is, is refused.
func (t *Target) strip(query string, isToken func(string) bool) (string, *api.Problem) {
	var kept []string
	for part := range strings.SplitSeq(query, "&") {
		written, value, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(written)
		value, err2 := url.QueryUnescape(value)
		switch {
		case err != nil || err2 != nil || strings.ContainsFunc(part, isUnclear):
			problem := api.NewProblem(quota.BadRequest, "the parameter %.40q of the query can be read in more than one way", written)
			problem.Hint = "percent-encode what it holds: ; is %3B, # is %23, % is %25, a space %20"
			return "", problem
		case isOverride(name):
			return "", api.NewProblem(quota.BadRequest, "the parameter %.40q would make another request of it: send the request with its own method and headers", name)
		case isToken(value) || name == apiKeyParam && t.KeyHeader == apiKeyHeader:
		case part != "":
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "&"), nil
}

// isUnclear tells whether a character ends a parameter, a query or an address for some who
// read one, or cannot stand in it.
func isUnclear(r rune) bool { return r == ';' || r == '#' || r <= ' ' || r == 0x7f }

// isOverride tells whether some upstreams take a method or headers from a parameter: Google
// from $httpMethod, others from _method.
func isOverride(name string) bool {
	return strings.HasPrefix(name, "$http") || name == "_method" || slices.Contains(methodOverrides, dashed(name))
}

// uploads are parameters by which a call is a part of an upload, whatever its path.
var uploads = []string{"uploadType", "upload_protocol", "upload_id"}

// isUpload tells whether a query makes a part of an upload of a call.
func isUpload(query string) bool {
	parameters, _ := url.ParseQuery(query) // strip has read it
	return slices.ContainsFunc(uploads, parameters.Has)
}

// methodOverrides are headers that name another method than that of the request.
var methodOverrides = []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// meantInstead returns the other methods that the header of a request names.
func meantInstead(r *http.Request) (methods []string) {
	for name, values := range r.Header {
		if !slices.Contains(methodOverrides, dashed(name)) {
			continue
		}
		for _, value := range values {
			if value != r.Method && !slices.Contains(methods, value) {
				methods = append(methods, value)
			}
		}
	}
	return methods
}

// dashed is how those who read _ as - understand the name of a header, CGI above all.
func dashed(name string) string {
	return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
}
