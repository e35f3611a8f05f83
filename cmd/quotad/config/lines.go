package config

import (
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// lines tells on which line of a TOML document each key begins, and each
// element of an array: the decoder keeps the positions of keys to itself. The
// element i of the array at a path stands at that path plus element(i).
type lines map[string]int

// element is how an element of an array is named in a path.
func element(i int) string { return fmt.Sprintf("[%d]", i) }

// at returns the line of a path, or of the nearest table around it where the
// path itself stands nowhere; 1 for the whole document.
func (l lines) at(path []string) int {
	for n := len(path); n > 0; n-- {
		if line, ok := l[join(path[:n])]; ok {
			return line
		}
	}
	return 1
}

func join(path []string) string { return strings.Join(path, "\x00") }

// locate finds the lines of a document that the decoder has accepted. In any
// other text the lines are guesses, but it comes to an end.
func locate(text string) lines {
	s := &scanner{rest: strings.TrimPrefix(text, "\ufeff"), line: 1, lines: lines{}, tables: map[string]int{}}
	var table []string
	for s.skip(blank); s.rest != ""; s.skip(blank) {
		if s.rest[0] == '[' {
			table = s.header()
			continue
		}
		s.pair(table)
	}
	return s.lines
}

const (
	space = " \t"
	blank = " \t\r\n"  // also comments, see skip
	comma = " \t\r\n," // what stands between the elements of arrays and inline tables
)

// A scanner walks over a document from left to right.
type scanner struct {
	rest   string
	line   int // of rest
	lines  lines
	tables map[string]int // path of an array of tables → its elements so far
}

// header reads "[a.b]" or "[[a.b]]" and returns the table that it opens.
func (s *scanner) header() []string {
	line := s.line
	s.take(1)
	array := strings.HasPrefix(s.rest, "[")
	if array {
		s.take(1)
	}
	keys := s.key(']')
	s.skip(space + "]")
	return s.open(keys, array, line)
}

// open resolves the keys of a header: below an array of tables they mean its
// last element.
func (s *scanner) open(keys []string, array bool, line int) []string {
	var path []string
	for i, key := range keys {
		path = append(path, key)
		s.record(path, line)
		if array && i == len(keys)-1 {
			s.tables[join(path)]++
		}
		if n := s.tables[join(path)]; n > 0 {
			path = append(path, element(n-1))
			s.record(path, line)
		}
	}
	return path
}

// pair reads "a.b = value" within a table.
func (s *scanner) pair(table []string) {
	line := s.line
	path := append([]string(nil), table...)
	for _, key := range s.key('=') {
		path = append(path, key)
		s.record(path, line)
	}
	s.skip(space + "=")
	s.value(path)
}

// key reads a dotted key, up to the character that ends it.
func (s *scanner) key(end byte) []string {
	var keys []string
	for s.skip(space + "."); s.rest != "" && s.rest[0] != end; s.skip(space + ".") {
		if quote := s.rest[0]; quote == '"' || quote == '\'' {
			keys = append(keys, unquote(s.quoted(s.rest[:1])))
			continue
		}
		n := strings.IndexAny(s.rest, " \t\r\n.=]\"'")
		switch {
		case n < 0:
			n = len(s.rest)
		case n == 0: // not a key: step over it
			s.take(1)
			continue
		}
		keys = append(keys, s.take(n))
	}
	return keys
}

// value reads the value at a path.
func (s *scanner) value(path []string) {
	if s.rest == "" {
		return
	}
	switch first := s.rest[0]; first {
	case '"', '\'':
		quote := s.rest[:1]
		if long := strings.Repeat(quote, 3); strings.HasPrefix(s.rest, long) {
			quote = long
		}
		s.quoted(quote)
	case '[':
		s.array(path)
	case '{':
		s.inline(path)
	default: // a number, a boolean, a date: none spans lines
		n := strings.IndexAny(s.rest, ",]}#\r\n")
		if n < 0 {
			n = len(s.rest)
		}
		s.take(max(n, 1))
	}
}

func (s *scanner) array(path []string) {
	s.take(1)
	i := 0
	for s.skip(comma); s.rest != "" && s.rest[0] != ']'; s.skip(comma) {
		at := append(path[:len(path):len(path)], element(i))
		s.record(at, s.line)
		s.value(at)
		i++
	}
	s.take(1)
}

func (s *scanner) inline(path []string) {
	s.take(1)
	for s.skip(comma); s.rest != "" && s.rest[0] != '}'; s.skip(comma) {
		s.pair(path)
	}
	s.take(1)
}

// quoted reads a string with its quotes, which are one or three characters.
func (s *scanner) quoted(quote string) string {
	n := len(quote)
	for n < len(s.rest) && !strings.HasPrefix(s.rest[n:], quote) {
		if s.rest[n] == '\\' && quote[0] == '"' {
			n++
		}
		n++
	}
	n += len(quote)
	if len(quote) == 3 { // up to two quotes may stand before the closing ones
		for range 2 {
			if n < len(s.rest) && s.rest[n] == quote[0] {
				n++
			}
		}
	}
	return s.take(n)
}

// skip steps over any of the characters and, where it may cross lines, over comments.
func (s *scanner) skip(characters string) {
	for s.rest != "" {
		switch {
		case strings.Contains(characters, s.rest[:1]):
			s.take(1)
		case s.rest[0] == '#' && strings.Contains(characters, "\n"):
			n := strings.IndexByte(s.rest, '\n')
			if n < 0 {
				n = len(s.rest)
			}
			s.take(n)
		default:
			return
		}
	}
}

// take steps over n bytes and returns them.
func (s *scanner) take(n int) string {
	n = min(n, len(s.rest))
	taken := s.rest[:n]
	s.rest = s.rest[n:]
	s.line += strings.Count(taken, "\n")
	return taken
}

// record keeps the first line on which a path stands.
func (s *scanner) record(path []string, line int) {
	if at := join(path); s.lines[at] == 0 {
		s.lines[at] = line
	}
}

// unquote lets the decoder read a quoted key: its escapes are those of strings.
func unquote(quoted string) string {
	var document struct{ Key string }
	if _, err := toml.Decode("key = "+quoted, &document); err != nil {
		return quoted
	}
	return document.Key
}
