package middleware

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Identify returns the subject whose budget a request spends, or "" where it does not know.
// Two kinds of subjects must not be alike: a user named 192.0.2.1 would spend the budget of
// the client at that address.
type Identify func(*http.Request) (subject string)

// ByHeader identifies callers by an API key in a header. The subject is "key:" and a
// digest of the key: the daemon never sees the key.
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

// ByUser identifies callers by a name that you return, from the session or a verified token;
// "" for a caller without one. The subject is "user:" and the name.
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

// maxSubject is the length of the longest subject that the daemon keeps as it is.
const maxSubject = 64

// bounded returns a subject that the daemon accepts whatever a client sent: one that is
// longer than 64 bytes, not printable or begins with '#' becomes '#' and its digest.
func bounded(subject string) string {
	isUnprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	if len(subject) > maxSubject || strings.HasPrefix(subject, "#") || !utf8.ValidString(subject) || strings.ContainsFunc(subject, isUnprintable) {
		return "#" + digest(subject)
	}
	return subject
}

// digest distinguishes 2^64 texts, and does not reveal them.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}
