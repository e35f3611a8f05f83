package proxy

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A secret is the key of an upstream. Only the requests to that upstream have it: in what an
// upstream answers it is overwritten, with as many asterisks as it has bytes there. It is
// found as it is, percent-encoded, and escaped as in JSON, wholly or in part. The empty one is found
// nowhere.
type secret string

// ownKeys returns what a client may have sent as a key of its own.
func (x *exchange) ownKeys() (keys []secret) {
	add := func(name string, values ...string) {
		name = strings.ToLower(name)
		isKey := func(word string) bool { return strings.Contains(name, word) }
		if !slices.ContainsFunc([]string{"key", "auth", "token", "secret", "cookie", "password", "sig"}, isKey) {
			return
		}
		for _, value := range values {
			for _, word := range append(strings.Fields(value), keysIn(value)...) {
				if len(word) >= leastKey {
					keys = append(keys, secret(word))
				}
			}
		}
	}
	for name, values := range x.header {
		add(name, values...)
	}
	query, _ := url.ParseQuery(x.query)
	for name, values := range query {
		add(name, values...)
	}
	return keys
}

// leastKey is the length from which a client's text is taken for a key: a word such as Bearer is none.
const leastKey = 8

// redact overwrites the secret in a text, and returns how many bytes of the text can be passed
// on: after them the secret may begin, and continue in what is yet to be read. With last, all
// of the text can.
func (s secret) redact(text []byte, last bool) int {
	if s == "" {
		return len(text)
	}
	for i := 0; i < len(text); {
		if c := text[i]; c != s[0] && c != '%' && c != '\\' {
			i++
			continue
		}
		n, open := s.begins(text[i:])
		switch {
		case n > 0:
			copy(text[i:i+n], strings.Repeat("*", n))
			i += n
		case open && !last:
			return i
		default:
			i++
		}
	}
	return len(text)
}

// begins returns how many bytes the secret has at the beginning of a text; 0: it is not
// there or, if open, the text ends before that is known.
func (s secret) begins(text []byte) (n int, open bool) {
	if exact := text[:min(len(text), len(s))]; string(exact) == string(s[:len(exact)]) {
		if len(exact) == len(s) {
			return len(s), false
		}
		return 0, true
	}
	for i := range len(s) {
		width, open := written(text[n:], s[i])
		if width == 0 {
			return 0, open
		}
		n += width
	}
	return n, false
}

// written returns how many bytes at the beginning of a text stand for c, as begins does.
func written(text []byte, c byte) (n int, open bool) {
	switch {
	case len(text) == 0:
		return 0, true
	case text[0] == '%':
		return numbered(text, 1, 2, c)
	case text[0] == '\\' && len(text) == 1:
		return 0, true
	case text[0] == '\\' && text[1] == 'u':
		return numbered(text, 2, 4, c)
	case text[0] == '\\' && text[1] == 'x':
		return numbered(text, 2, 2, c)
	case text[0] == '\\' && text[1] == c:
		return 2, false
	case text[0] == c:
		return 1, false
	}
	return 0, false
}

// numbered does the same for an escape: a mark, and the number of the byte in hexadecimal
// digits.
func numbered(text []byte, mark, digits int, c byte) (n int, open bool) {
	if len(text) < mark+digits {
		return 0, true
	}
	if number, err := strconv.ParseUint(string(text[mark:mark+digits]), 16, 16); err != nil || number != uint64(c) {
		return 0, false
	}
	return mark + digits, false
}

// redacted returns a text without the secret.
func (s secret) redacted(text string) string {
	if s == "" || !strings.Contains(text, string(s)) && !strings.ContainsAny(text, `%\`) {
		return text
	}
	bytes := []byte(text)
	s.redact(bytes, true)
	return string(bytes)
}

// redactError returns an error whose text does not hold the secret.
func (s secret) redactError(err error) error {
	if text := s.redacted(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

// redactHeader overwrites the secret in a header, and removes a field that is named by it.
func (s secret) redactHeader(h http.Header) {
	if s == "" {
		return
	}
	for name, values := range h {
		if len(name) >= len(s) && strings.Contains(strings.ToLower(name), strings.ToLower(string(s))) {
			delete(h, name)
			continue
		}
		for i, value := range values {
			values[i] = s.redacted(value)
		}
	}
}
