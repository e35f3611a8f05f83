package process

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The modes of access(2).
const (
	Read    = unix.R_OK
	Execute = unix.X_OK // of a directory: enter
)

// String returns the name of the user; nil, and one without a name, is the user that we run as.
func (u *User) String() string {
	if u != nil && u.Name != "" {
		return u.Name
	}
	uid := strconv.Itoa(os.Geteuid())
	if found, err := user.LookupId(uid); err == nil {
		return found.Username
	}
	return uid
}

// As calls do on a thread that accesses files as the user, as far as we may become that; nil is the user that we run as.
func (u *User) As(do func()) {
	if u == nil || u.UID == os.Geteuid() {
		do()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlock it: the thread ends with the goroutine
		const keep = ^uintptr(0)
		_ = unix.Setgroups(u.Groups) // of this thread alone, as the raw calls: package syscall would change all
		_, _, _ = unix.RawSyscall(unix.SYS_SETRESGID, keep, uintptr(u.GID), keep)
		_, _, _ = unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(u.UID), keep)
		do()
	}()
	<-done
}

// Closed returns what is closed to a user who would use a path by a mode: a directory above it, or
// what is at the path; "": nothing, or it cannot be found out.
func (u *User) Closed(path string, mode uint32) (closed string, isDir bool) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	u.As(func() {
		for errors.Is(unix.Faccessat(unix.AT_FDCWD, path, mode, unix.AT_EACCESS), unix.EACCES) && closed != "/" {
			closed, path, mode, isDir = path, filepath.Dir(path), Execute, closed != ""
		}
	})
	if info, err := os.Stat(closed); err == nil {
		isDir = info.IsDir()
	}
	return closed, isDir
}

// CheckProgram returns what keeps a user from executing a program, with the cure: also what is wrong with the
// interpreter of a script, which env(1) looks up in the directories of search.
func (u *User) CheckProgram(path, search string) error {
	interpreter := interpreterOf(path)
	if interpreter == nil {
		return u.mayUse(path, Execute)
	}
	if err := u.mayUse(path, Execute|Read); err != nil { // the interpreter reads it
		return err
	}
	at := strings.Join(interpreter[:1], "")
	_, err := os.Stat(at)
	if len(interpreter) == 2 && filepath.Base(at) == "env" && interpreter[1][0] != '-' && !strings.ContainsAny(interpreter[1], "=/") && err == nil {
		at, err = interpreter[1], fs.ErrNotExist
		for _, dir := range filepath.SplitList(search) {
			if executable(filepath.Join(dir, at)) == nil {
				return nil
			}
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("its first line names the interpreter %q, which does not exist: install it, or correct the line", at)
	}
	if closed, _ := u.Closed(at, Execute); closed != "" {
		return fmt.Errorf("its first line names the interpreter %s, and %s is closed to user %s: name another", at, closed, u)
	}
	return nil
}

// mayUse returns what keeps a user from using a program by a mode, with the cure.
func (u *User) mayUse(path string, mode uint32) error {
	var disk unix.Statfs_t
	switch closed, isDir := u.Closed(path, mode); {
	case closed == "":
		return nil
	case isDir:
		return fmt.Errorf("user %s cannot enter %s: move the program to where it can, such as /usr/local/bin, and chmod 755 it", u, closed)
	case unix.Statfs(closed, &disk) == nil && disk.Flags&unix.ST_NOEXEC != 0:
		return fmt.Errorf("%s is on a file system that is mounted noexec: move the program, such as to /usr/local/bin", closed)
	default:
		return fmt.Errorf("%s is not for user %s to execute: chmod 755 %[1]s", closed, u)
	}
}

// interpreterOf returns the interpreter that the first line of a script names, and its argument; nil: it is no script.
func interpreterOf(path string) []string {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	line, _ := bufio.NewReader(io.LimitReader(file, 256)).ReadString('\n') // the kernel reads no more
	text, isScript := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "#!")
	if !isScript {
		return nil
	}
	return strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' }) // and no \r
}
