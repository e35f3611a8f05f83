package quota

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Count writes how many there are of something that people read, in the singular
// or the plural: "1 call", "4,120 calls".
func Count[N ~int | ~int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Thousands(n) + " " + many
}

// Thousands writes a whole number with a comma between groups of three digits.
func Thousands[N ~int | ~int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	first := 1 // the first place where a comma may stand
	if digits[0] == '-' {
		first = 2
	}
	for i := len(digits) - 3; i >= first; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Brief words a duration as people write it: "1m30s", "24h", "1h30m", "7d".
func Brief(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Clipped returns a text that others wrote in one line of printable characters, of at most max bytes and an ellipsis.
func Clipped(text string, max int) string {
	text = text[:min(len(text), 8*max)] // no more is read than may be needed
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= max {
		return text
	}
	return strings.ToValidUTF8(text[:max], "") + "…"
}

// Wrap breaks a text into lines of words. A line is longer than width only if it is one word.
func Wrap(text string, width int) []string {
	lines := []string{""}
	for word := range strings.FieldsSeq(text) {
		switch last := &lines[len(lines)-1]; {
		case *last == "":
			*last = word
		case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

// Describe says for how long a debit counts: "in any 24h", "each day in America/Los_Angeles", "each 24h
// from 2026-01-01T11:30:15Z".
func (w Window) Describe() string {
	switch {
	case w.Period != "":
		return "each " + string(w.Period) + " in " + w.Zone.String()
	case w.Every > 0:
		return "each " + w.String()
	}
	return "in any " + Brief(w.Length)
}

// Describe says what a limit counts, and how: "in any 24h, for search.list, by trending, not
// enforced". It does not say how much the limit allows.
func (l Limit) Describe() string {
	parts := []string{l.Window.Describe()}
	if len(l.Only) > 0 {
		parts = append(parts, "for "+listed(l.Only))
	}
	if len(l.Jobs) > 0 {
		parts = append(parts, "by "+listed(l.Jobs))
	}
	if len(l.ExceptJobs) > 0 {
		parts = append(parts, "by all but "+listed(l.ExceptJobs))
	}
	if l.DryRun {
		parts = append(parts, "not enforced")
	}
	return strings.Join(parts, ", ")
}

// listed names things in alphabetical order: "a, b and c".
func listed(names []string) string {
	names = slices.Sorted(slices.Values(names))
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
