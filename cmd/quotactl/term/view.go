package term

import (
	"cmp"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	xterm "golang.org/x/term"
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
