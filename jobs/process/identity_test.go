package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"quotad/jobs"
)

// crash runs a daemon that launches a command, with cgroups below root, and is killed with -9 when so many
// processes are ready. It returns the command's identity and their numbers.
func crash(t *testing.T, root string, n int, args ...string) (jobs.Identity, []int) {
	t.Helper()
	c := command(append([]string{"daemon", root}, args...)...)
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env, cmd.Stderr = c.Env, os.Stderr
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	boot, err := bootID()
	must(t, err)
	id := jobs.Identity{BootID: boot}
	var pids []int
	for lines := bufio.NewScanner(stdout); (len(pids) < n || id.PID == 0) && lines.Scan(); {
		if pid, ok := strings.CutPrefix(lines.Text(), "ready "); ok {
			pids = append(pids, number(pid))
		}
		_, _ = fmt.Sscanf(lines.Text(), "started %d %d %q", &id.PID, &id.Start, &id.Cgroup)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if len(pids) < n || id.Start == 0 || (id.Cgroup != "") != (root != "") {
		t.Fatalf("the daemon said no more than %v and %+v", pids, id)
	}
	return id, pids
}

// What a killed daemon left is ended by its identity, once. A daemon that stops again does not wait for it.
func TestEndLeftover(t *testing.T) {
	stops, stop := context.WithCancelCause(t.Context())
	stop(jobs.ErrShutdown)
	for _, row := range []struct {
		name    string
		cgroup  bool
		args    []string
		n       int
		grace   time.Duration
		orphans bool // their first process has ended
	}{
		{"its child", false, []string{"stay", "sleep"}, 2, time.Minute, false},
		{"who ignores TERM", false, []string{"stubborn"}, 1, time.Millisecond, false},
		{"a child that ignores TERM", false, []string{"stay", "stubborn"}, 2, 50 * time.Millisecond, false},
		{"a cgroup that outlived its first process", true, []string{"stay", "vanish", "stubborn"}, 3, 50 * time.Millisecond, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			root := ""
			if row.cgroup {
				root = cgroupRoot(t)
			}
			id, pids := crash(t, root, row.n, row.args...)
			if row.orphans {
				must(t, syscall.Kill(id.PID, syscall.SIGKILL))
				checkEnds(t, id.PID)
			}
			if row.n == 1 {
				if ended, err := EndLeftover(stops, id, time.Minute); ended || !errors.Is(err, jobs.ErrShutdown) {
					t.Errorf("a daemon that stops: got %t, %v, want %v", ended, err, jobs.ErrShutdown)
				}
			}
			if ended, err := EndLeftover(t.Context(), id, row.grace); !ended || err != nil {
				t.Errorf("got %t, %v, want it ended", ended, err)
			}
			checkGone(t, id.PID, pids...)
			if ended, err := EndLeftover(t.Context(), id, row.grace); ended || err != nil {
				t.Errorf("once more: got %t, %v, want nothing to end", ended, err)
			}
		})
	}
}

func TestEndLeftoverHarmsNoOther(t *testing.T) {
	b := begin(t, Launcher{}, command("stay", "sleep"))
	pids := b.ready(2)
	if want, err := Identify(b.id.PID); err != nil || b.id != want || b.id.Start == 0 {
		t.Errorf("got %+v, want %+v, %v", b.id, want, err)
	}
	for name, change := range map[string]func(*jobs.Identity){
		"its number was reused":   func(id *jobs.Identity) { id.Start-- },
		"before the last boot":    func(id *jobs.Identity) { id.BootID = "another" },
		"one that leads no group": func(id *jobs.Identity) { *id, _ = Identify(pids[0]) },
		"nothing known at all":    func(id *jobs.Identity) { *id = jobs.Identity{BootID: id.BootID} },
	} {
		id := b.id
		change(&id)
		if ended, err := EndLeftover(t.Context(), id, time.Millisecond); ended || err != nil {
			t.Errorf("%s: got %t, %v, want nothing to end", name, ended, err)
		}
	}
	b.stop(jobs.ErrOperator)
	if exit := b.end(pids...); exit.Cause != jobs.ErrOperator {
		t.Errorf("got %+v, want it to have run until %v", exit, jobs.ErrOperator)
	}
	if got, err := Identify(b.id.PID); err == nil {
		t.Errorf("got %+v of a process that is gone", got)
	}
}

func TestParseStat(t *testing.T) {
	const rest = " 77 78 79 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 %t 0 4711 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0"
	stat := func(name, state, threads string) string {
		return "80 (" + name + ") " + state + strings.Replace(rest, "%t", threads, 1)
	}
	for _, row := range []struct {
		name, stat string
		zombie     bool
	}{
		{"a name like no name", stat("a) Z 1 (b", "R", "1"), false},
		{"a zombie", stat("sh", "Z", "1"), true},
		{"a process whose first thread has ended", stat("java", "Z", "2"), false},
	} {
		want := process{pid: 80, group: 78, start: 4711, zombie: row.zombie}
		if got, err := parseStat(80, []byte(row.stat)); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", row.name, got, err, want)
		}
	}
	for _, wrong := range []string{"", "80", "80 (sh) S 1 2", stat("sh", "S", "1")[:80]} {
		if got, err := parseStat(80, []byte(wrong)); err == nil {
			t.Errorf("%q: got %+v, want an error", wrong, got)
		}
	}
}
