package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"quotad/jobs"
)

// newReaper makes this process, which is a child of the test, one to which orphans come.
func newReaper() *Reaper {
	reaper, err := NewReaper()
	if err != nil {
		panic(err)
	}
	return reaper
}

func show(line jobs.Line) { fmt.Println(line.Text) }

// adopt launches a command as a process to which orphans come, and tells which children
// it is left with.
func adopt(args []string) { launchAdopting(Launcher{}, args) }

func launchAdopting(l Launcher, args []string) {
	l.Reaper = newReaper()
	c := inherit(command(args...))
	c.KillGrace = 100 * time.Millisecond
	exit := l.Launch(context.Background(), context.Background(), c, show)
	tellChildren()
	fmt.Println("exit", exit.Code, exit.Err, l.Reaper.Close())
}

func tellChildren() {
	for _, pid := range childrenOf(os.Getpid()) {
		fmt.Println("child", pid)
	}
}

// inheritChild has a child before it becomes a process to which orphans come.
func inheritChild(args []string) {
	spawn([]string{"sleep"}, &syscall.SysProcAttr{Setsid: true}, bareEnv())
	err := syscall.Exec(os.Args[0], append([]string{os.Args[0], "adopt"}, args...), os.Environ())
	panic(err)
}

// orphans launches a command that leaves orphans behind as long as it runs, which end by
// themselves, and says when none of them is left.
func orphans([]string) {
	reaper := newReaper()
	ask, end := context.WithCancel(context.Background())
	c := command()
	c.Args = []string{"/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do (setsid true &); done; echo orphaned; exec sleep 120"}
	exit := Launcher{Reaper: reaper}.Launch(ask, context.Background(), c, func(line jobs.Line) {
		for len(childrenOf(os.Getpid())) > 1 {
			time.Sleep(time.Millisecond)
		}
		end()
	})
	tellChildren()
	fmt.Println("exit", exit.Signal, exit.Err, reaper.Close())
}

// beside launches a command that leaves an orphan of which nothing is known, while
// another command runs whose it might be, and then ends that one too.
func beside([]string) {
	l := Launcher{Reaper: newReaper()}
	ask, end := context.WithCancel(context.Background())
	started, over := make(chan jobs.Identity, 1), make(chan jobs.Exit, 1)
	c := command("sleep")
	c.Started = func(id jobs.Identity) { started <- id }
	go func() { over <- l.Launch(ask, context.Background(), c, func(jobs.Line) {}) }()
	<-started
	exit := l.Launch(context.Background(), context.Background(), command("vanish", "sleep"), show)
	fmt.Println("swept", exit.Swept, "children", len(childrenOf(os.Getpid())))
	end()
	<-over
	tellChildren()
	fmt.Println("exit", exit.Code, exit.Err, l.Reaper.Close())
}

// inChild runs a child of the test to its end and returns the numbers of the processes
// that were ready, and the other lines.
func inChild(t *testing.T, args ...string) (pids []int, lines []string) {
	t.Helper()
	c := mark(command(args...), t.Name(), "US")
	file := filepath.Join(t.TempDir(), "output") // a pipe would be waited for as long as anybody holds it
	to, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = c.Env, to, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	output, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(output)) {
		line = strings.TrimSpace(line)
		if pid, ok := strings.CutPrefix(line, "ready "); ok {
			pids = append(pids, number(pid))
			continue
		}
		lines = append(lines, line)
	}
	return pids, lines
}

// With a reaper nothing is left behind, though it has left its session, has another
// environment and lost its parent, and whatever has ended is reaped.
func TestNothingEscapesAReaper(t *testing.T) {
	for _, args := range [][]string{
		{"leave", "leave", "sleep"},
		{"leave", "leave", "exit", "0"},
		{"detach", "sleep"},
		{"detach", "leave", "stubborn"},
		{"vanish", "sleep"},
		{"vanish", "leave", "stubborn"},
		{"vanish", "vanish", "stay", "sleep"},
	} {
		pids, lines := inChild(t, append([]string{"adopt"}, args...)...)
		if want := []string{"exit 0 <nil> <nil>"}; strings.Join(lines, "\n") != want[0] {
			t.Errorf("%q: got %q, want %q", args, lines, want)
		}
		for _, pid := range pids {
			checkEnds(t, pid)
		}
	}
}

// What ends while its command still runs does not stay a zombie until then.
func TestOrphansAreReapedMeanwhile(t *testing.T) {
	_, lines := inChild(t, "orphans")
	if want := "exit SIGTERM <nil> <nil>"; strings.Join(lines, "\n") != want {
		t.Errorf("got %q, want %q", lines, want)
	}
}

// An orphan that may be another command's is left to that one's end.
func TestOrphansOfOthersAreSpared(t *testing.T) {
	pids, lines := inChild(t, "beside")
	want := "swept 0 children 2\nexit 0 <nil> <nil>"
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, pid := range pids {
		checkEnds(t, pid)
	}
}

// Whoever had children before it became quotad may be given their orphans, which are
// not ours to end.
func TestInheritedChildrenAreSpared(t *testing.T) {
	pids, lines := inChild(t, "inherit", "vanish", "sleep")
	// The inherited one, the command's two, and of these the orphan.
	if len(pids) != 3 || len(lines) != 3 || lines[2] != "exit 0 <nil> <nil>" {
		t.Fatalf("got %v and %q", pids, lines)
	}
	for _, line := range lines[:2] {
		pid := number(strings.TrimPrefix(line, "child "))
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Errorf("process %d: %v", pid, err)
		}
	}
}
