package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"quotad/jobs/process"
	"quotad/quota"
	"quotad/quota/upstream"
)

// A schema is a node of a JSON Schema, as editors read it: what may stand there, and what it means.
type schema = map[string]any

// A referenceTable is a table of the configuration with its keys.
type referenceTable struct {
	path  string // credentials.NAME.limits.NAME; empty for the keys above the first table
	means string
	keys  []referenceKey
}

// A referenceKey is a key of a table. In reference.toml it may also be a table, without an example.
type referenceKey struct {
	name     string
	value    string // what may stand there: a type with its unit and range, or the choices
	fallback string // what an absent key means; empty: nothing
	means    string
	example  string // a value as TOML writes it
}

// explanations returns what reference.toml says of each table and each key, by its path: in the comments above it, with
// an example. The structs of tables.go say the rest: types, choices, defaults. A line "Value:" or "Default:" overrides
// what they say. NAME stands for a name of the reader's choice.
func explanations() map[string]referenceKey {
	all := map[string]referenceKey{}
	var e referenceKey
	table := ""
	text, err := os.ReadFile("reference.toml")
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		comment, isComment := strings.CutPrefix(line, "# ")
		switch label, rest, _ := strings.Cut(comment, ": "); {
		case isComment && label == "Value":
			e.value = rest
		case isComment && label == "Default":
			if e.fallback = rest; !strings.HasPrefix(rest, "required") {
				e.fallback = "default: " + rest
			}
		case isComment:
			e.means = strings.TrimSpace(e.means + " " + comment)
		case strings.HasPrefix(line, "["):
			table = strings.Trim(line, "[]")
			all[table], e = e, referenceKey{}
		case line != "":
			e.name, e.example, _ = strings.Cut(line, " = ")
			all[strings.TrimPrefix(table+"."+e.name, ".")], e = e, referenceKey{}
		}
	}
	return all
}

// reference returns every table and every key, as the structs of tables.go list them, in
// their order, and the same as a schema.
func reference() ([]referenceTable, schema) {
	r := references{explained: explanations()}
	root := r.add("", reflect.TypeFor[fileTable]())
	root["description"], root["$schema"] = "quotad's configuration", "https://json-schema.org/draft/2020-12/schema"
	root["$defs"] = schema{"window": r.add("window", reflect.TypeFor[periodTable]())}
	return r.tables, root
}

type references struct {
	explained map[string]referenceKey
	tables    []referenceTable
}

// add adds a table with its keys, and behind it the tables within it, and returns its schema.
func (r *references) add(path string, t reflect.Type) schema {
	table, at := tableSchema(r.explained[path].means), len(r.tables)
	r.tables = append(r.tables, referenceTable{path: path, means: r.explained[path].means})
	properties := schema{}
	for key, field := range keyed(t) {
		name := strings.Replace(key, "*", "OPERATION", 1)
		below := strings.TrimPrefix(path+"."+name, ".")
		k, value := r.explained[below], schema(nil)
		if inner, names := tableIn(field.Type); inner != nil && k.example == "" {
			value = r.add(strings.TrimSuffix(below, ".OPERATION")+names, inner)
			if field.Type.Kind() == reflect.Pointer {
				value["type"] = []string{"object", "boolean"}
			}
			if names != "" && key != "*" {
				each := value
				value = tableSchema("")
				value["additionalProperties"] = each
			}
		} else {
			k.name = name
			means, one := valueOf(field)
			k.value, k.fallback = cmp.Or(k.value, means), cmp.Or(k.fallback, fallbackOf(field.Tag))
			value = one
			value["description"] = fmt.Sprintf("%s (%s)", k.means, k.facts())
			r.tables[at].keys = append(r.tables[at].keys, k)
		}
		if key == "*" {
			table["additionalProperties"] = value
		} else {
			properties[key] = value
		}
	}
	if len(properties) > 0 {
		table["properties"] = properties
	}
	return table
}

// tableIn returns the table that a field holds, or nil, and what to write behind its key.
func tableIn(t reflect.Type) (within reflect.Type, name string) {
	if t.Kind() == reflect.Map {
		t, name = t.Elem(), ".NAME"
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || len(keysOf(t)) == 0 {
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
		return "required"
	case value == nil:
		return ""
	case isString:
		return "default: " + strconv.Quote(text)
	}
	return fmt.Sprint("default: ", value)
}

// valueOf says what a field takes: one of its choices, what a tag names, or what its type reads.
func valueOf(field reflect.StructField) (means string, s schema) {
	if choices := strings.Fields(field.Tag.Get("oneof")); len(choices) > 0 && field.Type.Kind() == reflect.String {
		last := len(choices) - 1
		return quoted(choices[:last]) + " or " + strconv.Quote(choices[last]), schema{"enum": choices}
	}
	text := schema{"type": "string"}
	known := map[string]string{
		"path": "path", "file": "path of a file", "dir": "path of a directory", "url": "URL", "group": "group of this host",
		"loopback": "loopback address and port", "address": "address and port",
	}
	if means := known[field.Tag.Get("is")]; means != "" {
		return means, text
	}
	switch field.Type {
	case reflect.TypeFor[time.Duration]():
		return "duration", text
	case reflect.TypeFor[quota.Window]():
		return "duration, or table of [window]", schema{"anyOf": []schema{text, {"$ref": "#/$defs/window"}}}
	case reflect.TypeFor[time.Time](): // an editor may take a date of TOML for no string
		return "time with its zone", schema{}
	case reflect.TypeFor[*time.Location]():
		return "time zone", text
	case reflect.TypeFor[contents](), reflect.TypeFor[tokenFile]():
		return "path of a file", text
	case reflect.TypeFor[*process.User]():
		return "user of this host", text
	case reflect.TypeFor[[]upstream.Pointer]():
		return "JSON pointer, or array of them", schema{"type": []string{"string", "array"}}
	}
	switch field.Type.Kind() {
	case reflect.Bool:
		return "true or false", schema{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return "whole number", schema{"type": "integer"}
	case reflect.Slice:
		return "array of strings", schema{"type": "array"}
	case reflect.Map:
		return "table", schema{"type": "object"}
	}
	return "string", text
}

// notation explains how values are written.
const notation = `A duration is a number with its unit: "90s", "30m", "24h" or "7d". ` +
	"A relative path begins at the directory of the file. " +
	"NAME is a name of your choice, of letters, digits, _ and -. " +
	"A key that quotad does not know is an error, and so is a file of a secret that everybody may read. " +
	"`quotad --reference` prints this page, and `man quotad.toml` shows it."

// title returns the heading of a table.
func (t referenceTable) title() string {
	switch t.path {
	case "":
		return "Above the first table"
	case "window":
		return "Windows that restart"
	default:
		return "[" + t.path + "]"
	}
}

// facts says what may stand at a key, and what an absent one means.
func (k referenceKey) facts() string {
	return strings.TrimSuffix(k.value+"; "+k.fallback, "; ")
}

// referenceText returns the reference for a terminal of 80 columns, in Markdown.
func referenceText() string {
	b := &strings.Builder{}
	b.WriteString("# The keys of config.toml\n\n" + wrap(notation, ""))
	tables, _ := reference()
	for _, t := range tables {
		fmt.Fprintf(b, "\n## %s\n\n%s\n", t.title(), wrap(t.means, ""))
		for _, k := range t.keys {
			b.WriteString(wrap(fmt.Sprintf("- `%s = %s` %s (%s)", k.name, k.example, k.means, k.facts()), "  "))
		}
	}
	return b.String()
}

// wrap breaks a text into lines of at most 79 columns; indent stands before each but the first.
func wrap(text, indent string) string {
	return strings.Join(quota.Wrap(text, 79-len(indent)), "\n"+indent) + "\n"
}

// referenceSchema returns the reference as a JSON Schema of the file, by which editors complete keys, explain them and mark
// mistakes. It demands no key: what must be there depends on presets and on other keys, and quotad --check knows.
func referenceSchema() string {
	_, root := reference()
	text, err := json.MarshalIndent(root, "", "\t")
	if err != nil {
		panic(err) // it is made of strings, numbers and maps
	}
	return string(text) + "\n"
}

func tableSchema(means string) schema {
	return schema{"type": "object", "description": means, "additionalProperties": false}
}
