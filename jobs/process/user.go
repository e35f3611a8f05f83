package process

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A User is the user that commands run as.
type User struct {
	Name, Home string
	UID, GID   int
	Groups     []int // all of them
}

// LookupUser returns the user of that name, with the groups that it is in.
func LookupUser(name string) (*User, error) {
	found, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	ids, err := found.GroupIds()
	number := func(id string) int {
		n, wrong := strconv.Atoi(id)
		err = errors.Join(err, wrong)
		return n
	}
	u := &User{Name: found.Username, Home: found.HomeDir, UID: number(found.Uid), GID: number(found.Gid)}
	for _, id := range ids {
		u.Groups = append(u.Groups, number(id))
	}
	return u, err
}

// OwnUser returns the user that we run as, with the groups that we have.
func OwnUser() (*User, error) {
	groups, err := os.Getgroups()
	return &User{UID: os.Getuid(), GID: os.Getgid(), Groups: groups}, err
}

// needed is what it takes to launch commands as other users, to end them, and to
// give them a directory.
var needed = [...]struct {
	name string
	bit  int
}{
	{"CAP_SETUID", unix.CAP_SETUID}, {"CAP_SETGID", unix.CAP_SETGID}, {"CAP_KILL", unix.CAP_KILL}, {"CAP_CHOWN", unix.CAP_CHOWN},
}

// String returns the name of the user; nil, and one without a name, is the user that we run as.
func (u *User) String() string {
	if u == nil || u.Name == "" {
		return NameOf(os.Geteuid())
	}
	return u.Name
}

// NameOf returns the name of a user, or the uid of one without a name.
func NameOf(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return strconv.Itoa(uid)
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

// The modes of access(2); to execute a directory is to enter it.
const Read, Execute uint32 = unix.R_OK, unix.X_OK

// Closed returns what is closed to a user who would use a path by a mode: a directory above it, or
// what is at the path; "": nothing, or it cannot be found out.
func (u *User) Closed(path string, mode uint32) (closed string, above bool) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	u.As(func() {
		for errors.Is(unix.Faccessat(unix.AT_FDCWD, path, mode, unix.AT_EACCESS), unix.EACCES) && closed != "/" {
			closed, above, path, mode = path, closed != "", filepath.Dir(path), Execute
		}
	})
	return closed, above
}

// CanSwitch returns nil if we may launch commands as other users, and else an
// error that names the capabilities that we lack, see capabilities(7).
func CanSwitch() error {
	var ours [2]unix.CapUserData // 32 capabilities each
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &ours[0]); err != nil {
		return fmt.Errorf("cannot read our capabilities: %w", err)
	}
	var lacking []string
	for _, capability := range needed {
		if ours[0].Effective&(1<<capability.bit) == 0 {
			lacking = append(lacking, capability.name)
		}
	}
	if len(lacking) > 0 {
		return fmt.Errorf("quotad lacks %s", strings.Join(lacking, ", "))
	}
	return nil
}

// credential returns the user in the form that the kernel takes.
func (u *User) credential() *syscall.Credential {
	if u == nil {
		return nil
	}
	c := &syscall.Credential{Uid: uint32(u.UID), Gid: uint32(u.GID)}
	for _, group := range u.Groups {
		c.Groups = append(c.Groups, uint32(group))
	}
	return c
}

// start runs what starts a command, and ensures that the command does not
// inherit the capabilities by which it becomes the user: those that systemd gave
// us are ambient, and outlive a change of the user. The set is a thread's own, and
// a command inherits that of the thread that starts it.
func (u *User) start(start func() error) error {
	if u == nil {
		return start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	return start()
}
