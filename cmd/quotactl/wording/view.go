// Package wording says how things are, in the words of quotactl and its page: times relative to now, limits, jobs, runs
// and troubles. A [View] describes the output. Text from outside passes View.Clean, so that nothing that a job printed
// can command the terminal.
package wording

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"quotad/quota"
)

// A View describes the output: what it can show, and the instant and time zone of its reader.
type View struct {
	Now   time.Time
	Zone  *time.Location
	Width int  // columns of the screen, at least minWidth
	Lines int  // of the screen
	Whole bool // there is no screen: nothing is cut
	Color bool // the output knows ANSI colours, and the user wants them
}

// The size of a screen of unknown size.
const (
	DefaultWidth = 80
	defaultLines = 24
	minWidth     = 40
)

// NewView reads the environment and the terminal. Like git and ls it prefers COLUMNS.
func NewView(now time.Time, out io.Writer) View {
	v := View{Now: now, Zone: time.Local, Width: DefaultWidth, Lines: defaultLines}
	if IsTerminal(out) {
		columns, lines, _ := term.GetSize(int(out.(*os.File).Fd()))
		v.Width, v.Lines = cmp.Or(columns, v.Width), cmp.Or(lines, v.Lines)
		v.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	columns, _ := strconv.Atoi(os.Getenv("COLUMNS"))
	v.Whole = !IsTerminal(out) && columns <= 0
	if columns > 0 {
		v.Width = columns
	}
	v.Width = max(v.Width, minWidth)
	return v
}

// IsTerminal reports whether a writer is a terminal.
func IsTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// A Style is how a text stands out, as the parameter of an ANSI sequence. No state is shown by style alone.
type Style string

// The styles.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Faint  Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

// A Line is a text and its style.
type Line struct {
	Text  string
	Style Style
}

// Paint wraps text in a style, unless colour is off.
func (v View) Paint(s Style, text string) string {
	if !v.Color || s == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// Caller writes a caller as the log names it: for "@" and a uid, the name by which this host knows the user.
func (v View) Caller(by string) string {
	if uid, isUser := strings.CutPrefix(by, "@"); isUser {
		if u, err := user.LookupId(uid); err == nil {
			by = "@" + u.Username
		}
	}
	return v.Clean(by)
}

// Brief writes a duration, at least a second, in its two greatest units: "3h 12m", "45s". It uses days from two days on:
// a window is "24h".
func Brief(d time.Duration) string {
	s := max(1, int64(d/time.Second))
	switch {
	case s >= 2*86400:
		return pair(s/86400, "d", s%86400/3600, "h")
	case s >= 3600:
		return pair(s/3600, "h", s%3600/60, "m")
	default:
		return strings.TrimPrefix(pair(s/60, "m", s%60, "s"), "0m ")
	}
}

// pair writes "3h 12m", or "3h" without a rest.
func pair(n int64, unit string, rest int64, restUnit string) string {
	return strings.TrimSuffix(fmt.Sprintf("%d%s %d%s", n, unit, rest, restUnit), " 0"+restUnit)
}

// When writes an instant relative to now and by the clock: "in 3h 12m, at 14:05:33". It rounds the future up to the
// second, because units that come back at .4 are not there at .0.
func (v View) When(t time.Time) string {
	if t.After(v.Now) {
		return "in " + Brief(t.Sub(v.Now)+time.Second-1) + ", at " + v.Clock(CeilSecond(t))
	}
	past := "just now"
	if d := v.Now.Sub(t); d >= time.Second {
		past = Brief(d) + " ago"
	}
	return past + ", at " + v.Clock(t)
}

// Clock writes an instant as briefly as it is clear today.
func (v View) Clock(t time.Time) string {
	local, today := t.In(v.Zone), v.Now.In(v.Zone)
	layout := "2006-01-02 15:04:05"
	switch {
	case local.YearDay() == today.YearDay() && local.Year() == today.Year():
		layout = "15:04:05"
	case t.Sub(v.Now).Abs() < 6*24*time.Hour:
		layout = "Mon 15:04:05"
	}
	return local.Format(layout)
}

// CeilSecond rounds an instant up to a whole second.
func CeilSecond(t time.Time) time.Time {
	if whole := t.Truncate(time.Second); whole.Before(t) {
		return whole.Add(time.Second)
	}
	return t
}

// Clean makes text from outside safe for a terminal: one line, valid UTF-8 without control characters.
func (v View) Clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// Prose writes cleaned text as lines of words between an indent and the edge of the screen. It does not split a word
// that is longer.
func (v View) Prose(b *strings.Builder, indent int, s Style, text string) {
	for _, line := range quota.Wrap(v.Clean(text), v.Width-indent) {
		b.WriteString(strings.Repeat(" ", indent) + v.Paint(s, line) + "\n")
	}
}

// Item writes prose after a label. Further lines begin below the first word.
func (v View) Item(b *strings.Builder, label, text string) {
	var prose strings.Builder
	indent := utf8.RuneCountInString(label)
	v.Prose(&prose, indent, Plain, text)
	b.WriteString(label + prose.String()[indent:])
}

// Cut shortens text to a width in characters and marks that it did.
func (v View) Cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:max(0, width-1)]) + "…"
}
