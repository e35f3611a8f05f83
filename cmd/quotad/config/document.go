package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// A document is a configuration file while it is being read. What is wrong with
// it is collected, so that one reading shows everything.
type document struct {
	file   string
	lines  lines
	errors Errors
}

// parse reads TOML; the error is an Errors.
func parse(file, text string) (*document, *table, error) {
	values := map[string]any{}
	if _, err := toml.Decode(text, &values); err != nil {
		return nil, nil, Errors{syntaxError(file, err)}
	}
	d := &document{file: file, lines: locate(text)}
	return d, &table{document: d, values: values}, nil
}

func syntaxError(file string, err error) Error {
	var at toml.ParseError
	if !errors.As(err, &at) {
		return Error{File: file, Line: 1, Message: err.Error()}
	}
	return Error{File: file, Line: max(at.Position.Line, 1), Key: at.LastKey, Message: "not TOML: " + at.Message}
}

// fail notes what is wrong with the value at a path.
func (d *document) fail(path []string, format string, args ...any) {
	d.errors = append(d.errors, Error{
		File:    d.file,
		Line:    d.lines.at(path),
		Key:     keyAt(path),
		Message: fmt.Sprintf(format, args...),
	})
}

// keyAt writes a path as TOML does. Which element of an array is meant shows in
// the line alone.
func keyAt(path []string) string {
	var key toml.Key
	for _, part := range path {
		if !strings.HasPrefix(part, "[") {
			key = append(key, part)
		}
	}
	return key.String()
}
