package middleware

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Identify returns the subject whose budget a request spends, or "" where it does not know. Two kinds of subjects must
// not be alike: a user named 192.0.2.1 would spend the budget of the client at that address.
type Identify func(*http.Request) (subject string)

// ByHeader identifies callers by an API key in a header. The subject is "key:" and a digest of the key: the daemon
// never sees the key.
//
// A made-up key has a new budget: check keys before the request gets here.
func ByHeader(name string) Identify {
	return func(r *http.Request) string {
		if key := r.Header.Get(name); key != "" {
			return "key:" + digest(key)
		}
		return ""
	}
}

// ByUser identifies callers by a name that you return, from the session or a verified token; "" for a caller without
// one. The subject is "user:" and the name.
func ByUser(name func(*http.Request) string) Identify {
	return func(r *http.Request) string {
		if user := name(r); user != "" {
			return "user:" + user
		}
		return ""
	}
}

// unidentified is the subject that callers share that nothing distinguishes.
const unidentified = "unidentified"

// maxSubject is the length of the longest subject that stays as it is.
const maxSubject = 64

// bounded returns a subject that a daemon accepts whatever a client sent: one that is longer, or looks like a digest,
// becomes '#' and its digest.
func bounded(subject string) string {
	if len(subject) > maxSubject || strings.HasPrefix(subject, "#") {
		return "#" + digest(subject)
	}
	return subject
}

// digest distinguishes 2^64 texts, and does not reveal them.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// addresses are the proxies whose X-Forwarded-For is believed.
type addresses []netip.Prefix

// forwardedFor is where each proxy appends the address that called it.
const forwardedFor = "X-Forwarded-For"

// subject returns whom a request is for.
func (h *handler) subject(r *http.Request) string {
	for _, identify := range h.Identify {
		if subject := identify(r); subject != "" {
			return bounded(subject)
		}
	}
	return addresses(h.TrustedProxies).subject(r)
}

// subject returns the client's address, or the network that an IPv6 client has to itself.
func (a addresses) subject(r *http.Request) string {
	client := a.client(r)
	switch {
	case !client.IsValid():
		return unidentified
	case client.Is4():
		return client.String()
	}
	network, _ := client.Prefix(64)
	return network.String()
}

// client walks from the peer towards the client. Each hop vouches for the one that it appended, as long as it is
// trusted: anyone may have written what is further left. Where a trusted hop has appended something that is no address,
// its caller is unknown, and the client is that hop.
func (a addresses) client(r *http.Request) netip.Addr {
	hop := parseHop(r.RemoteAddr)
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	socket := local != nil && local.Network() == "unix" && len(a) > 0 // a peer there has no address, and is a proxy
	if !a.trusts(hop) && !socket {
		return hop
	}
	for _, line := range slices.Backward(r.Header[forwardedFor]) {
		for comma := 0; comma >= 0; {
			comma = strings.LastIndexByte(line, ',')
			next := parseHop(line[comma+1:])
			if !next.IsValid() {
				return hop
			}
			if hop = next; !a.trusts(hop) {
				return hop
			}
			line = line[:max(0, comma)]
		}
	}
	return hop
}

func (a addresses) trusts(hop netip.Addr) bool {
	return slices.ContainsFunc(a, func(p netip.Prefix) bool { return p.Contains(hop) })
}

// parseHop reads an address, with or without a port, brackets and a zone, as one host has it: a zone says only by which
// of our interfaces it was reached, and ::ffff:192.0.2.1 is 192.0.2.1. Anything else ("unknown", "@", nothing at all)
// is the zero address.
func parseHop(text string) netip.Addr {
	text = strings.Trim(text, " \t")
	address, err := netip.ParseAddr(text)
	if err != nil {
		with, err := netip.ParseAddrPort(text)
		if err != nil { // in brackets, without a port
			with, _ = netip.ParseAddrPort(text + ":0")
		}
		address = with.Addr()
	}
	return address.Unmap().WithZone("")
}
