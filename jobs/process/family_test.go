package process

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"quotad/jobs"
)

func TestWhatACommandLeavesIsSwept(t *testing.T) {
	for _, row := range []struct {
		name  string
		args  []string
		grace time.Duration
	}{
		{"a child that holds its output", []string{"leave", "sleep"}, time.Minute},
		{"a child that ignores TERM", []string{"leave", "stubborn"}, 50 * time.Millisecond},
		{"a stopped child", []string{"leave", "stop"}, time.Minute},
		{"one that forked twice", []string{"leave", "leave", "sleep"}, time.Minute},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := command(row.args...)
			c.KillGrace = row.grace
			b := begin(t, Launcher{}, c)
			exit := b.end(b.ready(len(row.args))...)
			if exit.Code != 0 || exit.Cause != nil || exit.Signal != "" {
				t.Errorf("got %+v, want success", exit)
			}
			// Those between the command and its last descendant may still be about to end.
			if exit.Swept < 1 || exit.Swept > len(row.args)-1 || exit.Left != 0 {
				t.Errorf("swept %d and left %d, want it swept and none left", exit.Swept, exit.Left)
			}
		})
	}
}

// Where there is no cgroup, a daemon that forked twice is not known: the log and the README say so.
func TestADaemonOfACommand(t *testing.T) {
	b := begin(t, Launcher{}, command("detach", "leave", "sleep"))
	pids := b.ready(3)
	if exit := b.end(pids[1:]...); exit.Code != 0 || exit.Swept != 0 {
		t.Errorf("got %+v, want that nothing was found", exit)
	}
	if p, err := readProcess(pids[0]); err != nil || p.zombie {
		t.Errorf("got %+v, %v of the daemon, want it to live", p, err)
	}
	_ = syscall.Kill(pids[0], syscall.SIGKILL)
	checkEnds(t, pids[0])
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
	} {
		t.Run(row.name, func(t *testing.T) {
			b := begin(t, Launcher{}, command(row.args...))
			pids := b.ready(row.pids)
			b.stop(jobs.ErrOperator)
			if exit := b.end(pids...); exit.Cause != jobs.ErrOperator || exit.Left != 0 {
				t.Errorf("got %+v, want %v and none left", exit, jobs.ErrOperator)
			}
		})
	}
}

func TestOtherPassesAreSpared(t *testing.T) {
	for name, root := range map[string]func(testing.TB) string{"cgroup": cgroupRoot, "group": func(testing.TB) string { return "" }} {
		t.Run(name, func(t *testing.T) {
			l := Launcher{Cgroups: root(t)}
			other := begin(t, l, command("stay", "sleep"))
			spared := other.ready(2)
			b := begin(t, l, command("leave", "sleep"))
			if exit := b.end(b.ready(2)...); exit.Swept != 1 {
				t.Errorf("swept %d, want its own child alone", exit.Swept)
			}
			other.stop(jobs.ErrShutdown)
			if exit := other.end(spared...); exit.Cause != jobs.ErrShutdown || exit.Signal != "SIGTERM" {
				t.Errorf("got %+v, want it to have run until %v", exit, jobs.ErrShutdown)
			}
		})
	}
}

func TestNothingIsLeftInTheDaemon(t *testing.T) {
	truth, err := Resolve("true", t.TempDir(), "")
	must(t, err)
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
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		if children, err := os.ReadFile(list); err == nil && len(strings.Fields(string(children))) > 0 {
			t.Errorf("left: %s", children)
		}
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}

func TestParseStat(t *testing.T) {
	const rest = " 77 78 79 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 %t 0 4711 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 %x 0 0 0"
	stat := func(name, state, threads, exitSignal string) string {
		return "80 (" + name + ") " + state + strings.NewReplacer("%t", threads, "%x", exitSignal).Replace(rest)
	}
	for _, row := range []struct {
		name, stat string
		zombie     bool
	}{
		{"a process", stat("sh", "S", "1", "17"), false},
		{"a name like no name", stat("a) Z 1 (b", "R", "1", "17"), false},
		{"a zombie", stat("sh", "Z", "1", "17"), true},
		{"a process whose first thread has ended", stat("java", "Z", "2", "17"), false},
	} {
		want := process{pid: 80, group: 78, start: 4711, zombie: row.zombie}
		if got, err := parseStat(80, []byte(row.stat)); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", row.name, got, err, want)
		}
	}
	for _, wrong := range []string{"", "80", "80 (sh", "80 (sh) S 1 2", stat("sh", "S", "1", "17")[:80]} {
		if got, err := parseStat(80, []byte(wrong)); err == nil {
			t.Errorf("%q: got %+v, want an error", wrong, got)
		}
	}
}
