// Package processtest has tests leave no process and no file behind, however they end: they
// pass, they panic, they run out of time, or they are killed.
//
// A package whose tests start processes has Tests in its TestMain. They then run in a process of their own, and the
// one that go test started stays above them as a subreaper, see PR_SET_CHILD_SUBREAPER(2const): whatever loses its
// parent comes to it, in a session or a process group of its own too. When the tests have ended it kills what is
// left, and removes the directory that it made for their temporary files.
package processtest

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// below is in the environment of everything below a process that waits for tests.
const below = "QUOTAD_CHILD_BELOW"

// Tests run the tests of a package, as the Run of a testing.M does.
type Tests func() int

// Run runs the tests, and ends every process and removes every temporary file that they leave. It returns their exit code.
func (run Tests) Run() int {
	if os.Getenv(below) != "" {
		return run()
	}
	code, err := runBelow()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot run the tests in a process of their own:", err)
		return 1
	}
	return code
}

// InMemory returns tests that keep temporary files in memory if there is room: what a kill leaves is the same there.
func InMemory(run Tests) Tests {
	const memory, room = "/dev/shm", 1 << 28
	var disk syscall.Statfs_t
	if os.Getenv("TMPDIR") == "" && syscall.Statfs(memory, &disk) == nil && disk.Bavail*uint64(disk.Bsize) >= room {
		os.Setenv("TMPDIR", memory)
	}
	return run
}

func runBelow() (code int, err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, os.NewSyscallError("prctl", err)
	}
	// Its name is short because those of sockets are, and tests run as other users too.
	temp, err := os.MkdirTemp("", "t")
	if err != nil {
		return 0, err
	}
	if err := os.Chmod(temp, 0o777|os.ModeSticky); err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT) // go test sends the last after its timeout
	tests, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{
		Env:   append([]string{below + "=1", "TMPDIR=" + temp}, os.Environ()...), // the first one counts
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return 0, err
	}
	go func() { // as long as this process
		for s := range signals {
			tests.Signal(s)
		}
	}()
	status, err := reap(tests.Pid)
	if err != nil {
		return 0, err
	}
	killAll()
	if err := os.RemoveAll(temp); err != nil {
		return 0, err
	}
	if status.Signaled() {
		return 0, fmt.Errorf("they ended by a signal: %v", status.Signal())
	}
	return status.ExitStatus(), nil
}

// reap waits for the end of a child. What else ends meanwhile has come from the tests, and
// no other code waits for it.
func reap(child int) (status syscall.WaitStatus, err error) {
	for {
		switch pid, err := syscall.Wait4(-1, &status, 0, nil); {
		case err != nil && err != syscall.EINTR:
			return status, os.NewSyscallError("wait4", err)
		case pid == child:
			return status, nil
		}
	}
}

// killAll kills children until there are none. The children of one that dies are ours before
// it can be reaped: each round finds them.
func killAll() {
	for {
		for _, pid := range children() {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		if _, err := syscall.Wait4(-1, nil, 0, nil); err != nil && err != syscall.EINTR {
			return
		}
	}
}

// children returns the children of this process. In proc(5), a process's parent is two
// fields after its name, which is in parentheses and may hold any character.
func children() (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is good
	for _, file := range files {
		stat, _ := os.ReadFile(file) // it may have ended
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
