package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// An Error is one thing that is wrong with a configuration file.
type Error struct {
	File    string
	Line    int    // of the key, or of the nearest table around it; from 1
	Key     string // as TOML writes it: credentials.youtube.operations."videos.list"; may be empty
	Message string // what is wrong and what would be right
}

func (e Error) Error() string { return e.text("") }

// Warning returns the line for what is not wrong: editors and people look for the word.
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

// at says something of a key of the file.
func (c *Config) at(path []string, format string, args ...any) Error {
	return Error{File: c.File, Line: c.lines.at(path), Key: keyAt(path), Message: fmt.Sprintf(format, args...)}
}

func (e Errors) sort() {
	slices.SortFunc(e, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Message, b.Message))
	})
}
