package process

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quotad/jobs"
)

// A launch is a command that a test has launched.
type launch struct {
	t     testing.TB
	id    jobs.Identity
	lines chan string
	stop  context.CancelCauseFunc
	force context.CancelFunc
	exit  chan jobs.Exit
}

// begin launches a command and returns when it has been started.
func begin(t testing.TB, l Launcher, c jobs.Command) *launch {
	t.Helper()
	ask, stop := context.WithCancelCause(t.Context())
	forced, force := context.WithCancel(context.Background())
	t.Cleanup(force)
	b := &launch{t: t, lines: make(chan string, 1000), stop: stop, force: force, exit: make(chan jobs.Exit, 1)}
	started := make(chan jobs.Identity, 1)
	c.Started = func(id jobs.Identity) { started <- id }
	go func() { b.exit <- l.Launch(ask, forced, c, func(line jobs.Line) { b.lines <- line.Text }) }()
	select {
	case b.id = <-started:
	case exit := <-b.exit:
		t.Fatalf("not started: %+v", exit)
	}
	return b
}

// ready returns the numbers of the next n processes that say they are ready.
func (b *launch) ready(n int) (pids []int) {
	b.t.Helper()
	for len(pids) < n {
		select {
		case line := <-b.lines:
			if pid, ok := strings.CutPrefix(line, "ready "); ok {
				pids = append(pids, number(pid))
			}
		case <-time.After(patience):
			b.t.Fatalf("%d processes are ready, want %d", len(pids), n)
		}
	}
	return pids
}

// end waits for the command's end, and checks that nothing is left of its group or of the processes given.
func (b *launch) end(pids ...int) jobs.Exit {
	b.t.Helper()
	select {
	case exit := <-b.exit:
		checkGone(b.t, b.id.PID, pids...)
		exit.Took = 0
		return exit
	case <-time.After(patience):
		b.t.Fatal("the launch does not end")
		return jobs.Exit{}
	}
}

// run launches a command and returns its lines in their order.
func run(t testing.TB, l Launcher, c jobs.Command) (lines []jobs.Line, exit jobs.Exit) {
	exit = l.Launch(t.Context(), t.Context(), c, func(line jobs.Line) { lines = append(lines, line) })
	return lines, exit
}

// checkGone checks that nothing is left of a group, and that some processes are
// gone, too. What is left is killed, or a test that has failed would wait for it.
func checkGone(t testing.TB, group int, pids ...int) {
	t.Helper()
	if n := (family{group: group}).size(); n > 0 {
		t.Errorf("%d processes are left of group %d", n, group)
		_ = syscall.Kill(-group, syscall.SIGKILL)
	}
	for _, pid := range pids {
		checkEnds(t, pid)
	}
}

// checkEnds checks that a process is gone, or does not take longer for that than
// the kernel does to take its threads apart.
func checkEnds(t testing.TB, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	ends := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for err = unix.EINTR; err == unix.EINTR; {
		_, err = unix.Poll(ends, int(patience.Milliseconds()))
	}
	if p, left := readProcess(pid); ends[0].Revents == 0 && left == nil && !p.zombie {
		t.Errorf("left of the command: %+v, %v", p, err)
	}
}

// inBoth runs a test without a cgroup, and with one.
func inBoth(t *testing.T, test func(t *testing.T, l Launcher)) {
	t.Run("group", func(t *testing.T) { test(t, Launcher{}) })
	t.Run("cgroup", func(t *testing.T) { test(t, Launcher{Cgroups: cgroupRoot(t)}) })
}

// What a command leaves running ends with it: its process group, or its cgroup, which nothing escapes. One that is ended
// gets TERM, and KILL after its grace, and that is its cause, however it ends then. Another pass lives on.
func TestHowACommandEnds(t *testing.T) {
	termed, killed := jobs.Exit{Code: -1, Signal: "SIGTERM"}, jobs.Exit{Code: -1, Signal: "SIGKILL"}
	const short = 50 * time.Millisecond
	for _, row := range []struct {
		name    string
		command jobs.Command
		pids    int
		want    jobs.Exit
		stops   bool          // it is ended
		cgroup  bool          // of its own
		grace   time.Duration // 0: a minute
	}{
		{name: "success", command: shell("exit 0")},
		{name: "success in a cgroup", command: shell("exit 0"), cgroup: true},
		{name: "a code", command: shell("exit 75"), want: jobs.Exit{Code: 75}},
		{name: "a signal", command: shell("kill -11 $$"), want: jobs.Exit{Code: -1, Signal: "SIGSEGV"}},
		{name: "a signal without a name", command: shell("kill -34 $$"), want: jobs.Exit{Code: -1, Signal: "SIG34"}},
		{name: "it leaves a child that holds its output", command: command("leave", "sleep"), pids: 2},
		{name: "it leaves a child that ignores TERM", command: command("leave", "stubborn"), pids: 2, grace: short},
		{name: "it leaves a stopped child", command: command("leave", "stop"), pids: 2},
		{name: "it leaves who left no trace", command: command("vanish", "leave", "sleep"), pids: 3, cgroup: true},
		{name: "it leaves who left no trace and ignores TERM", command: command("vanish", "leave", "stubborn"), pids: 3,
			cgroup: true, grace: short},
		{name: "it dies of TERM", command: command("sleep"), pids: 1, want: termed, stops: true},
		{name: "it exits with success", command: command("trap", "0"), pids: 1, stops: true},
		{name: "it exits as if exhausted", command: command("trap", "75"), pids: 1, want: jobs.Exit{Code: 75}, stops: true},
		{name: "it was stopped", command: command("stop"), pids: 1, want: termed, stops: true},
		{name: "it ignores TERM", command: command("stubborn"), pids: 1, want: killed, stops: true, grace: short},
		{name: "generations", command: command("stay", "stay", "stay", "sleep"), pids: 4, want: termed, stops: true},
		{name: "generations, of which one left no trace", command: command("stay", "vanish", "stay", "sleep"), pids: 4,
			want: termed, stops: true, cgroup: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := Launcher{}
			if row.cgroup {
				l.Cgroups = cgroupRoot(t)
				must(t, CheckCgroups(l.Cgroups))
			}
			other := begin(t, l, command("sleep"))
			spared := other.ready(1)
			row.command.KillGrace = cmp.Or(row.grace, time.Minute)
			b := begin(t, l, row.command)
			pids := b.ready(row.pids)
			if row.stops {
				b.stop(jobs.ErrOperator)
				row.want.Cause = jobs.ErrOperator
			}
			got := b.end(pids...)
			if (got.Swept > 0) != (row.pids > 0 && !row.stops) {
				t.Errorf("%d processes were swept", got.Swept)
			}
			if got.Swept = 0; got != row.want {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
			if _, err := os.Stat(b.id.Cgroup); row.cgroup && (b.id.Cgroup == "" || err == nil) {
				t.Errorf("its cgroup is %q, and left: %v", b.id.Cgroup, err == nil)
			}
			other.stop(jobs.ErrShutdown)
			if exit := other.end(spared...); exit.Cause != jobs.ErrShutdown || exit.Signal != "SIGTERM" {
				t.Errorf("another pass: got %+v, want it to have run until %v", exit, jobs.ErrShutdown)
			}
		})
	}
}

// A child that ignores TERM is given its grace, though the leader has obeyed at once; force leaves none.
func TestGrace(t *testing.T) {
	t.Parallel()
	c := command("stay", "stubborn")
	c.KillGrace = time.Second // in which the leader obeys, however busy the machine is
	b := begin(t, Launcher{}, c)
	pids, asked := b.ready(2), time.Now()
	b.stop(jobs.ErrShutdown)
	if exit := b.end(pids...); exit.Cause != jobs.ErrShutdown || exit.Signal != "SIGTERM" || time.Since(asked) < c.KillGrace {
		t.Errorf("got %+v after %v, want SIGTERM for %v after %v", exit, time.Since(asked), jobs.ErrShutdown, c.KillGrace)
	}
	inBoth(t, func(t *testing.T, l Launcher) {
		c.KillGrace = time.Hour
		b := begin(t, l, c)
		pids := b.ready(2)
		b.stop(jobs.ErrShutdown)
		b.force()
		if exit := b.end(pids...); exit.Cause != jobs.ErrShutdown || exit.Left != 0 {
			t.Errorf("got %+v, want %v and none left", exit, jobs.ErrShutdown)
		}
	})
}

// A command that has ended by itself has not been ended by us, though we are asked to before anybody has noticed.
func TestCancelWhileTheEndIsUnnoticed(t *testing.T) {
	out, err := openOutput()
	must(t, err)
	defer out.close()
	c, err := Launcher{}.start(shell("exit 0"), out)
	must(t, err)
	<-c.over
	ask, cancel := context.WithCancelCause(t.Context())
	cancel(jobs.ErrTimeout)
	if exit := c.wait(ask, ask); exit.Cause != nil || exit.Code != 0 {
		t.Errorf("got %+v, want success", exit)
	}
}

func TestNotStarted(t *testing.T) { inBoth(t, testNotStarted) }

func testNotStarted(t *testing.T, l Launcher) {
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(content), mode))
		return path
	}
	for _, row := range []struct{ program, dir, want string }{
		{dir + "/nothing", "", "no such file or directory"},
		{dir, "", "may not execute it"},
		{file("data", "x", 0o644), "", "/data shows what is closed: chmod 755 it"},
		{file("bare", "echo x\n", 0o755), "", "begins with a line such as #!/bin/sh"},
		{file("lost", "#!/no/such/shell\n", 0o755), "", "the interpreter that its first line names does not exist: install it"},
		{"/bin/true", dir + "/nowhere", "its working directory"},
	} {
		c := command()
		c.Args, c.Dir, c.Started = []string{row.program}, row.dir, func(jobs.Identity) { t.Error("started") }
		_, exit := run(t, l, c)
		if exit.Err == nil || !strings.Contains(exit.Err.Error(), row.want) || exit.Code != -1 || exit.Cause != nil {
			t.Errorf("%s: got %+v, want an error with %q", row.program, exit, row.want)
		}
	}
	ctx, stop := context.WithCancelCause(t.Context())
	stop(jobs.ErrShutdown)
	if exit := l.Launch(ctx, ctx, shell("exit 0"), nil); exit.Cause != jobs.ErrShutdown || exit.Err != nil || exit.Code != -1 {
		t.Errorf("cancelled before: got %+v, want %v", exit, jobs.ErrShutdown)
	}
}

// A command has its own environment and directory, leads a session, and reads what it is given or nothing.
func TestWhatACommandIsGiven(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/run/must/not/be/passed/on")
	c := command("describe")
	c.Dir = t.TempDir()
	inBoth(t, func(t *testing.T, l Launcher) {
		lines, exit := run(t, l, c)
		for _, want := range []string{"leads true", "stdin /dev/null", "dir " + c.Dir, "env " + strings.Join(c.Env, " ")} {
			if !slices.ContainsFunc(lines, func(line jobs.Line) bool { return line.Text == want }) || exit.Code != 0 {
				t.Errorf("%q is not in %v", want, lines)
			}
		}
		bare := command()
		bare.Args, bare.Env = []string{"/usr/bin/env"}, nil
		if lines, _ := run(t, Launcher{}, bare); len(lines) != 0 {
			t.Errorf("without an environment it has %v", lines)
		}
		reads := command()
		reads.Args, reads.Stdin = []string{"/bin/cat"}, []byte("first\nlast\n")
		if lines, _ := run(t, l, reads); len(lines) != 2 || lines[0].Text != "first" || lines[1].Text != "last" {
			t.Errorf("it reads %v", lines)
		}
	})
}

// No command inherits what a careless parent left open in the daemon.
func TestKeepDescriptors(t *testing.T) {
	given, err := syscall.Dup(syscall.Stderr)
	must(t, err)
	defer syscall.Close(given)
	must(t, KeepDescriptors())
	if flags, err := unix.FcntlInt(uintptr(given), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("the flags of descriptor %d are %#x, %v: a command would inherit it", given, flags, err)
	}
}
