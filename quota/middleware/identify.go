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

// Identify returns the subject whose budget a request spends, or "" where it does not know: such as "user:" and a name
// from the session. Two kinds of subjects must not be alike: a user named 192.0.2.1 would spend the budget of the
// client at that address.
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

// unidentified is the subject that callers share that nothing distinguishes.
const unidentified = "unidentified"

// maxSubject is the length of the longest subject that stays as it is.
const maxSubject = 64

// digest distinguishes 2^64 texts, and does not reveal them.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// forwardedFor is where each proxy appends the address that called it.
const forwardedFor = "X-Forwarded-For"

// subject returns whom a request is for: what identifies it, else the client's address, or the network that an IPv6
// client has to itself. A subject that is long, or looks like a digest, becomes '#' and its digest: a daemon accepts
// it, whatever a client sent.
func (h *handler) subject(r *http.Request) string {
	for _, identify := range h.Identify {
		subject := identify(r)
		if len(subject) > maxSubject || strings.HasPrefix(subject, "#") {
			return "#" + digest(subject)
		}
		if subject != "" {
			return subject
		}
	}
	client := h.client(r)
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
func (h *handler) client(r *http.Request) netip.Addr {
	hop, chain := parseHop(r.RemoteAddr), strings.Join(r.Header[forwardedFor], ",")
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	// A peer on a Unix socket has no address, and is a proxy.
	socket := local != nil && local.Network() == "unix" && len(h.TrustedProxies) > 0
	for comma := 0; comma >= 0 && (socket || h.trusts(hop)); socket = false {
		comma = strings.LastIndexByte(chain, ',')
		next := parseHop(chain[comma+1:])
		if !next.IsValid() {
			return hop
		}
		hop, chain = next, chain[:max(0, comma)]
	}
	return hop
}

func (h *handler) trusts(hop netip.Addr) bool {
	return slices.ContainsFunc(h.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(hop) })
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
