package term

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
	xterm "golang.org/x/term"
)

// A Keyboard is the terminal that controls this process, as something to type at.
// Where there is none, its methods do nothing.
type Keyboard struct {
	tty     *os.File     // nil: there is none
	was     *xterm.State // how the terminal was, while it is ours; else nil
	reading sync.WaitGroup
}

// InForeground tells whether this process may change the terminal that controls it.
// In the background, as below timeout(1), that would stop it (SIGTTOU) for good:
// no shell is there to say so. Without such a terminal nothing is in the way.
func InForeground() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return true
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// OpenKeyboard reads keys until it is closed: q calls leave, and what stands for
// a signal sends that.
func OpenKeyboard(leave func()) *Keyboard {
	// Only where reading does not block does Close end it.
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
			} else if signal := signalOf(key[0]); signal != 0 {
				syscall.Kill(0, signal) // as the terminal would, to all of the foreground
			}
		}
	})
	return k
}

// signalOf is what a terminal sends when a key is typed, unless it is ours; 0: nothing.
func signalOf(key byte) syscall.Signal {
	switch key {
	case 'C' & 0x1f:
		return syscall.SIGINT
	case 'Z' & 0x1f:
		return syscall.SIGTSTP
	case '\\' & 0x1f:
		return syscall.SIGQUIT
	default:
		return 0
	}
}

// Take has keys read one by one and not echoed. It stops this process as long as
// that is in the background.
func (k *Keyboard) Take() error {
	return k.control(func(fd int) (err error) {
		k.was, err = xterm.MakeRaw(fd)
		return err
	})
}

// GiveBack leaves the terminal as it was before take.
func (k *Keyboard) GiveBack() error {
	if k.was == nil {
		return nil
	}
	return k.control(func(fd int) error {
		err := xterm.Restore(fd, k.was)
		k.was = nil
		return err
	})
}

// control calls do with the terminal's descriptor. File.Fd could make it block.
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
