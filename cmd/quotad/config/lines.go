package config

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/BurntSushi/toml"
)

// Lines has the line of each key of a document, and of each element of an array. The TOML
// package returns the keys in their order, but not their lines.
type lines struct {
	line  map[string]int // by join(path)
	order map[string]int // join(path) → number of the key in the document, from 1
}

// element returns the name of an element of an array in a path.
func element(i int) string { return fmt.Sprintf("[%d]", i) }

func join(path []string) string { return strings.Join(path, "\x00") }

// at returns the line of a path, or of the nearest table around it if the path has no line;
// 1 for the whole document.
func (l *lines) at(path []string) int {
	for n := len(path); n > 0; n-- {
		if line := l.line[join(path[:n])]; line > 0 {
			return line
		}
	}
	return 1
}

// locate returns the lines of a document that the TOML package accepted, from the keys that the
// package returned. Each key has one '=' outside of strings, or the bracket of a header. A table
// without a header begins with its first key.
func locate(structure string, keys []toml.Key) *lines {
	l := &lines{line: map[string]int{}, order: map[string]int{}}
	s := scan{lines: l, keys: keys}
	for i, row := range strings.Split(structure, "\n") {
		s.row(i+1, row)
	}
	for i, key := range keys {
		for n := range key {
			at := join(key[:n+1])
			if l.order[at] == 0 {
				l.order[at] = i + 1
			}
			if l.line[at] == 0 {
				l.line[at] = l.line[join(key)]
			}
		}
	}
	return l
}

// A scan reads the structure of a document.
type scan struct {
	*lines
	keys []toml.Key // that are still to come
	last []string   // the key or the element that was read last
	open []bracket
}

// A bracket is open: one of an array, or the brace of a table.
type bracket struct {
	array   []string // the path of the array; nil: a table
	n       int      // how many elements have begun
	between bool     // the next one has not
}

func (s *scan) row(line int, row string) {
	if len(s.open) == 0 && strings.HasPrefix(strings.TrimLeft(row, " \t"), "[") {
		s.key(line)
		return
	}
	for _, c := range row {
		var in *bracket
		if n := len(s.open); n > 0 {
			in = &s.open[n-1]
		}
		switch {
		case strings.ContainsRune(" \t\r", c):
		case c == '=':
			s.key(line)
		case in != nil && strings.ContainsRune("]}", c):
			s.open = s.open[:len(s.open)-1]
		case in != nil && c == ',':
			in.between = in.array != nil
		default:
			if in != nil && in.between {
				s.last = within(in.array, element(in.n))
				s.found(line)
				in.n, in.between = in.n+1, false
			}
			switch c {
			case '[':
				s.open = append(s.open, bracket{array: s.last, between: true})
			case '{':
				s.open = append(s.open, bracket{})
			}
		}
	}
}

func (s *scan) key(line int) {
	if len(s.keys) > 0 {
		s.last, s.keys = s.keys[0], s.keys[1:]
		s.found(line)
	}
}

// found records the line of the last key or element. A path that occurs twice, in an array of tables,
// keeps its first line.
func (s *scan) found(line int) {
	if at := join(s.last); s.line[at] == 0 {
		s.line[at] = line
	}
}

// maxDepth is how deeply tables and arrays may be nested. The time and memory of the TOML package
// grow with the square of the depth.
const maxDepth = 32

var (
	// noStructure matches strings and comments, in which brackets and dots have no meaning.
	noStructure = regexp.MustCompile(`"""(?s:\\.|[^\\])*?"{3,5}|'''(?s:.*?)'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|#[^\n]*`)
	// longKey matches a dotted key with too many parts, or text that looks like one.
	longKey = regexp.MustCompile(fmt.Sprintf(`(?:[\w-]+[ \t]*\.[ \t]*){%d}`, maxDepth))
)

// tooDeep returns the first line that is nested too deeply, or 0.
func tooDeep(structure string) (line int) {
	depth := 0
	for i, row := range strings.Split(structure, "\n") {
		for _, c := range row {
			switch c {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(0, depth-1)
			}
			if depth > maxDepth {
				return i + 1
			}
		}
		if longKey.MatchString(row) {
			return i + 1
		}
	}
	return 0
}

// structureOf returns a document with the text of its strings replaced, without comments and
// without a byte order mark. Everything keeps its line.
func structureOf(document string) string {
	return noStructure.ReplaceAllStringFunc(strings.TrimPrefix(document, "\ufeff"), func(s string) string {
		filler := "s"
		if s[0] == '#' {
			filler = ""
		}
		return filler + strings.Repeat("\n", strings.Count(s, "\n")) + filler
	})
}
