package quota

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
)

// An ID names an entry of a log: 16 to 32 letters and digits. It is drawn for each entry; that of a request with an
// id of its own follows from that.
type ID string

// NewID draws an id.
func NewID() ID { return ID(rand.Text()[:16]) }

// idOf returns the id of the grant of a request key.
func idOf(key string) ID {
	sum := sha256.Sum256([]byte(key))
	return ID(base32.StdEncoding.EncodeToString(sum[:])[:20])
}

// valid reports whether the id is one.
func (id ID) valid() bool {
	if len(id) < 16 || len(id) > 32 {
		return false
	}
	for _, r := range id {
		if (r < 'A' || r > 'Z') && (r < '0' || r > '9') {
			return false
		}
	}
	return true
}

// GrantID is the public name of a grant: it carries its credential, so that a caller who settles needs nothing else.
func GrantID(credential string, id ID) string { return credential + ":" + string(id) }

// ParseGrantID returns the parts of a grant id.
func ParseGrantID(s string) (credential string, id ID, err error) {
	credential, rest, ok := strings.Cut(s, ":")
	if ok && CheckName(credential) == nil && ID(rest).valid() {
		return credential, ID(rest), nil
	}
	return "", "", fmt.Errorf("not a grant id: %.80q", s)
}
