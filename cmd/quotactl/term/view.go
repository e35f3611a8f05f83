package term

import (
	"cmp"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	xterm "golang.org/x/term"

	"quotad/quota"
)

// A View describes the output: what it can show, and the instant and time zone of its
// reader.
type View struct {
	Now   time.Time
	Zone  *time.Location
	Width int  // columns of the screen, at least minWidth
	Lines int  // of the screen
	Drawn bool // over what was there: what has no room on the screen is not seen
	Whole bool // there is no screen: nothing is cut
	Color bool // the output knows ANSI colours, and the user wants them

	users map[string]string // names by uid, each asked for once; nil: output shows uids
}

// The size of a screen of unknown size.
const (
	DefaultWidth = 80
	defaultLines = 24
	minWidth     = 40
)

// NewView reads the environment and the terminal.
func NewView(now time.Time, out io.Writer, utc bool) View {
	v := View{Now: now, Zone: time.Local, users: map[string]string{}}
	v.Width, v.Lines = screenSize(out)
	if utc {
		v.Zone = time.UTC
	}
	v.Whole = !IsTerminal(out) && os.Getenv("COLUMNS") == ""
	v.Color = IsTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return v
}

// screenSize prefers COLUMNS to the terminal, as git and ls do: it is how people set a
// width without a terminal.
func screenSize(out io.Writer) (width, lines int) {
	width, lines = DefaultWidth, defaultLines
	if f, ok := out.(*os.File); ok {
		if columns, rows, err := xterm.GetSize(int(f.Fd())); err == nil {
			width, lines = cmp.Or(columns, width), cmp.Or(rows, lines)
		}
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		width = n
	}
	return max(width, minWidth), lines
}

// IsTerminal reports whether a reader or writer is a terminal.
func IsTerminal(out any) bool {
	f, ok := out.(*os.File)
	return ok && xterm.IsTerminal(int(f.Fd()))
}

// Full is the character of which bars are made.
const Full = "█"

// A Style is how a text stands out. No state is shown by style alone.
type Style string

// The styles, as parameters of an ANSI sequence.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Faint  Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

// Paint wraps text in a style, unless colour is off.
func (v View) Paint(s Style, text string) string {
	if !v.Color || s == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// Caller writes a caller as the log names it. For "@" and the uid of a user it writes the
// name by which this host knows the user. An unknown user keeps the uid.
func (v View) Caller(by string) string {
	uid, isUser := strings.CutPrefix(by, "@")
	if isUser && uid != "" && v.users != nil {
		if _, asked := v.users[uid]; !asked {
			v.users[uid] = uid
			if u, err := user.LookupId(uid); err == nil {
				v.users[uid] = u.Username
			}
		}
		by = "@" + v.users[uid]
	}
	return v.Clean(by)
}

// Brief writes a duration, at least a second, in its two greatest units: "3h 12m", "45s".
// It uses days from two days on: a window is "24h".
func Brief(d time.Duration) string {
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

// pair writes "3h 12m", or "3h" without a rest.
func pair(n int64, unit string, rest int64, restUnit string) string {
	text := strconv.FormatInt(n, 10) + unit
	if rest > 0 {
		text += " " + strconv.FormatInt(rest, 10) + restUnit
	}
	return text
}

// Took writes how long something lasted: "0.84s", "12.3s", and from a minute on as Brief.
func Took(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + "s"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	default:
		return Brief(d)
	}
}

// When writes an instant relative to now and by the clock: "in 3h 12m, at 14:05:33". It
// rounds the future up to the second, because units that come back at .4 are not there
// at .0.
func (v View) When(t time.Time) string {
	if t.After(v.Now) {
		left := t.Sub(v.Now) + time.Second - 1
		return "in " + Brief(left) + ", at " + v.Clock(CeilSecond(t)) + v.ZoneMark()
	}
	past := "just now"
	if d := v.Now.Sub(t); d >= time.Second {
		past = Brief(d) + " ago"
	}
	return past + ", at " + v.Clock(t) + v.ZoneMark()
}

// Until writes when something ends: "15:00:00 (in 6h)".
func (v View) Until(t time.Time) string {
	return v.Clock(CeilSecond(t)) + v.ZoneMark() + " (in " + Brief(max(0, t.Sub(v.Now)+time.Second-1)) + ")"
}

// ZoneMark follows a time, or the head of a column of times, that is not local.
func (v View) ZoneMark() string {
	if v.Zone == time.UTC {
		return " UTC"
	}
	return ""
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

// Clean makes text from outside safe for a terminal: one line, valid UTF-8 without control
// characters.
func (v View) Clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return '?'
		default:
			return r
		}
	}, strings.ToValidUTF8(text, "?"))
}

// Prose writes cleaned text as lines of words between an indent and the edge of the screen.
// It does not split a word that is longer.
func (v View) Prose(b *strings.Builder, indent int, s Style, text string) {
	for _, line := range quota.Wrap(v.Clean(text), v.Width-indent) {
		b.WriteString(strings.Repeat(" ", indent) + v.Paint(s, line) + "\n")
	}
}

// Item writes prose after a label. Further lines begin below the first word.
func (v View) Item(b *strings.Builder, indent int, label, text string) {
	var prose strings.Builder
	begin := indent + utf8.RuneCountInString(label)
	v.Prose(&prose, begin, Plain, text)
	b.WriteString(strings.Repeat(" ", indent) + label + prose.String()[begin:])
}

// Cut shortens text to a width in characters and marks that it did.
func (v View) Cut(text string, width int) string {
	const mark = "…"
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	keep := max(0, width-utf8.RuneCountInString(mark))
	return string([]rune(text)[:keep]) + mark
}

// Commands to a terminal.
const (
	goHome     = "\x1b[H"
	clearLine  = "\x1b[K" // from the cursor to the line's end
	clearBelow = "\x1b[J"
	wrapOff    = "\x1b[?7l"
	wrapOn     = "\x1b[?7h"
)

// Draw returns the commands that draw a text over the screen, above an empty line for the
// cursor. They clear nothing before they draw over it, so nothing flickers, and leave
// nothing to restore.
func (v View) Draw(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if most := v.Lines - 1; len(lines) > most {
		shown := max(0, most-1)
		lines = append(lines[:shown:shown], "("+quota.Count(len(lines)-shown, "line", "lines")+" more)")
	}
	return wrapOff + goHome + strings.Join(append(lines, ""), clearLine+"\n") + clearBelow + wrapOn
}
