package proxy

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"quotad/quota"
)

// A call is who makes a request, and what it asks of which upstream.
type call struct {
	proxy  *Proxy
	target *Target
	token  string
	bearer quota.Bearer

	method    string // as the upstream gets it
	path      string // after the credential's name; escaped, it begins with a slash
	query     string // without keys
	operation string
	keyed     bool // the token is the API key, and the path the upstream's own
}

// refuse returns the refusal of a request.
func refuse(reason quota.Reason, hint, format string, args ...any) quota.Decision {
	return quota.Decision{Reason: reason, Detail: fmt.Sprintf(format, args...), Hint: hint}
}

// locate returns the call that a request is, or why it is refused; then the call has no token, or
// no target, where these are not known.
func (p *Proxy) locate(r *http.Request) (c *call, refused quota.Decision) {
	c = &call{proxy: p, method: r.Method}
	credential := c.authenticate(r)
	if refused = p.checkHost(r); !refused.Granted() {
		return c, refused
	}
	if c.token == "" {
		return c, c.tokenless(r)
	}
	c.target = p.Target(credential)
	switch {
	case c.target == nil:
		return c, refuse(quota.UnknownCredential, "the address is "+p.Root()+"/RUN_TOKEN/CREDENTIAL/…",
			"no credential %.80q is proxied", credential)
	case c.bearer.Credential != credential:
		return c, refuse(quota.Forbidden, "", "the run token spends from another credential")
	case namesOtherMethod(r):
		return c, refuse(quota.BadRequest, "clients of Google do so where a query is longer than 2,048 bytes: ask for fewer things at once",
			"its header names another method: send the request with its own method")
	}
	if refused = c.strip(r.URL.RawQuery); refused.Granted() {
		refused = c.route()
	}
	return c, refused
}

// authenticate finds the run token: in the path, followed by the name of its credential; or as
// the API key, where the path is the upstream's own. There may be none.
func (c *call) authenticate(r *http.Request) (credential string) {
	tokens := c.proxy.config.Tokens
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/")
	first, rest, _ := strings.Cut(path, "/")
	if bearer, live := tokens.Bearer(first); live {
		credential, rest, _ = strings.Cut(rest, "/")
		c.token, c.bearer, c.path = first, bearer, "/"+rest
		return credential
	}
	c.path, c.keyed = "/"+path, true
	for _, key := range keysOf(r) {
		if bearer, live := tokens.Bearer(key); live {
			c.token, c.bearer = key, bearer
			return bearer.Credential
		}
	}
	c.bearer.Caller.UID = -1
	return ""
}

// tokenless returns why a request without a live token is refused.
func (c *call) tokenless(r *http.Request) quota.Decision {
	segments, _ := split(c.path)
	switch refused := uncounted(segments, r.URL.Query()); {
	case !refused.Granted():
		return refused
	case len(segments) > 1 && c.proxy.Target(segments[0]) == nil && c.proxy.Target(segments[1]) != nil:
		return refuse(quota.Forbidden, "a pass finds the address with its token in $"+AddressEnv,
			"the run token is unknown: it dies with its pass")
	}
	return refuse(quota.Forbidden,
		"the path /RUN_TOKEN/CREDENTIAL is missing: this client resolves absolute paths; give $QUOTAD_TOKEN as its key",
		"the run token is missing: neither the path nor the key is that of a pass under way")
}

// checkHost refuses what is not meant for this proxy: a page's request under a name that was
// made to point here, and one of a client that uses it as a proxy of everything.
func (p *Proxy) checkHost(r *http.Request) quota.Decision {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	switch {
	case r.Method == http.MethodConnect || r.URL.Host != "":
		return refuse(quota.BadRequest, "set the base address of the API to $"+AddressEnv+", not the proxy of HTTP",
			"only one upstream for each credential is served here, and nothing through CONNECT")
	case path == "*" || strings.Contains(path, "#"):
		return refuse(quota.BadRequest, "name a path, and percent-encode a # in it: %23", "the path can be read in more than one way")
	case r.Host != p.config.Address:
		return refuse(quota.Forbidden, "", "the host %.80q is not this proxy, which is %s", r.Host, p.config.Address)
	case r.Header.Get("Upgrade") != "":
		return refuse(quota.BadRequest, "", "no other protocol is spoken here: leave the header Upgrade out")
	}
	return quota.Decision{}
}

func (p *Proxy) isToken(text string) bool {
	_, live := p.config.Tokens.Bearer(text)
	return live
}

// route finds the operation that the request is.
func (c *call) route() quota.Decision {
	if plain, _ := url.PathUnescape(c.path); c.holdsToken(c.path) || c.holdsToken(plain) {
		return refuse(quota.BadRequest, tokenHint, "the path holds the run token once more, which no upstream gets")
	}
	segments, err := split(c.path)
	if err != nil {
		hint := ""
		if strings.HasPrefix(c.path, "//") {
			hint = "the address in $" + AddressEnv + " ends with a slash: write the path after it without one"
		}
		return refuse(quota.BadRequest, hint, "%v", err)
	}
	query, _ := url.ParseQuery(c.query) // strip has read it
	if refused := uncounted(segments, query); !refused.Granted() {
		return refused
	}
	name := c.target.Credential
	c.operation, err = c.target.Routes.find(c.method, segments, query)
	switch {
	case errors.Is(err, errNoRoute):
		return refuse(quota.UnknownOperation, "routes are added in [credentials."+name+".proxy.routes]",
			"no route of credential %q matches %.20s %.80q", name, c.method, c.path)
	case err != nil:
		return refuse(quota.BadRequest, "", "%v", err)
	case c.operation == "":
		return refuse(quota.UnknownOperation, "a route of your own in [credentials."+name+".proxy.routes] names its operation",
			"a route of credential %q refuses %.20s %.80q: what such a call costs is not known", name, c.method, c.path)
	}
	return quota.Decision{}
}

// uncounted refuses a request that is more than one call, or none.
func uncounted(segments []string, query url.Values) quota.Decision {
	first, _, _ := strings.Cut(append(segments, "")[0], "/")
	switch {
	case first == "batch":
		return refuse(quota.UnknownOperation, "it counts as many calls as it has parts: send them one by one", "a batch cannot be counted here")
	case first == "upload" || first == "resumable" || slices.ContainsFunc(uploads, query.Has):
		return refuse(quota.UnknownOperation, "its parts are no calls of their own: acquire before, upload directly", "an upload cannot be counted here")
	}
	return quota.Decision{}
}

// unplain finds what some readers take for no part of a segment, or for another one: what leads elsewhere, ends a
// segment, is dropped at its end, or is escaped once more.
var unplain = regexp.MustCompile(`^$|(^|/)\.\.?(/|$)|[\\;\x00-\x1f\x7f]|[. ]$|%[0-9A-Fa-f]{2}`)

// split returns the segments of an escaped path, decoded once. One may hold a slash that was escaped, such as an
// address as the name of a site. It refuses what some readers read as another path.
func split(path string) ([]string, error) {
	path = strings.TrimSuffix(path[1:], "/")
	if path == "" {
		return nil, nil
	}
	segments := strings.Split(path, "/")
	for i, escaped := range segments {
		plain, err := url.PathUnescape(escaped)
		if err != nil {
			return nil, fmt.Errorf("the path cannot be read: %v", err)
		}
		if unplain.MatchString(plain) {
			return nil, fmt.Errorf("the path holds %.40q, which is not a plain segment", escaped)
		}
		segments[i] = plain
	}
	return segments, nil
}

// strip removes keys from a query, and leaves the rest as it was written. A query that
// readers may understand differently, or that cannot be sent as it is, is refused.
func (c *call) strip(query string) quota.Decision {
	var rest []string
	for part := range strings.SplitSeq(query, "&") {
		written, value, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(written)
		value, err2 := url.QueryUnescape(value)
		switch {
		case c.holdsToken(written) || c.holdsToken(name) || c.holdsToken(value) && !c.proxy.isToken(value):
			return refuse(quota.BadRequest, tokenHint, "a parameter of the query holds the run token, which no upstream gets")
		case err != nil || err2 != nil || strings.ContainsAny(part, ";#"):
			return refuse(quota.BadRequest, "percent-encode what it holds: ; is %3B, # is %23, % is %25, a space %20",
				"the parameter %.40q of the query can be read in more than one way", written)
		case isOverride(name):
			return refuse(quota.BadRequest, "", "the parameter %.40q would make another request of it: send the request with its own method and headers", name)
		case c.proxy.isToken(value) || c.target.isKey(name):
		case part != "":
			rest = append(rest, part)
		}
	}
	c.query = strings.Join(rest, "&")
	return quota.Decision{}
}

const tokenHint = "the run token is the API key, or begins the path, and stands nowhere else"

// holdsToken reports whether a text holds the run token, in whatever case.
func (c *call) holdsToken(text string) bool {
	return len(text) >= len(c.token) && strings.Contains(strings.ToUpper(text), strings.ToUpper(c.token))
}

// isOverride reports whether some upstreams read a method or headers from a parameter: Google
// from $httpMethod, others from _method.
func isOverride(name string) bool {
	return strings.HasPrefix(name, "$http") || name == "_method" || slices.Contains(methodOverrides, dashed(name))
}

// uploads are parameters that make a call a part of an upload, whatever its path.
var uploads = []string{"uploadType", "upload_protocol", "upload_id"}

// methodOverrides are headers that name another method than that of the request.
var methodOverrides = []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// namesOtherMethod reports whether the header of a request names another method.
func namesOtherMethod(r *http.Request) bool {
	for name, values := range r.Header {
		isOther := func(value string) bool { return value != r.Method }
		if slices.Contains(methodOverrides, dashed(name)) && slices.ContainsFunc(values, isOther) {
			return true
		}
	}
	return false
}

// dashed returns the name of a header as readers do that read _ as -, CGI above all.
func dashed(name string) string {
	return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
}

// rewrite turns a request into one to the upstream: its path and query are those that were
// matched, and the only key in it is the real one.
func (x *exchange) rewrite(out *http.Request) {
	c, t := x.call, x.target
	base := strings.TrimSuffix(t.Upstream.EscapedPath(), "/")
	path := base + c.path
	out.URL = &url.URL{Scheme: t.Upstream.Scheme, Host: t.Upstream.Host, RawPath: path, RawQuery: c.query}
	out.URL.Path, _ = url.PathUnescape(path) // it was read before
	out.Host = t.Upstream.Host
	out.Method = c.method
	for name, values := range out.Header {
		if c.isUnsent(name, values) {
			delete(out.Header, name)
		}
	}
	out.Header.Set("Accept-Encoding", "identity") // quotad reads what an answer says of the quota
	switch {
	case x.key == "":
	case t.KeyParameter != "":
		out.URL.RawQuery = strings.TrimPrefix(c.query+"&", "&") + url.QueryEscape(t.KeyParameter) + "=" + url.QueryEscape(x.key)
	case t.KeyHeader == authorization:
		out.Header.Set(authorization, "Bearer "+x.key)
	default:
		out.Header.Set(t.KeyHeader, x.key)
	}
}

// unsent are fields that do not reach the upstream: what could name the run token, and what could
// turn the request that was matched into another one.
var unsent = append([]string{"Referer", "Upgrade", "Connection", "X-Original-Url", "X-Rewrite-Url"}, methodOverrides...)

// isUnsent reports whether a field does not reach the upstream, under any name that is read
// as the name of such a field.
func (c *call) isUnsent(name string, values []string) bool {
	plain := dashed(name)
	isKey := plain == apiKeyHeader || plain == c.target.KeyHeader
	return slices.Contains(unsent, plain) || isKey && (name != plain || c.target.Key != nil && (plain == apiKeyHeader || c.target.KeyParameter != "")) ||
		slices.ContainsFunc(values, func(value string) bool {
			return c.holdsToken(value) || plain == authorization && slices.ContainsFunc(keysIn(value), c.proxy.isToken)
		})
}

// keysOf returns the keys that a request comes with, in the usual places.
func keysOf(r *http.Request) []string {
	keys := slices.Clone(r.Header[apiKeyHeader])
	for _, values := range r.URL.Query() {
		keys = append(keys, values...)
	}
	for _, value := range r.Header[authorization] {
		keys = append(keys, keysIn(value)...)
	}
	return keys
}

// keysIn returns the words of an Authorization header: a scheme and a key; or the user and the password of Basic.
func keysIn(value string) []string {
	words := strings.Fields(value)
	if len(words) == 2 && strings.EqualFold(words[0], "basic") {
		text, _ := base64.RawStdEncoding.DecodeString(strings.TrimRight(words[1], "="))
		return strings.SplitN(string(text), ":", 2)
	}
	return words
}
