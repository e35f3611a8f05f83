package middleware

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// The proxies of the tests: two networks of them, each hop of which appends its caller.
var proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:a::/48")}

func TestClientOfAChain(t *testing.T) {
	for _, row := range []struct {
		name  string
		peer  string
		lines []string // of X-Forwarded-For
		want  string
	}{
		{"no proxy", "192.0.2.1:4711", nil, "192.0.2.1"},
		{"nobody's word but a proxy's", "192.0.2.1:4711", []string{"198.51.100.7"}, "192.0.2.1"},
		{"one proxy", "10.0.0.1:4711", []string{"192.0.2.1"}, "192.0.2.1"},
		{"a client that forges the left", "10.0.0.1:4711", []string{"198.51.100.7, 192.0.2.1"}, "192.0.2.1"},
		{"a client that forges a proxy", "10.0.0.1:4711", []string{"198.51.100.7, 10.0.0.3, 192.0.2.1"}, "192.0.2.1"},
		{"a client that forges a line", "10.0.0.1:4711", []string{"198.51.100.7", "192.0.2.1"}, "192.0.2.1"},
		{"a line for each proxy", "10.0.0.1:4711", []string{"192.0.2.1", "10.0.0.2"}, "192.0.2.1"},
		{"a call from within", "10.0.0.1:4711", []string{"10.0.0.9"}, "10.0.0.9"},
		{"a proxy that appends nothing", "10.0.0.1:4711", nil, "10.0.0.1"},
		{"an empty line", "10.0.0.1:4711", []string{""}, "10.0.0.1"},
		{"an empty element on the right", "10.0.0.1:4711", []string{"198.51.100.7, "}, "10.0.0.1"},
		{"an empty element behind a proxy", "10.0.0.1:4711", []string{"198.51.100.7,, 10.0.0.2"}, "10.0.0.2"},
		{"unknown", "10.0.0.1:4711", []string{"198.51.100.7, unknown"}, "10.0.0.1"},
		{"unknown behind a proxy", "10.0.0.1:4711", []string{"198.51.100.7, unknown, 10.0.0.2"}, "10.0.0.2"},
		{"words beside an address", "10.0.0.1:4711", []string{"192.0.2.1 192.0.2.2"}, "10.0.0.1"},
		{"blanks", "10.0.0.1:4711", []string{" \t192.0.2.1\t ,\t10.0.0.2 "}, "192.0.2.1"},
		{"a port", "10.0.0.1:4711", []string{"192.0.2.1:65535"}, "192.0.2.1"},
		{"no port behind its colon", "10.0.0.1:4711", []string{"192.0.2.1:"}, "10.0.0.1"},
		{"IPv6", "10.0.0.1:4711", []string{"2001:db8:b::1"}, "2001:db8:b::1"},
		{"IPv6 in brackets", "10.0.0.1:4711", []string{"[2001:db8:b::1]"}, "2001:db8:b::1"},
		{"IPv6 with a port", "10.0.0.1:4711", []string{"[2001:db8:b::1]:4711"}, "2001:db8:b::1"},
		{"IPv6 with a zone", "10.0.0.1:4711", []string{"fe80::1%eth0"}, "fe80::1"},
		{"IPv4 in brackets", "10.0.0.1:4711", []string{"[192.0.2.1]"}, "10.0.0.1"},
		{"a proxy by IPv6", "[2001:db8:a::1]:4711", []string{"192.0.2.1"}, "192.0.2.1"},
		{"a neighbour of the proxies by IPv6", "[2001:db8:b::1]:4711", []string{"192.0.2.1"}, "2001:db8:b::1"},
		{"IPv4 by a socket for both", "[::ffff:192.0.2.1]:4711", nil, "192.0.2.1"},
		{"a proxy by a socket for both", "[::ffff:10.0.0.1]:4711", []string{"::ffff:192.0.2.1"}, "192.0.2.1"},
		{"a peer with a zone", "[fe80::1%eth0]:4711", nil, "fe80::1"},
		{"a peer without a port", "192.0.2.1", nil, "192.0.2.1"},
		{"a peer that is none", "nonsense", []string{"192.0.2.1"}, "invalid IP"},
		{"a long forged chain", "10.0.0.1:4711", []string{strings.Repeat("198.51.100.7,", 10_000) + "192.0.2.1"}, "192.0.2.1"},
		{"a long chain of proxies", "10.0.0.1:4711", []string{"192.0.2.1" + strings.Repeat(",10.0.0.2", 10_000)}, "192.0.2.1"},
	} {
		r := &http.Request{RemoteAddr: row.peer, Header: http.Header{forwardedFor: row.lines}}
		if got := behind(proxies).client(r).String(); got != row.want {
			t.Errorf("%s: got %s, want %s", row.name, got, row.want)
		}
	}
}

// behind returns a handler that trusts proxies.
func behind(trusted []netip.Prefix, identify ...Identify) *handler {
	return &handler{Options: Options{TrustedProxies: trusted, Identify: identify}}
}

func TestSubject(t *testing.T) {
	key, long := ByHeader("X-API-Key"), strings.Repeat("k", 1<<20)
	own := func(subject string) Identify { return func(*http.Request) string { return subject } }
	for _, row := range []struct {
		name, peer, forwarded string
		identify              []Identify
		want                  string
	}{
		{"an address", "192.0.2.1:4711", "", nil, "192.0.2.1"},
		{"one of a socket for both", "[::ffff:192.0.2.1]:4711", "", nil, "192.0.2.1"},
		{"a network", "[2001:db8:b:1:ffff::2]:4711", "", nil, "2001:db8:b:1::/64"},
		{"behind a proxy", "10.0.0.1:4711", "192.0.2.1", nil, "192.0.2.1"},
		{"no address", "nonsense", "", nil, unidentified},
		{"by a socket, behind proxies", "@", "198.51.100.7, 192.0.2.1, 10.0.0.2", nil, "192.0.2.1"},
		{"by a socket, no address", "@", "192.0.2.1, unknown", nil, unidentified},
		{"no key", "192.0.2.1:4711", "", []Identify{own(""), ByHeader("X-Key")}, "192.0.2.1"},
		{"a key", "192.0.2.1:4711", "", []Identify{own(""), key}, "key:" + digest(long)},
		{"the first that knows", "192.0.2.1:4711", "", []Identify{own("user:ann"), key}, "user:ann"},
		{"not UTF-8", "192.0.2.1:4711", "", []Identify{own("\xff\x00")}, "\xff\x00"},
		{"1 MB", "192.0.2.1:4711", "", []Identify{own(long)}, "#" + digest(long)},
		{"like a digest", "192.0.2.1:4711", "", []Identify{own("#" + digest("x"))}, "#" + digest("#"+digest("x"))},
	} {
		r := &http.Request{RemoteAddr: row.peer, Header: http.Header{forwardedFor: {row.forwarded}, "X-Api-Key": {long}}}
		if row.peer == "@" { // as behind a proxy that calls by a Unix socket
			r = r.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, &net.UnixAddr{Name: "/run/app.sock", Net: "unix"}))
			if got := behind(nil).subject(r); got != unidentified {
				t.Errorf("%s, which nobody trusts: got %s", row.name, got)
			}
		}
		if got := behind(proxies, row.identify...).subject(r); got != row.want {
			t.Errorf("%s: got %.100q, want %.100q", row.name, got, row.want)
		}
	}
}
