package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"quotad/cmd/manual"
	"quotad/quota"
)

// A ReferenceTable is a table of the configuration with its keys, as people read of it.
type ReferenceTable struct {
	Path  string // credentials.NAME.limits.NAME; empty for the keys above the first table
	Means string
	Keys  []ReferenceKey
}

// A ReferenceKey is a key of a table.
type ReferenceKey struct {
	Name    string
	Value   string // what may stand there: a type with its unit and range, or the choices
	Default string // what an absent key means
	Means   string
	Example string // a value as TOML writes it
}

// Reference returns every table and every key, as the structs of tables.go list them, in
// their order.
func Reference() []ReferenceTable {
	r := reference{meanings: map[string]meaning{}}
	for _, m := range meanings() {
		r.meanings[m.key] = m
	}
	r.table("", reflect.TypeFor[fileTable]())
	r.table("window", reflect.TypeFor[calendarTable]())
	return r.tables
}

// A reference is one while it is put together.
type reference struct {
	meanings map[string]meaning
	tables   []ReferenceTable
}

// table adds a table with its keys, and the tables within it behind it.
func (r *reference) table(path string, t reflect.Type) {
	at := len(r.tables)
	r.tables = append(r.tables, ReferenceTable{Path: path, Means: r.meanings[path].means})
	var keys []ReferenceKey
	for i := range t.NumField() {
		field := t.Field(i)
		key := strings.Replace(field.Tag.Get("toml"), "*", "OPERATION", 1)
		if key == "" {
			continue
		}
		if inner, name := tableIn(field.Type); inner != nil {
			r.table(strings.TrimPrefix(path+"."+key+name, "."), inner)
		} else {
			keys = append(keys, r.key(strings.TrimPrefix(path+"."+key, "."), key, field))
		}
	}
	r.tables[at].Keys = keys
}

// tableIn returns the table that a field holds, or nil, and what to write behind its key.
func tableIn(t reflect.Type) (within reflect.Type, name string) {
	if t.Kind() == reflect.Map {
		t, name = t.Elem(), ".NAME"
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if _, is := reflect.New(t).Interface().(tabular); !is {
		return nil, ""
	}
	return t, name
}

func (r *reference) key(path, name string, field reflect.StructField) ReferenceKey {
	m := r.meanings[path]
	k := ReferenceKey{Name: name, Value: m.value, Default: m.absent, Means: m.means, Example: m.example}
	choices := strings.Fields(field.Tag.Get("oneof"))
	switch {
	case k.Value != "":
	case len(choices) > 0:
		k.Value = inWords(choices)
	default:
		k.Value = valueOf(field.Type)
	}
	if k.Default == "" {
		k.Default = asTOML(defaultOf(field.Tag))
	}
	return k
}

// inWords lists choices: "a", "b" or "c".
func inWords(choices []string) string {
	last := len(choices) - 1
	return quoted(choices[:last]) + " or " + strconv.Quote(choices[last])
}

// asTOML writes the default of a tag, nothing if there is none.
func asTOML(value any) string {
	switch value := value.(type) {
	case string:
		return strconv.Quote(value)
	case int64:
		return strconv.FormatInt(value, 10)
	case bool:
		return strconv.FormatBool(value)
	default:
		return ""
	}
}

// valueOf says what the type of a field takes.
func valueOf(t reflect.Type) string {
	known := map[reflect.Type]string{
		reflect.TypeFor[duration]():    "duration, longer than zero",
		reflect.TypeFor[span]():        "duration",
		reflect.TypeFor[stagger]():     `"even" or a duration`,
		reflect.TypeFor[window]():      "duration, or a calendar window",
		reflect.TypeFor[zone]():        "time zone",
		reflect.TypeFor[path]():        "path",
		reflect.TypeFor[workDir]():     "path of a directory",
		reflect.TypeFor[contents]():    "path of a file",
		reflect.TypeFor[keyFile]():     "path of a file",
		reflect.TypeFor[envFile]():     "path of a file",
		reflect.TypeFor[command]():     "array of strings: a program and its arguments",
		reflect.TypeFor[loopback]():    "loopback address and port, in numbers",
		reflect.TypeFor[group]():       "group of this host",
		reflect.TypeFor[passUser]():    "user of this host",
		reflect.TypeFor[quota.Units](): "whole number of units",
	}
	if text, is := known[t]; is {
		return text
	}
	switch t.Kind() {
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

// notation says how values are written, before the tables.
const notation = `A duration is a number with its unit: "90s", "30m", "24h" or "7d". ` +
	"A relative path begins at the directory of the file. " +
	"NAME is a name of your choice, of letters, digits, _ and -. " +
	"A key that quotad does not know is an error."

// title is what stands above the keys of a table.
func (t ReferenceTable) title() string {
	switch t.Path {
	case "":
		return "Above the first table"
	case "window":
		return "Calendar windows"
	default:
		return "[" + t.Path + "]"
	}
}

// absent says what happens without the key.
func (k ReferenceKey) absent() string {
	if strings.HasPrefix(k.Default, required) {
		return "R" + k.Default[1:]
	}
	return "Default: " + k.Default
}

// assignment is the example as it stands in a file.
func (k ReferenceKey) assignment() string { return k.Name + " = " + k.Example }

// ReferenceText returns the reference for a terminal of 80 columns.
func ReferenceText() string {
	b := &strings.Builder{}
	b.WriteString(wrap(notation, ""))
	for _, t := range Reference() {
		fmt.Fprintf(b, "\n%s\n%s", t.title(), wrap(t.Means, "  "))
		for _, k := range t.Keys {
			fmt.Fprintf(b, "\n  %s\n%s", k.Name, wrap("Value: "+k.Value, "      "))
			for _, text := range []string{k.absent(), k.Means, "Example: " + k.assignment()} {
				b.WriteString(wrap(text, "      "))
			}
		}
	}
	return b.String()
}

// wrap breaks a text into lines of at most 79 columns.
func wrap(text, indent string) string {
	const columns = 79
	b, column := &strings.Builder{}, 0
	for word := range strings.FieldsSeq(text) {
		length := utf8.RuneCountInString(word)
		switch {
		case column == 0:
			b.WriteString(indent)
			column = len(indent)
		case column+1+length > columns:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += length
	}
	return b.String() + "\n"
}

// ReferenceMarkdown returns the reference as a page of Markdown.
func ReferenceMarkdown() string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "# The keys of config.toml\n\n%s\n\n`quotad --reference` prints the same, and `man quotad.toml` shows it.\n", markdown(notation))
	for _, t := range Reference() {
		title := t.title()
		if strings.HasPrefix(title, "[") {
			title = "`" + title + "`"
		}
		fmt.Fprintf(b, "\n## %s\n\n%s\n\n| Key | Value | Default | Meaning | Example |\n|---|---|---|---|---|\n", title, markdown(t.Means))
		for _, k := range t.Keys {
			fmt.Fprintf(b, "| `%s` | %s | %s | %s | `%s` |\n", k.Name, markdown(k.Value), markdown(k.Default), markdown(k.Means), k.Example)
		}
	}
	return b.String()
}

// markdown keeps a text from having marks.
func markdown(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "<", `\<`).Replace(text)
}

// ReferenceManual returns the reference as the manual page quotad.toml(5).
func ReferenceManual(version string) string {
	b := &strings.Builder{}
	page := manual.Page{Name: "quotad.toml", Section: 5, Version: version, Purpose: "the configuration of quotad"}
	fmt.Fprintf(b, "%s.SH DESCRIPTION\nquotad reads config.toml in its working directory, or else /etc/quotad/config.toml, in the TOML format. %s\n", page.Header(), manual.Escape(notation))
	for _, t := range Reference() {
		fmt.Fprintf(b, ".SH \"%s\"\n%s\n", strings.ReplaceAll(manual.Escape(t.title()), `"`, `\(dq`), manual.Escape(t.Means))
		for _, k := range t.Keys {
			fmt.Fprintf(b, ".TP\n.B %s\n%s\n", manual.Escape(k.Name), manual.Escape(k.Means))
			fmt.Fprintf(b, ".br\nValue: %s\n", manual.Escape(k.Value))
			fmt.Fprintf(b, ".br\n%s\n.br\nExample: %s\n", manual.Escape(k.absent()), manual.Escape(k.assignment()))
		}
	}
	b.WriteString(manual.SeeAlso("quotad(8)", "quotactl(1)"))
	return b.String()
}
