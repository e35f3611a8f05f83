package main

import (
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"
)

// A view says what the place that output goes to can show, and from which
// instant and time zone it is looked at.
type view struct {
	now   time.Time
	zone  *time.Location
	width int  // columns of the screen, at least minWidth
	color bool // ANSI colours are understood and wanted
	utf8  bool // otherwise ASCII only

	user func(uid string) string // a user's name; nil: users are told by their uids
}

const (
	defaultWidth = 80
	minWidth     = 40
)

// newView looks at the environment and the terminal. Colour is one of "auto",
// "always" and "never".
func newView(now time.Time, out io.Writer, env environment, color string, utc bool) view {
	v := view{now: now, zone: time.Local, width: screenWidth(out, env), utf8: env.isUTF8(), user: userNames()}
	if utc {
		v.zone = time.UTC
	}
	switch color {
	case "always":
		v.color = true
	case "auto":
		v.color = isTerminal(out) && env.get("NO_COLOR") == "" && env.get("TERM") != "dumb"
	}
	return v
}

// screenWidth believes COLUMNS before the terminal, as git and ls do: it is how
// people ask for a width when there is no terminal.
func screenWidth(out io.Writer, env environment) int {
	if n, err := strconv.Atoi(env.get("COLUMNS")); err == nil && n > 0 {
		return max(n, minWidth)
	}
	if f, ok := out.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return max(width, minWidth)
		}
	}
	return defaultWidth
}

func isTerminal(out any) bool {
	f, ok := out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// An environment is a process's environment as os.Environ returns it.
type environment []string

// get returns the value of a variable, empty when it is not set; the last
// setting wins, as with os/exec.
func (e environment) get(name string) string {
	for i := len(e) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(e[i], name+"="); ok {
			return value
		}
	}
	return ""
}

// isUTF8 follows setlocale(3): the first of these that is set decides, and no
// locale at all is ASCII.
func (e environment) isUTF8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := strings.ToLower(e.get(name)); value != "" {
			return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
		}
	}
	return false
}

// full is a character of which bars are made.
func (v view) full() string {
	if v.utf8 {
		return "█"
	}
	return "#"
}

// A style is how a text stands out. No state is told by style alone.
type style string

// The styles, as parameters of an ANSI sequence.
const (
	plain  style = ""
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// paint wraps text in a style, or leaves it alone where colour is off.
func (v view) paint(s style, text string) string {
	if !v.color || s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}
