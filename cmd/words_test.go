package cmd

import (
	"go/scanner"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// gone are words that people stumbled over. Each has a plainer one: returns, reads, records,
// reports, waits for, retries, expires, continues; you; an operator; a caller.
var gone = regexp.MustCompile(`(?i)\b(whoever|nobody|somebody|anew|so many|tells?|told|hears?|heard|of late|in vain|lest|goes on|go on|gives? back|given back|takes? in|stands beside|stand beside|vanish(es)?|looked for|besides)\b`)

// What people read holds none of these words: messages, usage texts, the page, the documentation, and the comments of all
// code but tests.
func TestPlainWords(t *testing.T) {
	for _, ending := range []string{".go", ".md", ".toml", ".html", ".lua", ".sql", ".css", ".js", ".yml", ".txt"} {
		walkFiles(t, ending, func(path string) {
			if supportOfTests.MatchString(strings.TrimPrefix(path, "../")) {
				return
			}
			text := readFile(t, path)
			if ending == ".go" {
				text = proseOf(text)
			}
			for line := range strings.Lines(text) {
				if word := gone.FindString(line); word != "" {
					t.Errorf("%s: say it without %q: %.120s", path, word, line)
				}
			}
		})
	}
}

// proseOf returns the comments and strings of a file of Go.
func proseOf(text string) string {
	var b strings.Builder
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(text)), []byte(text), nil, scanner.ScanComments)
	for _, is, literal := s.Scan(); is != token.EOF; _, is, literal = s.Scan() {
		if is == token.COMMENT || is == token.STRING {
			b.WriteString(literal + "\n")
		}
	}
	return b.String()
}
