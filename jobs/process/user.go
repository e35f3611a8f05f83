package process

import (
	"errors"
	"os"
	"os/user"
	"runtime"
	"strconv"
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

// start runs what starts a command, and ensures that the command does not inherit the capabilities by which it
// becomes the user: those that systemd gave us are ambient, and outlive a change of the user. The set is a thread's
// own, and a command inherits that of the thread that starts it.
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
