package store

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// termsOf makes a query of FTS5 of what somebody typed, term by term: each word must be
// in a video, in any order; one that ends in * as the beginning of a word, unless that is
// one character long: it would be in nearly all of them. Whatever else is special to FTS5
// is not here: each word stands between quotes. There are none where nothing holds a letter
// or a digit.
func termsOf(text string) []string {
	var terms []string
	for _, word := range words(text) {
		begins := strings.TrimRight(word, "*")
		term := `"` + apart(begins) + `"`
		if begins != word && utf8.RuneCountInString(begins) > 1 {
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
	between := func(r rune) bool { return unicode.IsSpace(r) || r == '"' || r == 0 }
	return slices.DeleteFunc(strings.FieldsFunc(strings.ToValidUTF8(text, " "), between), func(word string) bool {
		return !strings.ContainsFunc(word, isWordRune)
	})
}

// isWordRune is what each word has; the tokenizer takes marks for parts of it, too.
func isWordRune(r rune) bool { return unicode.In(r, unicode.L, unicode.N, unicode.Co) }
