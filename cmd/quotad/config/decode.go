package config

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"quotad/jobs/process"
	"quotad/quota"
	"quotad/quota/upstream"
	"quotad/regions"
)

// The TOML package can fill structs, but then it ignores the case of keys, stops at the first value
// of a wrong type without naming that value, and cannot merge presets. So it decodes a file into
// maps, and this file reads the maps into the structs of tables.go: it takes each key as it is
// written, and reports every error.

// A node is a value of the file with its path. Everything that is wrong with the file is recorded at
// a node.
type node struct {
	document *document
	path     []string
	value    any               // as the TOML package returns it; nil: the key is absent
	parent   map[string]any    // the table that holds it
	tag      reflect.StructTag // of the field that it is read into
}

// A decoder is a type that reads itself from a value that is present. If it cannot,
// it records an error.
type decoder interface{ decode(n node) }

// fail records an error.
func (n node) fail(format string, args ...any) {
	n.document.errors = append(n.document.errors, n.document.at(n.path, format, args...))
}

// failLater records an error of a file that has no other ones: it may follow from another one.
func (n node) failLater(format string, args ...any) {
	n.document.later = append(n.document.later, n.document.at(n.path, format, args...))
}

// warn records what is no error, but hardly meant.
func (n node) warn(format string, args ...any) {
	n.document.warnings = append(n.document.warnings, n.document.at(n.path, format, args...))
}

// at returns the node of a key below, without its value.
func (n node) at(key ...string) node { return node{document: n.document, path: within(n.path, key...)} }

func (n node) below(key string, value any) node {
	one := n.at(key)
	one.value = value
	return one
}

// within is the path of a key in a table.
func within(path []string, key ...string) []string {
	return append(path[:len(path):len(path)], key...)
}

// as returns the value of a node if it is of the type. The error says what the type is
// called.
func as[T any](n node, called string) (value T, ok bool) {
	if n.value == nil {
		return value, false
	}
	value, ok = n.value.(T)
	if !ok {
		n.fail("must be %s, not %s", called, describe(n.value))
	}
	return value, ok
}

const aString = "a string in quotes"

// into reads a node into what target points to. If the key is absent, the target does not
// change.
func (n node) into(target any) {
	switch t := target.(type) {
	case decoder:
		if n.value != nil {
			t.decode(n)
		}
	case *time.Duration:
		n.duration(t)
	case **time.Location:
		n.zone(t)
	case *time.Time:
		n.instant(t)
	case *quota.Window:
		n.window(t)
	case *quota.Cost:
		n.cost(t)
	case *regions.Ring:
		n.ring(t)
	case *[]upstream.Pointer:
		n.pointers(t)
	case *[]int:
		n.statuses(t)
	case *[]string:
		n.list(t)
	case **process.User:
		n.user(t)
	default:
		n.intoKind(target)
	}
}

func (n node) intoKind(target any) {
	switch v := reflect.ValueOf(target).Elem(); v.Kind() {
	case reflect.Struct:
		n.intoTable(target)
	case reflect.Pointer:
		n.intoPointer(v)
	case reflect.Map:
		n.intoMap(v)
	case reflect.String:
		n.intoString(v)
	case reflect.Bool:
		if flag, ok := as[bool](n, "true or false"); ok {
			v.SetBool(flag != (n.tag.Get("is") == "not"))
		}
	default:
		if number, ok := as[int64](n, "a whole number"); ok {
			v.SetInt(number)
			n.checkMax(number)
		}
	}
}

// checkMax checks that a number is from 1 to the maximum that its tag names, if any.
func (n node) checkMax(number int64) {
	if limit, err := strconv.ParseInt(n.tag.Get("max"), 10, 64); err == nil && (number < 1 || number > limit) {
		n.failLater("must be from 1 to %d: %d", limit, number)
	}
}

// intoString reads a text, one of those that a tag lists, or one that is what a tag says.
func (n node) intoString(v reflect.Value) {
	want := cmp.Or(n.tag.Get("want"), aString)
	choices := strings.Fields(n.tag.Get("oneof"))
	if len(choices) > 0 {
		want = "one of " + quoted(choices)
	}
	text, ok := as[string](n, want)
	switch {
	case !ok:
	case len(choices) > 0 && !slices.Contains(choices, text):
		n.fail("must be %s, not %q", want, text)
	default:
		v.SetString(n.checked(text))
	}
}

// list reads an array of strings, or a command.
func (n node) list(into *[]string) {
	if n.tag.Get("is") == "command" {
		n.command(into)
	} else if list := n.texts(); n.value != nil {
		*into = append([]string{}, list...)
	}
}

// texts returns the strings of an array; it leaves out the elements of other types.
func (n node) texts() (texts []string) {
	array, _ := as[[]any](n, `an array of strings, such as ["one", "two"]`)
	for _, value := range array {
		if text, ok := value.(string); ok {
			texts = append(texts, text)
		} else {
			n.fail("must hold strings in quotes, not %s", describe(value))
		}
	}
	return texts
}

// asTable returns the keys of a table; an absent one has none.
func (n node) asTable() map[string]any {
	values, _ := as[map[string]any](n, "a table, ["+keyAt(n.path)+"]")
	return values
}

// intoMap reads a table whose keys are names. If they must name tables, another value means that
// the name is missing.
func (n node) intoMap(v reflect.Value) {
	values := n.asTable()
	if such := n.tag.Get("such"); such != "" {
		for _, name := range n.document.inOrder(n.path, values) {
			if _, isTable := values[name].(map[string]any); !isTable {
				n.at(name).fail("is in no table of its own: give that a name, such as [%s]", keyAt(n.at(such).path))
				return
			}
		}
	}
	v.Set(reflect.MakeMap(v.Type()))
	limits, _ := n.parent["limits"].(map[string]any)
	for name, value := range values {
		at, one := n.below(name, value), reflect.New(v.Type().Elem())
		if at.tag = n.tag; n.tag.Get("by") != "operation" || !at.unquoted(limits) {
			at.into(one.Interface())
			v.SetMapIndex(reflect.ValueOf(name), one.Elem())
		}
	}
}

// intoPointer reads a table that may also be true, which is an empty table, or false,
// which is none.
func (n node) intoPointer(v reflect.Value) {
	switch n.value {
	case nil, false:
		return
	case true:
		n.value = map[string]any{}
	}
	v.Set(reflect.New(v.Type().Elem()))
	n.into(v.Interface())
}

// intoTable reads the keys that a struct has tags for. An absent table gets its defaults.
func (n node) intoTable(target any) {
	v, at := reflect.ValueOf(target).Elem(), table{n, n.asTable()}
	if t, is := target.(tabular); is {
		t.setTable(at)
	}
	others := maps.Clone(at.values)
	for key, field := range keyed(v.Type()) {
		into := v.FieldByIndex(field.Index)
		delete(others, key)
		if key == "*" { // it is the last one
			node{n.document, n.path, others, at.values, field.Tag}.into(into.Addr().Interface())
			return
		}
		value, present := at.values[key]
		one := node{n.document, within(n.path, key), value, at.values, field.Tag}
		if !present {
			one.value = defaultOf(field.Tag)
			if example := field.Tag.Get("required"); example != "" {
				one.failLater(missing, key, example)
			}
		}
		one.into(into.Addr().Interface())
	}
	for key := range others {
		known, instead := keysOf(v.Type()), gone[v.Type().Name()+"."+key]
		if quota.Nearest(key, known) == "" {
			instead = cmp.Or(instead, gone[v.Type().Name()+".*"])
		}
		if instead != "" {
			at.fail(key, "is no key any more: %s", instead)
		} else {
			at.fail(key, "unknown key%s", suggest(key, known))
		}
	}
}

// keyed iterates over the fields of a struct of tables.go that have a key.
func keyed(table reflect.Type) iter.Seq2[string, reflect.StructField] {
	return func(yield func(string, reflect.StructField) bool) {
		for _, field := range reflect.VisibleFields(table) {
			if key := field.Tag.Get("toml"); key != "" && !yield(key, field) {
				return
			}
		}
	}
}

// defaultOf returns what stands for an absent key, or nil.
func defaultOf(tag reflect.StructTag) any {
	text, has := tag.Lookup("default")
	if !has {
		return nil
	}
	if number, err := strconv.ParseInt(text, 10, 64); err == nil {
		return number
	}
	if text == "true" {
		return true
	}
	return text
}

// keysOf returns the keys of a struct of tables.go.
func keysOf(table reflect.Type) (keys []string) {
	for key := range keyed(table) {
		if key != "*" {
			keys = append(keys, key)
		}
	}
	return keys
}

// A table is the node of a table and its values, for those structs of tables.go that check more than single keys.
type table struct {
	node
	values map[string]any // nil: the table is absent
}

// A tabular is a pointer to such a struct.
type tabular interface{ setTable(table) }

func (t *table) setTable(at table) { *t = at }

// has reports whether the table has a key.
func (t *table) has(key string) bool { return t.values[key] != nil }

// fail records an error of the value of a key.
func (t *table) fail(key, format string, args ...any) {
	t.at(key).fail(format, args...)
}

// missing is the error of a key that is missing, with an example of what to write.
const missing = "is missing: add %s = %s"

// require records an error if a key is missing. Keys that are always required have a tag instead.
func (t *table) require(key, example string) {
	if !t.has(key) {
		t.fail(key, missing, key, example)
	}
}

// addErrors records the errors of a check, except of keys that have one already: the check saw
// the default of such a key.
func (t *table) addErrors(wrong []*quota.FieldError) {
	recorded := t.document.errors
	for _, one := range wrong {
		at := t.at(one.Path...)
		if !slices.ContainsFunc(recorded, func(e Error) bool { return e.Key == keyAt(at.path) }) {
			at.fail("%s", one.Message)
		}
	}
}

// names returns the keys of a table within, in the order of the file.
func (t *table) names(key string) []string {
	values, _ := t.values[key].(map[string]any)
	return t.document.inOrder(within(t.path, key), values)
}

// suggest returns the end of an error about an unknown name: the known name that was
// probably meant, or all of them.
func suggest(unknown string, known []string) string {
	if len(known) == 0 {
		return ""
	}
	return ": " + quota.Meant(unknown, known, "known are "+quoted(slices.Sorted(slices.Values(known))))
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
