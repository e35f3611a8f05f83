package config

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"quotad/cmd/manual"
)

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
