// Package manual writes manual pages, in the language of man(7), from the texts that the
// programs print.
package manual

import (
	"fmt"
	"strings"
	"unicode"
)

// Header returns the beginning of a page, with its section NAME. The version is as quotactl --version prints it, the
// purpose takes half a line.
func Header(section int, version, name, purpose string) string {
	return fmt.Sprintf(".TH %s %d \"\" \"quotad %s\"\n.SH NAME\n%s \\- %s\n",
		Escape(strings.ToUpper(name)), section, Escape(version), Escape(name), Escape(purpose))
}

// OfUsage returns the page of a program whose usage is the whole page. Its first line is
// "name - purpose". The pages in also, "quotactl(1)" for instance, are its SEE ALSO.
func OfUsage(section int, version, usage string, also ...string) string {
	first, rest, _ := strings.Cut(usage, "\n")
	name, purpose, _ := strings.Cut(first, " - ")
	return Header(section, version, name, purpose) + ".SH DESCRIPTION\n" + Verbatim(strings.TrimLeft(rest, "\n")) + SeeAlso(also...)
}

// SeeAlso returns the last section of a page, of pages such as "quotactl(1)".
func SeeAlso(pages ...string) string {
	list := make([]string, len(pages))
	for i, page := range pages {
		name, section, _ := strings.Cut(page, "(")
		list[i] = fmt.Sprintf(".BR %s (%s", Escape(name), section)
	}
	return ".SH SEE ALSO\n" + strings.Join(list, ",\n") + "\n"
}

// Verbatim prints text line by line as it is, because our texts have their own layout.
func Verbatim(text string) string { return ".nf\n" + Escape(text) + ".fi\n" }

// Escape keeps roff from reading anything into a text: backslashes, hyphens that are to be
// typed, and what begins a request at the start of a line. The result is ASCII, which every
// formatter reads.
func Escape(text string) string {
	var b strings.Builder
	start := true // of a line
	for _, r := range text {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case start && (r == '.' || r == '\''):
			b.WriteString(`\&` + string(r))
		case r > unicode.MaxASCII:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
		start = r == '\n'
	}
	return b.String()
}
