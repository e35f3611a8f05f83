package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// parseJSON reads one flat object: its values are strings, numbers, booleans
// and lists of strings. It is written by hand because encoding/json takes names
// in any case and twice, and rounds numbers; a fuzz test holds it to
// encoding/json in everything else.
func (f *Fields) parseJSON(body []byte) error {
	if !utf8.Valid(body) {
		return errNotUTF8
	}
	s := scanner{all: len(body), rest: body}
	if !s.take('{') {
		return errors.New("it is not an object")
	}
	for first := true; !s.take('}'); first = false {
		if !first && !s.take(',') {
			return s.unexpected()
		}
		v, err := s.member()
		if err != nil {
			return err
		}
		if err := f.add(v); err != nil {
			return err
		}
	}
	if s.space(); len(s.rest) > 0 {
		return errors.New("something follows the object")
	}
	return nil
}

// A scanner takes JSON from the front of rest.
type scanner struct {
	all  int // bytes in all
	rest []byte
}

// A syntaxError says where a body stops being JSON.
type syntaxError struct {
	offset int
	end    bool
}

func (e *syntaxError) Error() string {
	if e.end {
		return "it ends too early"
	}
	return fmt.Sprintf("byte %d cannot stand there", e.offset+1)
}

func (s *scanner) unexpected() error {
	return &syntaxError{offset: s.all - len(s.rest), end: len(s.rest) == 0}
}

func (s *scanner) space() { s.rest = bytes.TrimLeft(s.rest, " \t\r\n") }

// take takes one character behind any space, if it comes next.
func (s *scanner) take(c byte) bool {
	s.space()
	if len(s.rest) == 0 || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

func (s *scanner) member() (v field, err error) {
	if v.name, err = s.text(); err != nil {
		return v, err
	}
	if !s.take(':') {
		return v, s.unexpected()
	}
	switch s.space(); s.next() {
	case '"':
		v.kind = kindText
		v.text, err = s.text()
	case '[':
		v.kind = kindList
		v.items, err = s.list()
	case '{':
		err = fmt.Errorf("%.40q: an object cannot stand here", v.name)
	default:
		v.kind, v.text, err = s.literal()
	}
	return v, err
}

// next is the character that comes next, 0 at the end.
func (s *scanner) next() byte {
	if len(s.rest) == 0 {
		return 0
	}
	return s.rest[0]
}

// text takes a string.
func (s *scanner) text() (string, error) {
	if s.space(); s.next() != '"' {
		return "", s.unexpected()
	}
	escaped := false
	for i := 1; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case c == '"':
			return s.unquote(i+1, escaped)
		case c == '\\':
			escaped = true
			i++
		case c < ' ':
			s.rest = s.rest[i:]
			return "", s.unexpected()
		}
	}
	s.rest = nil
	return "", s.unexpected()
}

// unquote takes the string that is the next n bytes, quotes included.
func (s *scanner) unquote(n int, escaped bool) (string, error) {
	quoted := s.rest[:n]
	if !escaped {
		s.rest = s.rest[n:]
		return string(quoted[1 : n-1]), nil
	}
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return "", s.unexpected()
	}
	s.rest = s.rest[n:]
	return text, nil
}

// literal takes a number, true, false or null.
func (s *scanner) literal() (kind, string, error) {
	n := 0
	for n < len(s.rest) && isLiteral(s.rest[n]) {
		n++
	}
	text := string(s.rest[:n])
	if !json.Valid(s.rest[:n]) {
		return "", "", s.unexpected()
	}
	s.rest = s.rest[n:]
	switch text {
	case "true", "false":
		return kindBool, text, nil
	case "null":
		return kindNull, text, nil
	default:
		return kindNumber, text, nil
	}
}

func isLiteral(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == 'E' || c == '+' || c == '-' || c == '.'
}

// list takes a list of strings.
func (s *scanner) list() ([]string, error) {
	s.take('[')
	items := []string{}
	for !s.take(']') {
		if len(items) > 0 && !s.take(',') {
			return nil, s.unexpected()
		}
		if s.space(); s.next() != '"' && s.next() != 0 {
			return nil, errors.New("a list holds strings and nothing else")
		}
		item, err := s.text()
		if err != nil {
			return nil, err
		}
		if len(item) > maxText {
			return nil, fmt.Errorf("a string has at most %d bytes", maxText)
		}
		items = append(items, item)
	}
	return items, nil
}
