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

func TestIdentity(t *testing.T) {
	b := begin(t, Launcher{}, command("sleep"))
	want, err := Identify(b.id.PID)
	must(t, err)
	if b.id != want || b.id.Start == 0 {
		t.Errorf("got %+v, want %+v", b.id, want)
	}
	b.ready(1)
	b.stop(jobs.ErrOperator)
	b.end()
	if got, err := Identify(b.id.PID); err == nil {
		t.Errorf("got %+v of a process that is gone", got)
	}
}

// crash runs a daemon that launches a command, with cgroups below root, and is killed with -9 when so many
// processes are ready. It returns the command's identity and their numbers.
func crash(t *testing.T, root string, n int, args ...string) (jobs.Identity, []int) {
	t.Helper()
	c := command(append([]string{"daemon", root}, args...)...)
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env = c.Env
	cmd.Stderr = os.Stderr
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
	if len(pids) < n || id.Start == 0 {
		t.Fatalf("the daemon said no more than %v and %+v", pids, id)
	}
	return id, pids
}

func TestEndLeftover(t *testing.T) {
	for _, row := range []struct {
		name   string
		cgroup bool
		args   []string
		n      int
		grace  time.Duration
		change func(*testing.T, *jobs.Identity)
	}{
		{"a process", false, []string{"sleep"}, 1, time.Minute, nil},
		{"its child", false, []string{"stay", "sleep"}, 2, time.Minute, nil},
		{"what ignores TERM", false, []string{"stay", "stubborn"}, 2, 50 * time.Millisecond, nil},
		{"a cgroup", true, []string{"stay", "vanish", "sleep"}, 3, time.Minute, nil},
		{"a cgroup that outlived its first process", true, []string{"stay", "vanish", "stubborn"}, 3, 50 * time.Millisecond, killLeader},
	} {
		t.Run(row.name, func(t *testing.T) {
			root := ""
			if row.cgroup {
				root = cgroupRoot(t)
			}
			id, pids := crash(t, root, row.n, row.args...)
			if (id.Cgroup != "") != row.cgroup {
				t.Fatalf("its cgroup is %q", id.Cgroup)
			}
			if row.change != nil {
				row.change(t, &id)
			}
			ended, err := EndLeftover(t.Context(), id, row.grace)
			if !ended || err != nil {
				t.Errorf("got %t, %v, want it ended", ended, err)
			}
			checkGone(t, id.PID, pids...)
			if ended, err := EndLeftover(t.Context(), id, row.grace); ended || err != nil {
				t.Errorf("once more: got %t, %v, want nothing to end", ended, err)
			}
		})
	}
}

// killLeader kills the first process alone.
func killLeader(t *testing.T, id *jobs.Identity) {
	t.Helper()
	must(t, syscall.Kill(id.PID, syscall.SIGKILL))
	checkEnds(t, id.PID)
}

func TestEndLeftoverHarmsNoOther(t *testing.T) {
	b := begin(t, Launcher{}, command("stay", "sleep"))
	pids := b.ready(2)
	for _, row := range []struct {
		name   string
		change func(*jobs.Identity)
	}{
		{"its number was reused", func(id *jobs.Identity) { id.Start-- }},
		{"before the last boot", func(id *jobs.Identity) { id.BootID = "another" }},
		{"one that leads no group", func(id *jobs.Identity) { *id, _ = Identify(pids[0]) }},
		{"nothing known at all", func(id *jobs.Identity) { *id = jobs.Identity{BootID: id.BootID} }},
	} {
		id := b.id
		row.change(&id)
		if ended, err := EndLeftover(t.Context(), id, time.Millisecond); ended || err != nil {
			t.Errorf("%s: got %t, %v, want nothing to end", row.name, ended, err)
		}
	}
	b.stop(jobs.ErrOperator)
	if exit := b.end(pids...); exit.Cause != jobs.ErrOperator {
		t.Errorf("got %+v, want it to have run until %v", exit, jobs.ErrOperator)
	}
}

func TestEndLeftoverStopsWaiting(t *testing.T) {
	id, pids := crash(t, "", 1, "stubborn")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(jobs.ErrShutdown)
	if ended, err := EndLeftover(ctx, id, time.Hour); ended || !errors.Is(err, jobs.ErrShutdown) {
		t.Errorf("got %t, %v, want %v", ended, err, jobs.ErrShutdown)
	}
	if ended, err := EndLeftover(t.Context(), id, time.Millisecond); !ended || err != nil {
		t.Errorf("got %t, %v, want it ended", ended, err)
	}
	checkGone(t, id.PID, pids...)
}
