package config

import (
	_ "embed"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"quotad/quota"
)

// referenceFile explains each table and each key in the comments above it, and shows an example.
// The structs of tables.go say the rest: types, choices, defaults. A line "Value:" or "Default:"
// overrides what they say. NAME stands for a name of the reader's choice.
//
//go:embed reference.toml
var referenceFile string

const required = "required"

// A referenceTable is a table of the configuration with its keys.
type referenceTable struct {
	path  string // credentials.NAME.limits.NAME; empty for the keys above the first table
	means string
	true  bool // true may stand for an empty one
	keys  []referenceKey
}

// A referenceKey is a key of a table. In referenceFile it may also be a table, without an example.
type referenceKey struct {
	path     string
	name     string
	value    string // what may stand there: a type with its unit and range, or the choices
	fallback string // what an absent key means
	means    string
	example  string // a value as TOML writes it
}

// explanations returns what referenceFile says of each table and each key.
func explanations() (all []referenceKey) {
	var e referenceKey
	table := ""
	for line := range strings.Lines(referenceFile) {
		line = strings.TrimSpace(line)
		comment, isComment := strings.CutPrefix(line, "# ")
		switch label, rest, _ := strings.Cut(comment, ": "); {
		case isComment && label == "Value":
			e.value = rest
		case isComment && label == "Default":
			e.fallback = rest
		case isComment:
			e.means = strings.TrimSpace(e.means + " " + comment)
		case line != "":
			if strings.HasPrefix(line, "[") {
				table = strings.Trim(line, "[]")
				e.path = table
			} else {
				e.name, e.example, _ = strings.Cut(line, " = ")
				e.path = strings.TrimPrefix(table+"."+e.name, ".")
			}
			all, e = append(all, e), referenceKey{}
		}
	}
	return all
}

// reference returns every table and every key, as the structs of tables.go list them, in
// their order.
func reference() []referenceTable {
	explained := map[string]referenceKey{}
	for _, e := range explanations() {
		explained[e.path] = e
	}
	tables := appendReference(nil, explained, "", reflect.TypeFor[fileTable]())
	return appendReference(tables, explained, "window", reflect.TypeFor[periodTable]())
}

// appendReference adds a table with its keys, and behind it the tables within it.
func appendReference(tables []referenceTable, explained map[string]referenceKey, path string, t reflect.Type) []referenceTable {
	at := len(tables)
	tables = append(tables, referenceTable{path: path, means: explained[path].means})
	for key, field := range keyed(t) {
		key = strings.Replace(key, "*", "OPERATION", 1)
		below := strings.TrimPrefix(path+"."+key, ".")
		if inner, name := tableIn(field.Type); inner != nil {
			below = strings.TrimSuffix(below, ".OPERATION")
			next := len(tables)
			tables = appendReference(tables, explained, below+name, inner)
			tables[next].true = field.Type.Kind() == reflect.Pointer
			continue
		}
		k := explained[below]
		if k.value == "" {
			k.value = valueOf(field)
		}
		if k.fallback == "" {
			k.fallback = fallbackOf(field.Tag)
		}
		tables[at].keys = append(tables[at].keys, k)
	}
	return tables
}

// tableIn returns the table that a field holds, or nil, and what to write behind its key.
func tableIn(t reflect.Type) (within reflect.Type, name string) {
	if t.Kind() == reflect.Map {
		t, name = t.Elem(), ".NAME"
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if !reflect.PointerTo(t).Implements(reflect.TypeFor[tabular]()) {
		return nil, ""
	}
	return t, name
}

// fallbackOf says what an absent key means by its tags, nothing if they do not say.
func fallbackOf(tag reflect.StructTag) string {
	value := defaultOf(tag)
	text, isString := value.(string)
	switch {
	case tag.Get("required") != "":
		return required
	case value == nil:
		return ""
	case isString:
		return strconv.Quote(text)
	}
	return fmt.Sprint(value)
}

// valueOf says what a field takes: one of its choices, or what its type reads.
func valueOf(field reflect.StructField) string {
	if choices := strings.Fields(field.Tag.Get("oneof")); len(choices) > 0 {
		last := len(choices) - 1
		return quoted(choices[:last]) + " or " + strconv.Quote(choices[last])
	}
	known := map[reflect.Type]string{
		reflect.TypeFor[duration]():    "duration, longer than zero",
		reflect.TypeFor[window]():      "duration, or a table of [window]",
		reflect.TypeFor[instant]():     "time with its zone, such as 2026-01-01T11:30:15Z",
		reflect.TypeFor[zone]():        "time zone",
		reflect.TypeFor[path]():        "path",
		reflect.TypeFor[workDir]():     "path of a directory",
		reflect.TypeFor[contents]():    "path of a file",
		reflect.TypeFor[command]():     "array of strings: a program and its arguments",
		reflect.TypeFor[loopback]():    "loopback address and port, in numbers",
		reflect.TypeFor[group]():       "group of this host",
		reflect.TypeFor[passUser]():    "user of this host",
		reflect.TypeFor[quota.Units](): "whole number of units",
	}
	if text, is := known[field.Type]; is {
		return text
	}
	switch field.Type.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "whole number"
	case reflect.Slice:
		return "array of strings"
	case reflect.Map, reflect.Struct:
		return "table"
	default:
		return "string"
	}
}

// notation explains how values are written.
const notation = `A duration is a number with its unit: "90s", "30m", "24h" or "7d". ` +
	"A relative path begins at the directory of the file. " +
	"NAME is a name of your choice, of letters, digits, _ and -. " +
	"A key that quotad does not know is an error."

// title returns the heading of a table.
func (t referenceTable) title() string {
	switch t.path {
	case "":
		return "Above the first table"
	case "window":
		return "Calendar windows"
	default:
		return "[" + t.path + "]"
	}
}

// absent describes an absent key.
func (k referenceKey) absent() string {
	if strings.HasPrefix(k.fallback, required) {
		return "R" + k.fallback[1:]
	}
	return "Default: " + k.fallback
}

// assignment returns the example as a line of a file.
func (k referenceKey) assignment() string { return k.name + " = " + k.example }

// ReferenceUsage returns the reference as the usage of a program, from which its manual page is made.
func ReferenceUsage() string {
	const where = "quotad reads config.toml in its working directory, or else /etc/quotad/config.toml, in the TOML format."
	return "quotad.toml - the configuration of quotad\n\n" + wrap(where, "") + "\n" + ReferenceText()
}

// ReferenceText returns the reference for a terminal of 80 columns.
func ReferenceText() string {
	b := &strings.Builder{}
	b.WriteString(wrap(notation, ""))
	for _, t := range reference() {
		fmt.Fprintf(b, "\n%s\n%s", t.title(), wrap(t.means, "  "))
		for _, k := range t.keys {
			fmt.Fprintf(b, "\n  %s\n%s", k.name, wrap("Value: "+k.value, "      "))
			for _, text := range []string{k.absent(), k.means, "Example: " + k.assignment()} {
				b.WriteString(wrap(text, "      "))
			}
		}
	}
	return b.String()
}

// wrap breaks a text into lines of at most 79 columns.
func wrap(text, indent string) string {
	return indent + strings.Join(quota.Wrap(text, 79-len(indent)), "\n"+indent) + "\n"
}

// ReferenceMarkdown returns the reference as a page of Markdown.
func ReferenceMarkdown() string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "# The keys of config.toml\n\n%s\n\n`quotad --reference` prints the same, and `man quotad.toml` shows it.\n", markdown(notation))
	for _, t := range reference() {
		title := t.title()
		if strings.HasPrefix(title, "[") {
			title = "`" + title + "`"
		}
		fmt.Fprintf(b, "\n## %s\n\n%s\n\n| Key | Value | Default | Meaning | Example |\n|---|---|---|---|---|\n", title, markdown(t.means))
		for _, k := range t.keys {
			fmt.Fprintf(b, "| `%s` | %s | %s | %s | `%s` |\n", k.name, markdown(k.value), markdown(k.fallback), markdown(k.means), k.example)
		}
	}
	return b.String()
}

// markdown escapes a text for Markdown.
func markdown(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "<", `\<`).Replace(text)
}
