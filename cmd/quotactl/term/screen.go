package term

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
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

// A Keyboard is the terminal that controls this process, as something to type at. If there
// is none, its methods do nothing.
type Keyboard struct {
	tty     *os.File      // nil: there is none
	before  *unix.Termios // how the terminal was before Grab; else nil
	reading sync.WaitGroup
}

// InForeground reports whether this process may change the terminal that controls it. In
// the background, as under timeout(1), that would stop it (SIGTTOU) for good, because no
// shell would continue it. Without such a terminal the answer is yes.
func InForeground() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return true
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// OpenKeyboard reads keys until it is closed, and calls leave for each q.
func OpenKeyboard(leave func()) *Keyboard {
	// Close ends a read only if the file does not block.
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return &Keyboard{}
	}
	k := &Keyboard{tty: tty}
	k.reading.Go(func() {
		for key := make([]byte, 1); ; {
			if _, err := tty.Read(key); err != nil {
				return
			}
			if key[0] == 'q' {
				leave()
			}
		}
	})
	return k
}

// Grab makes the terminal return keys one by one, without an echo. Keys such as Ctrl-C
// still send signals. In the background it stops this process.
func (k *Keyboard) Grab() error {
	return k.control(func(fd int) error {
		before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err != nil {
			return err
		}
		k.before = before
		now := *before
		now.Lflag &^= unix.ICANON | unix.ECHO
		now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 1, 0
		return unix.IoctlSetTermios(fd, unix.TCSETS, &now)
	})
}

// Restore sets the terminal to how it was before Grab.
func (k *Keyboard) Restore() error {
	if k.before == nil {
		return nil
	}
	return k.control(func(fd int) error {
		err := unix.IoctlSetTermios(fd, unix.TCSETS, k.before)
		k.before = nil
		return err
	})
}

// control calls do with the terminal's descriptor. File.Fd could make the file block.
func (k *Keyboard) control(do func(fd int) error) error {
	if k.tty == nil {
		return nil
	}
	raw, err := k.tty.SyscallConn()
	if err != nil {
		return err
	}
	var done error
	err = raw.Control(func(fd uintptr) { done = do(int(fd)) })
	return errors.Join(err, done)
}

// Close ends the reading of keys.
func (k *Keyboard) Close() {
	if k.tty != nil {
		k.tty.Close()
		k.reading.Wait()
	}
}
