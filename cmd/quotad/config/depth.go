package config

import (
	"fmt"
	"regexp"
	"strings"
)

// deepest is how far tables and arrays may lie within each other. The decoder takes
// time and memory by the square of that.
const deepest = 32

var (
	// noStructure matches what brackets and dots mean nothing in.
	noStructure = regexp.MustCompile(`(?s:""".*?"""|'''.*?''')|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|#[^\n]*`)
	// longKey matches a dotted key of too many parts, or what looks like one.
	longKey = regexp.MustCompile(fmt.Sprintf(`(?:[\w-]+[ \t]*\.[ \t]*){%d}`, deepest))
)

// checkDepth returns the first line on which something lies too deep, or 0.
func checkDepth(text string) (line int) {
	depth := 0
	for i, row := range strings.Split(withoutText(text), "\n") {
		for _, c := range row {
			switch c {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(0, depth-1)
			}
			if depth > deepest {
				return i + 1
			}
		}
		if longKey.MatchString(row) {
			return i + 1
		}
	}
	return 0
}

// withoutText returns a document with other letters in its strings, and without
// comments. Everything stays where it is.
func withoutText(document string) string {
	return noStructure.ReplaceAllStringFunc(document, func(s string) string {
		filler := byte('s')
		if s[0] == '#' {
			filler = ' '
		}
		text := []byte(s)
		for i, c := range text {
			if c != '\n' {
				text[i] = filler
			}
		}
		return string(text)
	})
}
