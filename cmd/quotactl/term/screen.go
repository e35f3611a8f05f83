package term

import (
	"fmt"
	"os"
	"strings"

	xterm "golang.org/x/term"

	"quotad/quota"
)

// Commands to a terminal. Enter shows the alternate screen, without a cursor and without
// wrapping lines. Leave restores the screen.
const (
	Enter      = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	Leave      = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	goHome     = "\x1b[H"
	clearLine  = "\x1b[K" // from the cursor to the line's end
	clearBelow = "\x1b[J"
)

// Draw returns the commands that draw a text over a screen of the given height. They clear
// nothing before they draw over it, so nothing flickers.
func Draw(text string, height int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if more := len(lines) - height; more > 0 && height > 0 {
		lines = append(lines[:height-1], fmt.Sprintf("(%s more)", quota.Count(more+1, "line", "lines")))
	}
	return goHome + strings.Join(lines, clearLine+"\r\n") + clearLine + clearBelow
}

// defaultHeight is for a terminal of unknown size.
const defaultHeight = 24

// Height returns how many lines a terminal shows.
func Height(out any) int {
	if f, ok := out.(*os.File); ok {
		if _, height, err := xterm.GetSize(int(f.Fd())); err == nil && height > 0 {
			return height
		}
	}
	return defaultHeight
}
