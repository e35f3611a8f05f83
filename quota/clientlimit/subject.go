package clientlimit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"net/netip"
	"strconv"
	"strings"
)

// A Key is the name under which a ledger keeps a subject: bytes, at most maxPlain and one.
type Key string

// SecretSize is how many bytes the secret of a KeyOf has.
const SecretSize = 32

// maxPlain is how long a subject may be that is kept as it is.
const maxPlain = 64

// hashSize bytes distinguish 2^64 subjects.
const hashSize = 16

// KeyOf returns the key of a subject of any bytes and length: a keyed hash, so that a reader of the
// ledger learns no subject. A plain one is kept as it is, unless it is an address or a network
// ("2001:db8::/64"), or longer than 64 bytes. The same address in another notation has the same key.
func KeyOf(secret []byte, text string, plain bool) Key {
	return subjectOf(text).key(hmac.New(sha256.New, secret), plain)
}

// A subject is what its kind is, and its one notation.
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

// key returns the key of a subject by a keyed hash, which it resets.
func (s subject) key(keyed hash.Hash, plain bool) Key {
	if plain && s.kind == named && len(s.text) <= maxPlain {
		return Key("=" + s.text)
	}
	keyed.Reset()
	keyed.Write([]byte(s.kind + s.text))
	return Key("#" + string(keyed.Sum(nil)[:hashSize]))
}

// isPlain reports whether a key depends on no secret.
func (k Key) isPlain() bool { return strings.HasPrefix(string(k), "=") }

// Text returns what people see of a key: the subject, with escapes for what is not printable, or
// the hash in hex if that is what is kept.
func (k Key) Text() (subject, hash string) {
	if name, plain := strings.CutPrefix(string(k), "="); plain {
		quoted := strconv.Quote(name)
		return quoted[1 : len(quoted)-1], ""
	}
	return "", hex.EncodeToString([]byte(strings.TrimPrefix(string(k), "#")))
}
