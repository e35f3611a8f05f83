package config

import (
	"fmt"
	"maps"
	"net/http"
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
	target := t.Target
	target.Upstream, _ = url.Parse(t.Address) // it was read before
	target.Credential, target.Key, target.Routes = c.Name, t.key(), t.routes(c)
	target.KeyHeader = http.CanonicalHeaderKey(t.KeyHeader)
	return &target
}

// key returns the key in key_file, or an empty one where key_command prints it; nil without them.
func (t *targetTable) key() *proxy.Key {
	sources := slices.DeleteFunc([]string{"key_file", "key_command", "key"}, func(key string) bool { return !t.has(key) })
	if len(sources) > 1 {
		t.fail(sources[1], "the key comes from %s already: remove one of the two", sources[0])
	}
	if t.has("key") && t.Caller != callersKey {
		t.fail("key", `must be "caller": the key itself is in key_file, or key_command prints it`)
	}
	if t.has("key_command") {
		return new(proxy.Key) // the daemon asks for it
	}
	if !t.KeyFile.read {
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
func (c *Config) idleProxy() {
	switch {
	case c.Proxy.Listen == "":
		for _, target := range c.Targets {
			c.at("credentials", target.Credential, "proxy").warn(`does nothing without an address: add listen = "127.0.0.1:9465" to [proxy]`)
		}
	case len(c.Targets) == 0:
		c.at("proxy", "listen").warn(`no credential is proxied: add [credentials.NAME.proxy]`)
	}
}

// KeyCommand returns the command that prints the key of a credential for the proxy; nil: there is none.
func (c *Config) KeyCommand(credential string) []string {
	if one := c.fileTable.Credentials[credential]; one != nil && one.Proxy != nil {
		return one.Proxy.KeyCommand
	}
	return nil
}

// KeyCure says what to do about a key that the upstream of a credential refuses.
func (c *Config) KeyCure(credential string) string {
	one := c.fileTable.Credentials[credential]
	switch {
	case one == nil || one.Proxy == nil:
	case one.Proxy.KeyFile.path != "":
		return "replace " + one.Proxy.KeyFile.path + ", then quotactl reload"
	case one.Proxy.Caller == callersKey:
		return "give the job another key"
	}
	return "quotactl reload"
}

// Routes is a text of what a credential's calls through the proxy are counted as.
func (c *Config) Routes(credential string) string {
	if t := c.fileTable.Credentials[credential]; t != nil && t.Proxy != nil {
		return fmt.Sprint(t.Proxy.Routes, t.Proxy.Free) // a map is printed in the order of its keys
	}
	return ""
}
