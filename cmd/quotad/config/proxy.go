package config

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"quotad/quota"
	"quotad/quota/proxy"
)

// target returns where the proxy sends the calls of a credential.
func (t *targetTable) target(c *quota.Credential) *proxy.Target {
	if t.has("key_header") && !fieldName.MatchString(t.KeyHeader) {
		t.fail("key_header", `%q is not the name of a header: write "Authorization", which sends Bearer before the key, or "X-Goog-Api-Key"`, t.KeyHeader)
	}
	if t.has("key_parameter") && !parameterName.MatchString(t.KeyParameter) {
		t.fail("key_parameter", `%q is not the name of a parameter: write "api_key"`, t.KeyParameter)
	}
	if t.document.isInFile(t.at("key_header").path) { // over that of a preset
		if t.document.isInFile(t.at("key_parameter").path) {
			t.fail("key_parameter", "sends the key in the query, and key_header sends it in a header: remove one")
		}
		t.KeyParameter = ""
	}
	address, _ := url.Parse(string(t.Upstream)) // it was read before
	return &proxy.Target{
		Credential: c.Name, Upstream: address, Key: t.key(), KeyHeader: http.CanonicalHeaderKey(t.KeyHeader), KeyParameter: t.KeyParameter,
		Free: t.Free, Refusals: proxy.Dialect(t.Refusals), Routes: t.routes(c),
	}
}

// Statuses are those of answers.
type statuses []int

func (s *statuses) decode(n node) {
	list, _ := as[[]any](n, "an array of statuses, such as [304]")
	for _, value := range list {
		status, _ := value.(int64)
		if status < 100 || status > 599 {
			n.fail("must be a status from 100 to 599: %v", value)
		}
		*s = append(*s, int(status))
	}
}

// key returns the key in key_file, or an empty one where key_command prints it; nil without them.
func (t *targetTable) key() *proxy.Key {
	sources := slices.DeleteFunc([]string{"key_file", "key_command", "key"}, func(key string) bool { return !t.has(key) })
	if len(sources) > 1 {
		t.fail(sources[1], "the key comes from %s already: remove one of the two", sources[0])
	}
	if t.has("key") && t.Key != callersKey {
		t.fail("key", `must be "caller": the key itself is in key_file, or key_command prints it`)
	}
	if t.has("key_command") {
		if len(t.KeyCommand) == 0 || t.KeyCommand[0] == "" {
			t.fail("key_command", `must name a program, such as ["/usr/local/bin/token"]`)
		}
		return new(proxy.Key) // the daemon asks for it
	}
	if !t.KeyFile.read {
		return nil
	}
	if _, marked := strings.CutPrefix(t.KeyFile.text, "\ufeff"); marked {
		t.fail("key_file", "%s begins with a byte order mark: save it as UTF-8 without one", t.KeyFile.path)
		return nil
	}
	key := strings.TrimSpace(t.KeyFile.text)
	if err := CheckKey(t.KeyFile.path, key); err != nil {
		t.fail("key_file", "%v", err)
	}
	return proxy.FixedKey(key)
}

// CheckKey refuses a text that is hardly a key alone. The error says where it is, but does not hold it.
func CheckKey(where, key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%s is empty: it must hold the key", where)
	case strings.ContainsAny(key[:1], "\"'"):
		return fmt.Errorf("%s holds the key in quotes: leave them out", where)
	case assignment.MatchString(key):
		return fmt.Errorf("%s holds NAME= before the key: leave it out", where)
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("%s must hold the key on a line by itself, and nothing else", where)
	}
	return nil
}

// assignment finds a line of an env file; the = of base64 are at its end.
var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=[^=]`)

// callersKey says that the job sends its own key.
const callersKey = "caller"

var parameterName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`)

var fieldName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*$`)

// routes checks that each route leads to one operation, or to none: "" refuses.
func (t *targetTable) routes(c *quota.Credential) *proxy.Routes {
	known := slices.Collect(maps.Keys(c.Operations))
	for _, route := range slices.Sorted(maps.Keys(t.Routes)) {
		if operation := t.Routes[route]; operation != "" && !slices.Contains(known, operation) {
			t.at("routes", route).fail("unknown operation %q (give it a cost in [credentials.%s.operations])%s", operation, c.Name, suggest(operation, known))
		}
	}
	routes, wrong := proxy.NewRoutes(t.Routes)
	for _, w := range wrong {
		t.at("routes", w.Route).fail("%v", w.Err)
	}
	return routes
}

// idleProxy warns of a proxy without an address, or without a target.
func (t *fileTable) idleProxy(c *Config) {
	switch {
	case c.Proxy == "":
		for _, target := range c.Targets {
			t.at("credentials", target.Credential, "proxy").warn(`does nothing without an address: add listen = "127.0.0.1:9465" to [proxy]`)
		}
	case len(c.Targets) == 0:
		t.at("proxy", "listen").warn(`no credential is proxied: add [credentials.NAME.proxy]`)
	}
}

// An upstreamAddress is the address of an upstream, without a slash at its end.
type upstreamAddress string

// UnmarshalText reads an address to which a key can be sent.
func (a *upstreamAddress) UnmarshalText(text []byte) error {
	address, err := url.Parse(string(text))
	switch {
	case err != nil || address.Host == "" || address.Scheme != "https" && address.Scheme != "http":
		return fmt.Errorf(`%q is not the address of an API: write "https://www.googleapis.com"`, text)
	case address.User != nil || address.RawQuery != "" || address.Fragment != "":
		return errors.New("holds more than a host and a path: write a key into key_file")
	case address.Scheme == "http" && !isLoopback(address.Hostname()):
		return fmt.Errorf("%q would have the key travel in plain text: write https://%s", text, address.Host)
	}
	*a = upstreamAddress(strings.TrimSuffix(string(text), "/"))
	return nil
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// A loopback is an address of this host that no other host can reach. It is not a name:
// what "localhost" means depends on a file that may have been changed.
type loopback string

// UnmarshalText reads an address with a port, in numbers.
func (l *loopback) UnmarshalText(text []byte) error {
	const cure = `write "127.0.0.1:9464" or "[::1]:9464"`
	address, err := netip.ParseAddrPort(string(text))
	switch {
	case err != nil:
		return fmt.Errorf("%q is not an address and a port in numbers: "+cure, text)
	case !address.Addr().IsLoopback():
		return fmt.Errorf("%q can be reached from other hosts, and callers there need no password: "+cure, text)
	}
	*l = loopback(text)
	return nil
}

// KeyCommand returns the command that prints the key of a credential for the proxy; nil: there is none.
func (c *Config) KeyCommand(credential string) []string {
	if one := c.file.Credentials[credential]; one != nil && one.Proxy != nil {
		return one.Proxy.KeyCommand
	}
	return nil
}

// KeyCure says what to do about a key that the upstream of a credential refuses.
func (c *Config) KeyCure(credential string) string {
	one := c.file.Credentials[credential]
	switch {
	case one == nil || one.Proxy == nil:
	case one.Proxy.KeyFile.path != "":
		return "replace " + one.Proxy.KeyFile.path + ", then quotactl reload"
	case one.Proxy.Key == callersKey:
		return "give the job another key"
	}
	return "quotactl reload"
}

// Routes is a text of what a credential's calls through the proxy are counted as.
func (c *Config) Routes(credential string) string {
	if t := c.file.Credentials[credential]; t != nil && t.Proxy != nil {
		return fmt.Sprint(t.Proxy.Routes, t.Proxy.Free) // a map is printed in the order of its keys
	}
	return ""
}
