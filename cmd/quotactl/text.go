package main

import (
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"quotad/quota"
)

// units writes an amount with its noun: "1 unit", "4,120 units".
func units(n int64) string { return quota.Units(n).Text() }

// parseUnits reads a whole number as people write it: "1200", "+1,200", "-1_200".
func parseUnits(text string) (n int64, ok bool) {
	if !writtenNumber.MatchString(text) {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.NewReplacer(",", "", "_", "", "+", "").Replace(text), 10, 64)
	return n, err == nil
}

var writtenNumber = regexp.MustCompile(`^[+-]?([0-9]+|[0-9]{1,3}([,_][0-9]{3})+)$`)

// brief writes a duration, at least a second, in its two greatest units: "3h
// 12m", "45s". Days are told from two on: a window is "24h".
func brief(d time.Duration) string {
	s := max(1, int64(d/time.Second))
	switch {
	case s >= 2*86400:
		return pair(s/86400, "d", s%86400/3600, "h")
	case s >= 3600:
		return pair(s/3600, "h", s%3600/60, "m")
	case s >= 60:
		return pair(s/60, "m", s%60, "s")
	default:
		return pair(s, "s", 0, "")
	}
}

// pair writes "3h 12m", or "3h" where nothing is left over.
func pair(n int64, unit string, rest int64, restUnit string) string {
	text := strconv.FormatInt(n, 10) + unit
	if rest > 0 {
		text += " " + strconv.FormatInt(rest, 10) + restUnit
	}
	return text
}

// took writes how long something lasted: "0.84s", "12.3s", then as brief.
func took(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + "s"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	default:
		return brief(d)
	}
}

// when tells an instant relative to now and by the clock: "in 3h 12m, at
// 14:05:33". What lies ahead is rounded up to the second, because units that
// come back at .4 are not there at .0.
func (v view) when(t time.Time) string {
	if t.After(v.now) {
		left := t.Sub(v.now) + time.Second - 1
		return "in " + brief(left) + ", at " + v.clock(ceilSecond(t)) + v.zoneMark()
	}
	past := "just now"
	if d := v.now.Sub(t); d >= time.Second {
		past = brief(d) + " ago"
	}
	return past + ", at " + v.clock(t) + v.zoneMark()
}

// zoneMark follows a time, or the head of a column of times, that is not local.
func (v view) zoneMark() string {
	if v.zone == time.UTC {
		return " UTC"
	}
	return ""
}

// clock writes an instant as short as it can be told from today.
func (v view) clock(t time.Time) string {
	local, today := t.In(v.zone), v.now.In(v.zone)
	layout := "2006-01-02 15:04:05"
	switch {
	case local.YearDay() == today.YearDay() && local.Year() == today.Year():
		layout = "15:04:05"
	case t.Sub(v.now).Abs() < 6*24*time.Hour:
		layout = "Mon 15:04:05"
	}
	return local.Format(layout)
}

func ceilSecond(t time.Time) time.Time {
	if whole := t.Truncate(time.Second); whole.Before(t) {
		return whole.Add(time.Second)
	}
	return t
}

// clean makes text from outside safe for a terminal: one line, valid UTF-8
// without control characters, or ASCII where nothing else can be shown.
func (v view) clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r), r > unicode.MaxASCII && !v.utf8:
			return '?'
		default:
			return r
		}
	}, strings.ToValidUTF8(text, "?"))
}

// prose writes cleaned text as lines of words that begin at indent and end
// before the screen does; a word that is longer than that is left whole.
func (v view) prose(b *strings.Builder, indent int, s style, text string) {
	margin := strings.Repeat(" ", indent)
	line := ""
	for word := range strings.FieldsSeq(v.clean(text)) {
		switch {
		case line == "":
			line = word
		case indent+utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= v.width:
			line += " " + word
		default:
			b.WriteString(margin + v.paint(s, line) + "\n")
			line = word
		}
	}
	b.WriteString(margin + v.paint(s, line) + "\n")
}

// item writes prose behind a label, and its further lines below where it began.
func (v view) item(b *strings.Builder, indent int, label, text string) {
	var prose strings.Builder
	begin := indent + utf8.RuneCountInString(label)
	v.prose(&prose, begin, plain, text)
	b.WriteString(strings.Repeat(" ", indent) + label + prose.String()[begin:])
}

// cut shortens text to a width in characters and marks that it did.
func (v view) cut(text string, width int) string {
	mark := "..."
	if v.utf8 {
		mark = "…"
	}
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	keep := max(0, width-utf8.RuneCountInString(mark))
	return string([]rune(text)[:keep]) + mark
}
