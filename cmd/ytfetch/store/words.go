package store

import (
	"slices"
	"strings"
	"unicode"
)

// termsOf makes a query of FTS5 of what somebody typed, term by term: each word must be
// in a video, in any order; one that ends in * as the beginning of a word. Whatever else
// is special to FTS5 is not here: each word stands between quotes. There are none where
// nothing holds a letter or a digit.
func termsOf(text string) []string {
	var terms []string
	for _, word := range words(text) {
		term := `"` + strings.TrimRight(word, "*") + `"`
		if strings.HasSuffix(word, "*") {
			term += "*"
		}
		if !slices.Contains(terms, term) {
			terms = append(terms, term)
		}
	}
	return terms
}

// words splits text where nothing is that a word can be made of, and at what would end
// FTS5's quotes or its text.
func words(text string) []string {
	apart := func(r rune) bool { return unicode.IsSpace(r) || r == '"' || r == 0 }
	return slices.DeleteFunc(strings.FieldsFunc(strings.ToValidUTF8(text, " "), apart), func(word string) bool {
		return !strings.ContainsFunc(word, isWordRune)
	})
}

// isWordRune is what the tokenizer takes for a part of a word: unicode61 of SQLite.
func isWordRune(r rune) bool { return unicode.In(r, unicode.L, unicode.N, unicode.Co) }
