package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
)

// Lines tells on which line of a TOML document the value of a key begins, and an
// element of an array. The decoder knows the first, and says so in an error only.
type lines struct {
	mu        sync.Mutex // held by at: what it asks for is kept, and the decoder keeps count
	meta      toml.MetaData
	tables    map[string]map[string]toml.Primitive // by join(path), as far as they were asked for
	structure string                               // the document without its strings and comments
	order     map[string]int                       // join(path) → which key of the document that is
}

// element is how an element of an array is named in a path.
func element(i int) string { return fmt.Sprintf("[%d]", i) }

func join(path []string) string { return strings.Join(within([]string{""}, path...), "\x00") }

// locate returns the lines of a document that the decoder accepts.
func locate(text string) *lines {
	text = strings.TrimPrefix(text, "\ufeff")
	l := &lines{structure: withoutText(text), order: map[string]int{}}
	var root map[string]toml.Primitive
	l.meta, _ = toml.Decode(text, &root)
	l.tables = map[string]map[string]toml.Primitive{join(nil): root}
	for i, key := range l.meta.Keys() {
		for n := range key {
			if at := join(key[:n+1]); l.order[at] == 0 {
				l.order[at] = i + 1
			}
		}
	}
	return l
}

// at returns the line of a path, or of the nearest table around it where the
// path itself stands nowhere; 1 for the whole document.
func (l *lines) at(path []string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []toml.Primitive
	for n, key := range path {
		table, read := l.tables[join(path[:n])]
		if !read {
			table = l.tableOf(found[n-1])
			l.tables[join(path[:n])] = table
		}
		value, ok := table[key]
		if !ok {
			break
		}
		found = append(found, value)
	}
	if n := len(found); n > 0 && n+1 == len(path) {
		if line := l.elementLine(l.positionOf(found[n-1]), path[n]); line > 0 {
			return line
		}
	}
	for _, value := range slices.Backward(found) {
		if line := l.first(value); line > 0 { // the decoder loses the place of a key without a name
			return line
		}
	}
	return 1
}

// positionOf has the decoder say where a value stands; nowhere if it is a table that
// has no header.
func (l *lines) positionOf(value toml.Primitive) toml.Position {
	var at toml.ParseError
	errors.As(l.meta.PrimitiveDecode(value, unreadable{}), &at)
	return at.Position
}

type unreadable struct{}

func (unreadable) UnmarshalTOML(any) error { return errors.New("unreadable") }

// tableOf returns the values of a table, none if the value is no table.
func (l *lines) tableOf(value toml.Primitive) (values map[string]toml.Primitive) {
	_ = l.meta.PrimitiveDecode(value, &values)
	return values
}

// first returns the line of a value. A table without a header begins with the first
// of its keys.
func (l *lines) first(value toml.Primitive) int {
	line := l.positionOf(value).Line
	if line > 0 {
		return line
	}
	for _, below := range l.tableOf(value) {
		if at := l.first(below); line == 0 || at > 0 && at < line {
			line = at
		}
	}
	return line
}

// elementLine returns the line of an element of the array that begins at a position,
// 0 if there is no such thing.
func (l *lines) elementLine(array toml.Position, name string) int {
	if array.Line == 0 {
		return 0
	}
	rest := l.structure[max(0, array.Start-1):]
	before, rest, found := strings.Cut(rest, "[") // a table in braces has its key's position
	if !found || strings.Contains(before, "\n") {
		return 0
	}
	line, depth, n, between := array.Line, 0, 0, true
	for _, c := range rest {
		switch {
		case c == '\n':
			line++
		case strings.ContainsRune(" \t\r", c):
		case c == ',' && depth == 0:
			between = true
		case strings.ContainsRune("]}", c):
			if depth--; depth < 0 {
				return 0
			}
		default:
			if between && element(n) == name {
				return line
			}
			if between {
				n, between = n+1, false
			}
			if strings.ContainsRune("[{", c) {
				depth++
			}
		}
	}
	return 0
}
