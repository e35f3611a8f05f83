package clientlimit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
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

// hashSize bytes tell 2^64 subjects apart.
const hashSize = 16

// KeyOf returns the key of a subject of any bytes and length: a keyed hash, so that who reads the
// ledger learns no subject. A plain one is kept as it is, unless it is an address or a network
// ("2001:db8::/64"), or longer than 64 bytes. The same address in another notation has the same key.
func KeyOf(secret []byte, subject string, plain bool) Key {
	kind, text := canonical(subject)
	if kind != named || !plain || len(subject) > maxPlain {
		return hashed(secret, kind, text)
	}
	return Key("=" + subject)
}

// named is the kind of a subject that is neither an address nor a network.
const named = "s"

// canonical returns what a subject is, and its one notation.
func canonical(subject string) (kind, text string) {
	if address, err := netip.ParseAddr(subject); err == nil {
		return "a", address.Unmap().String()
	}
	if network, err := netip.ParsePrefix(subject); err == nil {
		return "n", network.Masked().String()
	}
	return named, subject
}

// isPlain tells a key that depends on no secret.
func (k Key) isPlain() bool { return strings.HasPrefix(string(k), "=") }

func hashed(secret []byte, kind, text string) Key {
	hash := hmac.New(sha256.New, secret)
	hash.Write([]byte(kind))
	hash.Write([]byte(text))
	return Key("#" + string(hash.Sum(nil)[:hashSize]))
}

// Text returns what people are told of a key: the subject, with escapes for what is not
// printable, or the hash of one that is kept as such, in hex.
func (k Key) Text() (subject, hash string) {
	if name, plain := strings.CutPrefix(string(k), "="); plain {
		quoted := strconv.Quote(name)
		return quoted[1 : len(quoted)-1], ""
	}
	return "", hex.EncodeToString([]byte(strings.TrimPrefix(string(k), "#")))
}
