package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"quotad/jobs"
)

func TestIdentity(t *testing.T) {
	c := mark(command("sleep"), t.Name(), "US")
	b := begin(t, Launcher{}, c)
	want, err := Identify(b.id.PID)
	if err != nil {
		t.Fatal(err)
	}
	got := b.id
	if got.BootID != want.BootID || got.PID != want.PID || got.Start != want.Start || got.Start == 0 {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if !slices.Equal(got.Marks, c.Env[len(c.Env)-2:]) {
		t.Errorf("got marks %q", got.Marks)
	}
	b.ready(1)
	b.stop(jobs.ErrOperator)
	b.end()
	if got, err := Identify(b.id.PID); err == nil {
		t.Errorf("got %+v of a process that is gone", got)
	}
}

func TestMarksAreOfOnePassOnly(t *testing.T) {
	for _, row := range []struct{ env, want []string }{
		{nil, nil},
		{[]string{"QUOTAD_REGION=US", "PATH=/bin"}, nil},
		{[]string{"QUOTAD_RUN_ID=1"}, nil},
		{[]string{"QUOTAD_REGION=US", "QUOTAD_TOKEN=secret", "QUOTAD_RUN_ID=1"}, []string{"QUOTAD_REGION=US", "QUOTAD_RUN_ID=1"}},
	} {
		if got := marks(row.env); !slices.Equal(got, row.want) {
			t.Errorf("of %q: got %q, want %q", row.env, got, row.want)
		}
	}
}

// crash runs a daemon that launches a command and is killed with -9 when so many
// processes are ready. It returns the command's identity and their numbers.
func crash(t *testing.T, n int, args ...string) (jobs.Identity, []int) {
	t.Helper()
	c := mark(command(append([]string{"daemon"}, args...)...), t.Name(), "US")
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env = c.Env
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	boot, err := bootID()
	if err != nil {
		t.Fatal(err)
	}
	id := jobs.Identity{BootID: boot, Marks: marks(c.Env)}
	var pids []int
	for lines := bufio.NewScanner(stdout); len(pids) < n && lines.Scan(); {
		if pid, ok := strings.CutPrefix(lines.Text(), "ready "); ok {
			pids = append(pids, number(pid))
		}
		_, _ = fmt.Sscanf(lines.Text(), "started %d %d", &id.PID, &id.Start)
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
		args   []string
		n      int
		grace  time.Duration
		change func(*testing.T, *jobs.Identity)
	}{
		{"a process", []string{"sleep"}, 1, time.Minute, nil},
		{"one without marks", []string{"stay", "sleep"}, 2, time.Minute, func(_ *testing.T, id *jobs.Identity) { id.Marks = nil }},
		{"what ignores TERM", []string{"stay", "stubborn"}, 2, 50 * time.Millisecond, nil},
		{"a daemon of it", []string{"stay", "detach", "sleep"}, 3, time.Minute, nil},
		{"what outlived its leader", []string{"stay", "stay", "sleep"}, 3, time.Minute, killLeader},
		{"what outlived its leader and was started with another environment", []string{"stay", "stay", "shed", "sleep"}, 4, time.Minute, killLeader},
		{"what was never recorded", []string{"stay", "sleep"}, 2, time.Minute, func(_ *testing.T, id *jobs.Identity) { id.PID, id.Start = 0, 0 }},
	} {
		t.Run(row.name, func(t *testing.T) {
			id, pids := crash(t, row.n, row.args...)
			group := id.PID
			if row.change != nil {
				row.change(t, &id)
			}
			ended, err := EndLeftover(t.Context(), id, row.grace)
			if !ended || err != nil {
				t.Errorf("got %t, %v, want it ended", ended, err)
			}
			checkGone(t, group, pids...)
			if ended, err := EndLeftover(t.Context(), id, row.grace); ended || err != nil {
				t.Errorf("once more: got %t, %v, want nothing to end", ended, err)
			}
		})
	}
}

// killLeader kills the first process alone.
func killLeader(t *testing.T, id *jobs.Identity) {
	t.Helper()
	if err := syscall.Kill(id.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	checkEnds(t, id.PID)
}

func TestEndLeftoverHarmsNoOther(t *testing.T) {
	b := begin(t, Launcher{}, mark(command("stay", "sleep"), t.Name(), "US"))
	pids := b.ready(2)
	for _, row := range []struct {
		name   string
		change func(*jobs.Identity)
	}{
		{"its number was reused", func(id *jobs.Identity) { id.Start--; id.Marks = []string{"QUOTAD_RUN_ID=0", "QUOTAD_REGION=US"} }},
		{"its number was reused, no marks", func(id *jobs.Identity) { id.Start--; id.Marks = nil }},
		{"before the last boot", func(id *jobs.Identity) { id.BootID = "another" }},
		{"the same region of another run", func(id *jobs.Identity) { id.PID = 0; id.Marks = []string{"QUOTAD_RUN_ID=0", "QUOTAD_REGION=US"} }},
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

// The numbers of processes outside of our namespace are shown as 0: that is no
// tree.
func TestNoNumberIsNoSession(t *testing.T) {
	f := &tree{}
	if f.inSession(process{pid: 80}) {
		t.Error("a process without a session is in the session of nobody")
	}
}

func TestEndLeftoverStopsWaiting(t *testing.T) {
	id, pids := crash(t, 1, "stubborn")
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
