package process

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"quotad/jobs"
)

// mark gives a command what it is known by: the region, and the run, which is
// none of another test process.
func mark(c jobs.Command, run, region string) jobs.Command {
	c.Env = append(c.Env, fmt.Sprintf("QUOTAD_RUN_ID=%s-%d", run, os.Getpid()), "QUOTAD_REGION="+region)
	return c
}

func TestWhatACommandLeavesIsSwept(t *testing.T) {
	for _, row := range []struct {
		name   string
		args   []string
		marked bool
		grace  time.Duration
		left   int
	}{
		{"a child that holds its output", []string{"leave", "sleep"}, false, time.Minute, 1},
		{"a child that ignores TERM", []string{"leave", "stubborn"}, false, 50 * time.Millisecond, 1},
		{"a stopped child", []string{"leave", "stop"}, false, time.Minute, 1},
		{"a child in a group of its own", []string{"regroup", "sleep"}, false, time.Minute, 1},
		{"a child with another environment", []string{"shed", "sleep"}, false, time.Minute, 1},
		{"a child in a session of its own", []string{"detach", "sleep"}, true, time.Minute, 1},
		{"a daemon", []string{"detach", "leave", "sleep"}, true, time.Minute, 1},
		{"a daemon that ignores TERM", []string{"detach", "leave", "stubborn"}, true, 50 * time.Millisecond, 1},
		{"a daemon and its child", []string{"detach", "stay", "sleep"}, true, time.Minute, 2},
		{"a child and its daemon", []string{"leave", "detach", "sleep"}, true, time.Minute, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := command(row.args...)
			if row.marked {
				c = mark(c, t.Name(), "US")
			}
			c.KillGrace = row.grace
			b := begin(t, Launcher{}, c)
			pids := b.ready(len(row.args))
			exit := b.end(pids...)
			if exit.Code != 0 || exit.Cause != nil || exit.Signal != "" {
				t.Errorf("got %+v, want success", exit)
			}
			// Those between the command and its daemon may still be about to end.
			if exit.Swept < row.left || exit.Swept > len(row.args)-1 || exit.Left != 0 {
				t.Errorf("swept %d and left %d, want %d and none", exit.Swept, exit.Left, row.left)
			}
		})
	}
}

func TestCancelEndsTheWholeFamily(t *testing.T) {
	for _, row := range []struct {
		name string
		args []string
		pids int
	}{
		{"a child", []string{"stay", "sleep"}, 2},
		{"generations", []string{"stay", "stay", "stay", "sleep"}, 4},
		{"a hundred children", []string{"hundred"}, 101},
		{"a daemon", []string{"stay", "detach", "sleep"}, 3},
		{"a child that cannot be known by anything but its parent", []string{"disguise", "sleep"}, 2},
		{"that child's child", []string{"disguise", "stay", "sleep"}, 3},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := begin(t, Launcher{}, mark(command(row.args...), t.Name(), "US"))
			pids := b.ready(row.pids)
			b.stop(jobs.ErrOperator)
			if exit := b.end(pids...); exit.Cause != jobs.ErrOperator || exit.Left != 0 {
				t.Errorf("got %+v, want %v and none left", exit, jobs.ErrOperator)
			}
		})
	}
}

// Two passes of one run, or of two runs in one region, are not each other's.
func TestOtherPassesAreSpared(t *testing.T) {
	var others []*launch
	var spared []int
	for _, pass := range [][2]string{{"run1", "GB"}, {"run2", "US"}} {
		b := begin(t, Launcher{}, mark(command("stay", "detach", "sleep"), pass[0], pass[1]))
		spared = append(spared, b.ready(3)[0]) // the daemon
		others = append(others, b)
	}
	b := begin(t, Launcher{}, mark(command("detach", "sleep"), "run1", "US"))
	pids := b.ready(2)
	if exit := b.end(pids...); exit.Swept != 1 {
		t.Errorf("swept %d, want its own child alone", exit.Swept)
	}
	for i, other := range others {
		if p, err := readProcess(spared[i]); err != nil || p.zombie {
			t.Errorf("got %+v, %v, want another pass's process to live", p, err)
		}
		other.stop(jobs.ErrShutdown)
		if exit := other.end(spared[i]); exit.Cause != jobs.ErrShutdown {
			t.Errorf("got %+v, want it to have run until %v", exit, jobs.ErrShutdown)
		}
	}
}

// A foreign process with our daemon as its parent is not ours to reap.
func TestChildrenOfOthersAreSpared(t *testing.T) {
	other := exec.Command("sleep", "120")
	other.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	b := begin(t, Launcher{}, mark(command("detach", "leave", "sleep"), t.Name(), "US"))
	b.end(b.ready(3)...)
	if err := other.Process.Kill(); err != nil {
		t.Errorf("it has ended: %v", err)
	}
	if err := other.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("got %v, want to be told of its end", err)
	}
}

func TestNothingIsLeftInTheDaemon(t *testing.T) {
	truth, err := Resolve("true", t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	c := jobs.Command{Args: []string{truth}, Timeout: time.Minute, KillGrace: time.Second}
	launchSome := func(n int) {
		done := make(chan jobs.Exit)
		for range n {
			go func() { done <- Launcher{}.Launch(t.Context(), t.Context(), c, func(jobs.Line) {}) }()
		}
		for range n {
			if exit := <-done; exit.Code != 0 || exit.Err != nil || exit.Swept != 0 {
				t.Fatalf("got %+v", exit)
			}
		}
	}
	launchSome(1) // os/exec and the runtime open what they keep
	descriptors, goroutines := openFiles(t), runtime.NumGoroutine()
	for range 40 {
		launchSome(5)
	}
	if got := openFiles(t); got != descriptors {
		t.Errorf("%d descriptors are open, want %d", got, descriptors)
	}
	// What a context runs after its end may need a moment.
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > goroutines; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, want %d", runtime.NumGoroutine(), goroutines)
		}
	}
	for _, p := range processes() {
		if p.parent == os.Getpid() {
			t.Errorf("left: %+v", p)
		}
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// Between a look and a signal, what is about to be a daemon leaves the group. One
// in a hundred daemons lived on for that, on a busy machine.
func TestWhoHasLeftTheGroupIsSignalled(t *testing.T) {
	b := begin(t, Launcher{}, command("sleep"))
	b.ready(1)
	daemon := exec.Command("sleep", "3600")
	daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer daemon.Process.Kill() // if the test fails
	seen, err := readProcess(daemon.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	seen.group = b.id.PID // when it was looked at
	f := &tree{root: b.id, pinned: true, known: []process{seen}}
	f.signal(syscall.SIGTERM)
	ended := make(chan error, 1)
	go func() { ended <- daemon.Wait() }()
	select {
	case err := <-ended:
		if err == nil || err.Error() != "signal: terminated" {
			t.Errorf("got %v, want it to be asked to end", err)
		}
	case <-time.After(patience):
		t.Error("it lives on")
	}
	b.end()
}
