package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"quotad/jobs/plan"
)

// A document is a configuration file while it is being read. It collects the errors,
// so that one reading shows all of them.
type document struct {
	file     string
	dir      string // of the file: relative paths in it begin there
	host     Host
	lines    *lines
	errors   Errors
	later    Errors // of a file without other errors, from which these may follow
	warnings Errors

	fits func() []plan.Fit // computes them once
}

// parse reads TOML; the error is an Errors.
func (d *document) parse(text string) (map[string]any, error) {
	structure := structureOf(text)
	if line := tooDeep(structure); line > 0 {
		return nil, Errors{{File: d.file, Line: line, Message: fmt.Sprintf("tables and arrays lie more than %d deep here: is a bracket or a brace not closed?", maxDepth)}}
	}
	values := map[string]any{}
	meta, err := toml.Decode(text, &values)
	if err != nil {
		return nil, Errors{d.syntaxError(text, err)}
	}
	d.lines = locate(structure, meta.Keys())
	return values, nil
}

func (d *document) syntaxError(text string, err error) Error {
	var at toml.ParseError
	if !errors.As(err, &at) {
		return Error{File: d.file, Line: 1, Message: err.Error()}
	}
	line := max(at.Position.Line, 1)
	return Error{File: d.file, Line: line, Key: at.LastKey, Message: "not TOML: " + at.Message + cureOfSyntax(strings.Split(text, "\n")[line-1])}
}

// groupedNumber matches a number as people write it, elsewhere than in TOML.
var groupedNumber = regexp.MustCompile(`=\s*\d+([,.' ]\d{3}|\s?[kKmM]\b)`)

// cureOfSyntax says what to write instead of a frequent mistake.
func cureOfSyntax(line string) string {
	switch {
	case groupedNumber.MatchString(line):
		return "; a large number is written 10_000"
	case strings.ContainsAny(line, "“”„‘’"):
		return `; a string is in plain quotes, "…"`
	case strings.Contains(line, ";"):
		return "; a comment begins with #"
	}
	return ""
}

// at returns what is to be said of the value at a path.
func (d *document) at(path []string, format string, args ...any) Error {
	return Error{File: d.file, Line: d.lines.at(path), Key: keyAt(path), Message: fmt.Sprintf(format, args...)}
}

// inOrder returns the keys of a table in the order of the file.
func (d *document) inOrder(path []string, values map[string]any) []string {
	return slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		// The keys of a preset are on no line: they come first, by name.
		return cmp.Or(cmp.Compare(d.lines.order[join(within(path, a))], d.lines.order[join(within(path, b))]), cmp.Compare(a, b))
	})
}

// isInFile reports whether a key is in the file, not only in a preset.
func (d *document) isInFile(path []string) bool { return d.lines.order[join(path)] > 0 }

// absolute resolves a path of the file.
func (d *document) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(d.dir, path)
}

// keyAt writes a path as TOML does. It leaves out the elements of arrays, which
// only the line shows.
func keyAt(path []string) string {
	var key toml.Key
	for _, part := range path {
		if !strings.HasPrefix(part, "[") {
			key = append(key, part)
		}
	}
	return key.String()
}

// An Error is one thing that is wrong with a configuration file.
type Error struct {
	File    string
	Line    int    // of the key, or of the nearest table around it; from 1
	Key     string // as TOML writes it: credentials.youtube.operations."videos.list"; may be empty
	Message string // what is wrong and what would be right
}

func (e Error) Error() string { return e.text("") }

// Warning returns the line for what is no error: editors and people look for the word.
func (e Error) Warning() string { return e.text("warning: ") }

func (e Error) text(before string) string {
	if e.Key != "" {
		before += e.Key + ": "
	}
	return fmt.Sprintf("%s:%d: %s%s", e.File, e.Line, before, e.Message)
}

// Errors is everything that is wrong with a configuration file, in the order of
// its lines.
type Errors []Error

// Error returns one line for each error.
func (e Errors) Error() string {
	texts := make([]string, len(e))
	for i, one := range e {
		texts[i] = one.Error()
	}
	return strings.Join(texts, "\n")
}

func (e Errors) sort() {
	slices.SortFunc(e, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Message, b.Message))
	})
}
