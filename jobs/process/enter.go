package process

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// A command enters its cgroup before it begins. clone3(2) would start it in there, but a service that may not make
// namespaces may not call that (RestrictNamespaces=), and jobs should not make namespaces. So we start this program
// again, as the command's user and with all that the command is to have. It waits in Enter until we have moved it,
// and then executes the command.

// enterName is the name, argument 0, by which this program knows that it is to enter a cgroup.
const enterName = "quotad: enters its cgroup"

// enterSocket is the descriptor at which it waits.
const enterSocket = 3

// Enter is called first in the main function of a program that launches commands in
// cgroups. Where it was started to become such a command, Enter does not return.
func Enter() {
	if os.Args[0] != enterName || len(os.Args) < 2 {
		return
	}
	syscall.CloseOnExec(enterSocket)
	if n, _ := syscall.Read(enterSocket, make([]byte, 1)); n == 1 { // else the process that started us has ended
		err := syscall.Exec(os.Args[1], os.Args[1:], os.Environ())
		var number syscall.Errno
		errors.As(err, &number)
		_, _ = syscall.Write(enterSocket, []byte{byte(number)})
	}
	os.Exit(1)
}

// startIn starts a command in a cgroup. If the kernel does not let it in there, it runs
// outside, and entered is false.
func (l Launcher) startIn(group cgroup, cmd *exec.Cmd) (entered bool, err error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return false, os.NewSyscallError("socketpair", err)
	}
	ours, its := os.NewFile(uintptr(pair[0]), "enter"), os.NewFile(uintptr(pair[1]), "enter")
	defer ours.Close()
	cmd.Path, cmd.Args = "/proc/self/exe", append([]string{enterName}, cmd.Args...)
	cmd.ExtraFiles = []*os.File{its}
	err = l.User.start(cmd.Start)
	its.Close()
	if err != nil {
		return false, err
	}
	entered = group.enter(cmd.Process.Pid) == nil
	if err = execute(ours); err != nil {
		_ = cmd.Wait()
	}
	return entered, err
}

// execute makes a program that waits in Enter execute its command, and returns why it cannot.
func execute(socket *os.File) error {
	if _, err := socket.Write([]byte{'.'}); err != nil {
		return err
	}
	number := make([]byte, 1)
	if n, _ := socket.Read(number); n == 0 { // once it executes the command
		return nil
	}
	return syscall.Errno(number[0])
}

// enter moves a process, which has no children yet, into the cgroup.
func (g cgroup) enter(pid int) error {
	file, err := os.OpenFile(filepath.Join(string(g), "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(strconv.Itoa(pid))
	return errors.Join(err, file.Close())
}
