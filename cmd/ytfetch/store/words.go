package store

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ncruces/go-sqlite3"
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

// gap parts what the tokenizer would take for one word: ASCII's unit separator.
const gap = "\x1F"

// blankless are the scripts whose words no blanks part, or, in Korean, not from what is
// attached to them. Each character is then a word of its own, and what somebody types is
// found wherever it stands.
var blankless = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo,
	unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
}

// apart puts a gap around each character of a blankless script. Its marks stay with it.
func apart(text string) string {
	if !strings.ContainsFunc(text, isBlankless) {
		return text
	}
	var parted strings.Builder
	before := false // a character of such a script
	for _, r := range text {
		if !unicode.In(r, unicode.Mn, unicode.Mc) {
			now := isBlankless(r)
			if now || before {
				parted.WriteString(gap)
			}
			before = now
		}
		parted.WriteRune(r)
	}
	return parted.String()
}

// together takes apart back.
func together(text string) string { return strings.ReplaceAll(text, gap, "") }

// isBlankless looks at letters alone; the sign that makes a vowel long in Japanese is one
// of no script.
func isBlankless(r rune) bool {
	return r >= 0x0E00 && unicode.IsLetter(r) && (r == 'ー' || unicode.In(r, blankless...))
}

// registerApart adds apart to a connection as a function of SQL.
func registerApart(db *sqlite3.Conn) error {
	return db.CreateFunction("apart", 1, sqlite3.DETERMINISTIC|sqlite3.INNOCUOUS, func(ctx sqlite3.Context, args ...sqlite3.Value) {
		ctx.ResultText(apart(args[0].Text()))
	})
}
