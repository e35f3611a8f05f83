package config

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"quotad/quota"
)

// A table reads the keys of one TOML table. A value that cannot be read is
// noted in the document, and a harmless one is returned in its place, so that
// no second error follows from the first.
type table struct {
	document *document
	path     []string
	values   map[string]any // nil: the table does not stand in the file
	known    []string       // the keys that were asked for, see end
}

// at is the path of a key.
func (t *table) at(key ...string) []string {
	return append(t.path[:len(t.path):len(t.path)], key...)
}

// fail notes what is wrong with the value of a key.
func (t *table) fail(key, format string, args ...any) {
	t.document.fail(t.at(key), format, args...)
}

// warn notes what is not wrong, but hardly meant.
func (t *table) warn(key, format string, args ...any) {
	t.document.warnings = append(t.document.warnings, t.document.at(t.at(key), format, args...))
}

// has tells whether a key stands in the table.
func (t *table) has(key string) bool {
	t.known = append(t.known, key)
	_, ok := t.values[key]
	return ok
}

// adopt notes what a check of the values found, except where a value was noted
// already and the check saw its substitute.
func (t *table) adopt(wrong []*quota.FieldError) {
	noted := t.document.errors
	for _, one := range wrong {
		path := t.at(one.Path...)
		if !slices.ContainsFunc(noted, func(e Error) bool { return e.Key == keyAt(path) }) {
			t.document.fail(path, "%s", one.Message)
		}
	}
}

// require notes a missing key, with an example of what to write.
func (t *table) require(key, example string) {
	if !t.has(key) {
		t.fail(key, "is missing: add %s = %s", key, example)
	}
}

// end notes every key that nobody asked for.
func (t *table) end() {
	for key := range t.values {
		if !slices.Contains(t.known, key) {
			t.fail(key, "unknown key%s", suggest(key, t.known))
		}
	}
}

// names returns the keys in the order of the file.
func (t *table) names() []string {
	names := slices.Collect(maps.Keys(t.values))
	order := t.document.lines.order
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Compare(order[join(t.at(a))], order[join(t.at(b))])
	})
	t.known = append(t.known, names...)
	return names
}

// read returns the value of a key if it stands there and is of the type. What
// the type is called is for the error.
func read[T any](t *table, key, called string) (value T, ok bool) {
	if !t.has(key) {
		return value, false
	}
	value, ok = t.values[key].(T)
	if !ok {
		t.fail(key, "must be %s, not %s", called, describe(t.values[key]))
	}
	return value, ok
}

func (t *table) text(key, fallback string) string {
	if text, ok := read[string](t, key, "a string in quotes"); ok {
		return text
	}
	return fallback
}

// oneOf returns a string that must be one of the choices.
func (t *table) oneOf(key, fallback string, choices ...string) string {
	text, ok := read[string](t, key, "one of "+quoted(choices))
	if ok && !slices.Contains(choices, text) {
		t.fail(key, "must be one of %s, not %q", quoted(choices), text)
		return fallback
	}
	return cmp.Or(text, fallback)
}

func (t *table) flag(key string) bool {
	flag, _ := read[bool](t, key, "true or false")
	return flag
}

func (t *table) integer(key string, fallback int64) int64 {
	if n, ok := read[int64](t, key, "a whole number"); ok {
		return n
	}
	return fallback
}

func (t *table) units(key string, fallback quota.Units) quota.Units {
	return quota.Units(t.integer(key, int64(fallback)))
}

// duration returns a duration above zero.
func (t *table) duration(key string, fallback time.Duration) time.Duration {
	d, ok := t.span(key)
	if ok && d == 0 {
		t.fail(key, "must be longer than zero")
	}
	if !ok || d == 0 {
		return fallback
	}
	return d
}

// span returns a duration, which may be zero, if there is one.
func (t *table) span(key string) (d time.Duration, ok bool) {
	text, ok := read[string](t, key, "a duration in quotes, "+durationExamples)
	if !ok {
		return 0, false
	}
	d, err := parseDuration(text)
	if err != nil {
		t.fail(key, "%v", err)
	}
	return d, err == nil
}

// texts returns an array of strings; nil when it is absent or is none.
func (t *table) texts(key string) []string {
	array, _ := read[[]any](t, key, `an array of strings, such as ["one", "two"]`)
	var texts []string
	for i, value := range array {
		text, ok := value.(string)
		if !ok {
			t.document.fail(t.at(key, element(i)), "must hold strings in quotes, not %s", describe(value))
			continue
		}
		texts = append(texts, text)
	}
	return texts
}

// table returns the table at a key; an absent one reads as empty.
func (t *table) table(key string) *table {
	values, _ := read[map[string]any](t, key, "a table, ["+keyAt(t.at(key))+"]")
	return &table{document: t.document, path: t.at(key), values: values}
}

// tables returns the tables at the keys, which are names, in the order of the file.
// Where something else stands, somebody forgot the name.
func (t *table) tables(example string) map[string]*table {
	tables := map[string]*table{}
	for _, name := range t.names() {
		if _, ok := t.values[name].(map[string]any); !ok {
			t.fail(name, "stands in no table of its own: give that a name, such as [%s]", keyAt(t.at(example)))
			return nil
		}
		tables[name] = t.table(name)
	}
	return tables
}

// suggest ends an error about an unknown name: with the known one that was
// probably meant, or with all of them.
func suggest(unknown string, known []string) string {
	if nearest := quota.Nearest(unknown, known); nearest != "" {
		return fmt.Sprintf(": did you mean %q?", nearest)
	}
	if len(known) == 0 {
		return ""
	}
	known = slices.Compact(slices.Sorted(slices.Values(known)))
	return ": known are " + quoted(known)
}

// quoted lists names.
func quoted(names []string) string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = strconv.Quote(name)
	}
	return strings.Join(list, ", ")
}

// describe says what a decoded value is.
func describe(value any) string {
	switch value := value.(type) {
	case string:
		return fmt.Sprintf("the string %q", value)
	case float64:
		if value == math.Trunc(value) && math.Abs(value) <= float64(quota.MaxUnits) { // 1e4, for instance
			return fmt.Sprintf("the fraction %.1f: write %d", value, int64(value))
		}
		return fmt.Sprint(value)
	case int64, bool:
		return fmt.Sprint(value)
	case []any:
		return "an array"
	case map[string]any:
		return "a table"
	case []map[string]any:
		return "an array of tables"
	default:
		return "a date or time"
	}
}

// unquoted returns the names that were meant where the value of a key is tables in
// each other: in videos.list = 1, which is videos = { list = 1 }, somebody forgot the
// quotes. A table that holds one of the keys that may stand there is another matter,
// and so is a name that stands in quotes.
func unquoted(t *table, key string, may map[string]any) []string {
	values, ok := t.values[key].(map[string]any)
	if !ok || strings.Contains(key, ".") {
		return nil
	}
	var names []string
	for _, below := range slices.Sorted(maps.Keys(values)) {
		if _, known := may[below]; known || quota.Nearest(below, slices.Collect(maps.Keys(may))) != "" {
			return nil
		}
		inner := unquoted(&table{values: values}, below, nil)
		if inner == nil {
			inner = []string{below}
		}
		for _, name := range inner {
			names = append(names, key+"."+name)
		}
	}
	return names
}

func (t *table) failUnquoted(key string, names []string) {
	t.fail(key, "must not be a table: an operation with a dot in its name stands in quotes, %s", quoted(names))
}
