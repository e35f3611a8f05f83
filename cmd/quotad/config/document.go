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
)

// A document is a configuration file while it is being read. It collects the errors,
// so that one reading shows all of them.
type document struct {
	file     string
	dir      string // of the file: relative paths in it begin there
	host     Host
	line     map[string]int // of each key, by join(path)
	order    map[string]int // join(path) → number of the key in the document, from 1
	errors   Errors
	later    Errors // of a file without other errors, from which these may follow
	warnings Errors
}

// parse reads TOML; the error is an Errors.
func (d *document) parse(text string) (values map[string]any, err error) {
	var whole toml.Primitive
	meta, err := toml.Decode(text, &whole)
	if err == nil {
		err = meta.PrimitiveDecode(whole, &values)
	}
	if err != nil {
		return nil, Errors{d.syntaxError(text, err)}
	}
	d.line, d.order = map[string]int{}, map[string]int{}
	d.locate(&meta, nil, whole)
	for i, key := range meta.Keys() {
		for n := range key { // a table without a header begins with its first key
			at := join(key[:n+1])
			d.order[at] = cmp.Or(d.order[at], i+1)
			d.line[at] = cmp.Or(d.line[at], d.line[join(key)])
		}
	}
	return values, nil
}

// locate records the line of a value and of each key within it. The TOML package says it of a value that cannot be
// decoded, as no value can into a channel.
func (d *document) locate(meta *toml.MetaData, path []string, value toml.Primitive) {
	var line int
	_, _ = fmt.Sscanf(meta.PrimitiveDecode(value, new(chan int)).Error(), "toml: line %d", &line)
	d.line[join(path)] = line
	var below map[string]toml.Primitive
	if meta.PrimitiveDecode(value, &below) == nil {
		for name, one := range below {
			d.locate(meta, within(path, name), one)
		}
	}
}

func join(path []string) string { return strings.Join(path, "\x00") }

// lineOf returns the line of a path, or of the nearest table around it if the path has no line; 1 for the whole document.
func (d *document) lineOf(path []string) int {
	for n := len(path); n > 0; n-- {
		if line := d.line[join(path[:n])]; line > 0 {
			return line
		}
	}
	return 1
}

// alreadyDefined matches the error of a key that is written twice, groupedNumber a number as people write it elsewhere,
// bareDuration a duration without its quotes.
var (
	alreadyDefined = regexp.MustCompile(`^Key '(.+)' has already been defined`)
	groupedNumber  = regexp.MustCompile(`=\s*\d+([,.' ]\d{3}|\s?[kKmM]\b)`)
	bareDuration   = regexp.MustCompile(`(every|wait|after|stagger|timeout|window|keep|deadline|drain)\s*=\s*\d+[a-z]`)
)

// syntaxError says what is wrong, and the cure of a frequent mistake.
func (d *document) syntaxError(text string, err error) Error {
	var at toml.ParseError
	if !errors.As(err, &at) {
		return Error{File: d.file, Line: 1, Message: err.Error()}
	}
	rows := strings.Split(text, "\n")
	line := min(max(at.Position.Line, 1), len(rows))
	message := "not TOML: " + at.Message
	switch row := rows[line-1]; {
	case alreadyDefined.MatchString(at.Message):
		before, key := &document{}, alreadyDefined.FindStringSubmatch(at.Message)[1]
		before.parse(strings.Join(rows[:line-1], "\n")) // it was good so far
		for path, first := range before.line {
			if keyAt(strings.Split(path, "\x00")) == key {
				message = fmt.Sprintf("%s on line %d: remove one of the two", strings.TrimSuffix(message, "."), first)
			}
		}
	case bareDuration.MatchString(row):
		message += `; a duration is in quotes, "90s"`
	case groupedNumber.MatchString(row):
		message += "; a large number is written 10_000"
	case strings.ContainsAny(row, "“”„‘’"):
		message += `; a string is in plain quotes, "…"`
	case strings.Contains(row, ";"):
		message += "; a comment begins with #"
	}
	return Error{File: d.file, Line: line, Key: at.LastKey, Message: message}
}

// at returns what is to be said of the value at a path.
func (d *document) at(path []string, format string, args ...any) Error {
	return Error{File: d.file, Line: d.lineOf(path), Key: keyAt(path), Message: fmt.Sprintf(format, args...)}
}

// inOrder returns the keys of a table in the order of the file.
func (d *document) inOrder(path []string, values map[string]any) []string {
	return slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		// The keys of a preset are on no line: they come first, by name.
		return cmp.Or(cmp.Compare(d.order[join(within(path, a))], d.order[join(within(path, b))]), cmp.Compare(a, b))
	})
}

// isInFile reports whether a key is in the file, not only in a preset.
func (d *document) isInFile(path []string) bool { return d.order[join(path)] > 0 }

// absolute resolves a path of the file.
func (d *document) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(d.dir, path)
}

// keyAt writes a path as TOML does.
func keyAt(path []string) string { return toml.Key(path).String() }

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
