package store

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ncruces/go-sqlite3"
)

// An expression is what a user typed, as terms of FTS5: those that a video must have, in any
// order, and those that it must not have. Each term is quoted, so nothing in it is special to
// FTS5.
type expression struct{ terms, without []string }

// typed is one of the words, or a phrase. A quote that is not closed is ignored.
var typed = regexp.MustCompile(`(-?)(?:"([^"]*)"|"?([^ "]+))`)

// parseExpression reads words, and phrases between quotes. One that ends in * is the beginning
// of a word, unless that is one character long: nearly all videos would have it. One after a -
// must not be there, if others must. There are none where nothing holds a letter or a digit.
func parseExpression(text string) (e expression) {
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == 0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
	for _, part := range typed.FindAllStringSubmatch(text, -1) {
		e.add(part[2]+part[3], part[1] != "")
	}
	if len(e.terms) == 0 { // without other words, search for these
		e.terms, e.without = e.without, nil
	}
	return e
}

func (e *expression) add(word string, not bool) {
	if !strings.ContainsFunc(word, isWordRune) {
		return
	}
	begins := strings.TrimRight(word, "*")
	term := `"` + apart(begins) + `"`
	if begins != word && utf8.RuneCountInString(begins) > 1 {
		term += "*"
	}
	list := &e.terms
	if not {
		list = &e.without
	}
	if !slices.Contains(*list, term) {
		*list = append(*list, term)
	}
}

// match is the query.
func (e expression) match() string {
	return strings.Join(append([]string{strings.Join(e.terms, " ")}, e.without...), " NOT ")
}

// isWordRune is what each word has; the tokenizer takes marks for parts of it, too.
func isWordRune(r rune) bool { return unicode.In(r, unicode.L, unicode.N, unicode.Co) }

// gap parts what the tokenizer would take for one word: ASCII's unit separator.
const gap = "\x1F"

// blankless are the scripts without blanks between words, or, in Korean, between a word and its
// particles. Each character is then a word of its own, and a text is found wherever
// it occurs.
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

// removeGaps undoes apart.
func removeGaps(text string) string { return strings.ReplaceAll(text, gap, "") }

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
