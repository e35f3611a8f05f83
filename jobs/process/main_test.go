package process

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quotad/jobs"
	"quotad/jobs/process/processtest"
)

// The tests launch their own executable: with childVariable in its environment
// it is one of the ill-mannered children below, named by its first argument.
const childVariable = "QUOTAD_CHILD"

// patience ends a test that hangs: whatever it waits for takes less, on a busy machine too.
const patience = 3 * time.Minute

func TestMain(m *testing.M) {
	Enter()
	if os.Getenv(childVariable) == "" {
		os.Exit(processtest.Tests(m.Run).Run())
	}
	child, known := children()[os.Args[1]]
	if !known {
		fmt.Fprintln(os.Stderr, "no such child:", os.Args[1])
		os.Exit(2)
	}
	child(os.Args[2:])
}

func children() map[string]func(args []string) {
	return map[string]func(args []string){
		"sleep":    func([]string) { ready(); rest() },
		"stubborn": func([]string) { signal.Ignore(syscall.SIGTERM); ready(); rest() },
		"trap":     func(args []string) { onTerm(func() { os.Exit(number(args[0])) }); ready(); rest() },
		"stay":     func(args []string) { spawn(args, nil, nil); ready(); rest() },
		"leave":    func(args []string) { spawn(args, nil, nil); ready() },
		"vanish":   func(args []string) { spawn(args, &syscall.SysProcAttr{Setsid: true}, bareEnv()); ready() },
		"stop":     func([]string) { ready(); _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP); rest() },
		"flood":    flood,
		"become":   become,
		"describe": func([]string) { describe() },
		"daemon":   daemon,
	}
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// ready says so, to the test by a line with the process's number, and to the parent by closing what it waits on.
func ready() {
	fmt.Println("ready", os.Getpid())
	syscall.Close(3)
}

// rest outlasts every test, but not by much, should one fail to end it.
func rest() { time.Sleep(2 * time.Minute) }

func onTerm(do func()) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	go func() {
		<-asked
		do()
	}()
}

// spawn starts another child and returns when it is ready.
func spawn(args []string, attributes *syscall.SysProcAttr, env []string) {
	waiting, held, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{held}
	cmd.SysProcAttr = attributes
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	held.Close()
	_, _ = io.Copy(io.Discard, waiting)
}

// bareEnv is what a child needs, without what it could be known by.
func bareEnv() []string { return []string{childVariable + "=1", "GORACE=atexit_sleep_ms=0"} }

// flood writes so many numbered lines.
func flood(args []string) {
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	for i := range number(args[0]) {
		fmt.Fprintln(out, "line", i)
	}
	out.WriteString("the last words")
	out.Flush()
}

// describe prints what a process can find out about itself.
func describe() {
	pid := os.Getpid()
	session, err := unix.Getsid(0)
	if err != nil {
		panic(err)
	}
	stdin, _ := os.Readlink("/proc/self/fd/0")
	dir, _ := os.Getwd()
	fmt.Println("leads", session == pid && syscall.Getpgrp() == pid)
	fmt.Println("stdin", stdin)
	fmt.Println("dir", dir)
	fmt.Println("env", strings.Join(os.Environ(), " "))
}

// daemon launches a command and prints its identity, to be killed then.
func daemon(args []string) {
	c := command(args[1:]...)
	c.Started = func(id jobs.Identity) { fmt.Printf("started %d %d %q\n", id.PID, id.Start, id.Cgroup) }
	Launcher{Cgroups: args[0]}.Launch(context.Background(), context.Background(), c, func(line jobs.Line) { fmt.Println(line.Text) })
}

// command is one that has a child's manners.
func command(args ...string) jobs.Command {
	executable, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return jobs.Command{
		Args: append([]string{executable}, args...),
		// The race detector would have each child sleep a second at its end.
		Env:       []string{childVariable + "=1", "GORACE=atexit_sleep_ms=0", "PATH=" + os.Getenv("PATH")},
		Timeout:   time.Minute,
		KillGrace: 30 * time.Second,
	}
}

// shell is a command that runs a script.
func shell(script string) jobs.Command {
	c := command()
	c.Args = []string{"/bin/sh", "-c", script}
	return c
}

// must fails a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
