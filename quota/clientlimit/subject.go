package clientlimit

import (
	"encoding/hex"
	"hash"
	"net/netip"
	"strings"
)

// A Key is the name under which a ledger keeps a subject: bytes, at most maxPlain and one.
type Key string

// maxPlain is how long a subject may be that is kept as it is.
const maxPlain = 64

// hashSize bytes distinguish 2^64 subjects.
const hashSize = 16

// A subject is what its kind is, and its one notation: the same address in another one has the same
// key.
type subject struct{ kind, text string }

// named is the kind of a subject that is neither an address nor a network.
const named = "s"

func subjectOf(text string) subject {
	if address, err := netip.ParseAddr(text); err == nil {
		return subject{"a", address.Unmap().String()}
	}
	if network, err := netip.ParsePrefix(text); err == nil {
		return subject{"n", network.Masked().String()}
	}
	return subject{named, text}
}

// key returns the key of a subject in a group by a keyed hash, which it resets, so that a reader of
// the ledger learns no subject. A plain one is kept as it is, unless it is an address or a network
// ("2001:db8::/64"), or longer than 64 bytes.
func (s subject) key(keyed hash.Hash, group string, plain bool) Key {
	if plain && s.kind == named && len(s.text) <= maxPlain {
		return Key("=" + s.text)
	}
	keyed.Reset()
	keyed.Write([]byte(group + "\x00" + s.kind + s.text))
	return Key("#" + string(keyed.Sum(nil)[:hashSize]))
}

// isPlain reports whether a key depends on no secret.
func (k Key) isPlain() bool { return strings.HasPrefix(string(k), "=") }

// Hash returns the hash in hex, or nothing if the subject is kept as it is.
func (k Key) Hash() string {
	if k.isPlain() {
		return ""
	}
	return hex.EncodeToString([]byte(strings.TrimPrefix(string(k), "#")))
}
