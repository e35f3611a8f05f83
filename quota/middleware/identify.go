package middleware

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Identify returns the subject whose budget a request spends, or "" where it cannot
// tell. Two kinds of subjects must not be alike: a user who may call himself 192.0.2.1
// would spend what the client at that address has.
type Identify func(*http.Request) (subject string)

// ByHeader identifies callers by an API key in a header. The subject is "key:" and a
// digest of the key: the daemon never sees the key.
//
// Whoever makes up a new key has a new budget: have keys checked before they get here.
func ByHeader(name string) Identify {
	return func(r *http.Request) string {
		if key := r.Header.Get(name); key != "" {
			return "key:" + digest(key)
		}
		return ""
	}
}

// ByUser identifies callers by a name that is yours, that of the session or of the
// verified token, and "" for those who have none. The subject is "user:" and the name.
func ByUser(name func(*http.Request) string) Identify {
	return func(r *http.Request) string {
		if user := name(r); user != "" {
			return "user:" + user
		}
		return ""
	}
}

// unidentified is the subject that callers share whom nothing tells apart.
const unidentified = "unidentified"

// maxSubject is how long a subject may be that the daemon keeps as it is.
const maxSubject = 64

// bounded returns a subject that the daemon takes whatever a client sent: one that is
// longer than 64 bytes, not printable or begins with '#' becomes '#' and its digest.
func bounded(subject string) string {
	if len(subject) > maxSubject || strings.HasPrefix(subject, "#") || !isPrintable(subject) {
		return "#" + digest(subject)
	}
	return subject
}

// digest tells 2^64 texts apart, and not what they were.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

func isPrintable(text string) bool {
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return utf8.ValidString(text)
}
