// Package manual writes manual pages, in the language of man(7), from the texts that the
// programs print.
package manual

import (
	"fmt"
	"strings"
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
	return ".SH SEE ALSO\n" + Escape(strings.Join(pages, ", ")) + "\n"
}

// Verbatim prints text line by line as it is, because our texts have their own layout.
func Verbatim(text string) string { return ".nf" + Escape("\n"+text) + ".fi\n" }

// Escape keeps roff from reading anything into a text: backslashes, hyphens that are to be typed, and what begins a
// request at the start of a line but the first.
func Escape(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n.", "\n\\&.", "\n'", "\n\\&'", "…", `\[u2026]`).Replace(text)
}
