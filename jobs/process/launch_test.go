package process

import (
	"context"
	"fmt"
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
	lines chan jobs.Line
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
	b := &launch{t: t, lines: make(chan jobs.Line, 10_000), stop: stop, force: force, exit: make(chan jobs.Exit, 1)}
	started := make(chan jobs.Identity, 1)
	c.Started = func(id jobs.Identity) { started <- id }
	go func() { b.exit <- l.Launch(ask, forced, c, func(line jobs.Line) { b.lines <- line }) }()
	select {
	case b.id = <-started:
	case exit := <-b.exit:
		t.Fatalf("not started: %+v", exit)
	}
	return b
}

// await returns what follows a prefix in the next line that has it.
func (b *launch) await(prefix string) string {
	b.t.Helper()
	for {
		select {
		case line := <-b.lines:
			if rest, ok := strings.CutPrefix(line.Text, prefix); ok {
				return strings.TrimSpace(rest)
			}
		case <-time.After(patience):
			b.t.Fatalf("no line %q", prefix)
		}
	}
}

// ready returns the numbers of the next n processes that say they are ready.
func (b *launch) ready(n int) []int {
	b.t.Helper()
	var pids []int
	for range n {
		pids = append(pids, number(b.await("ready")))
	}
	return pids
}

// end waits for the command's end, and checks that nothing is left of its group
// or of the processes given.
func (b *launch) end(pids ...int) jobs.Exit {
	b.t.Helper()
	select {
	case exit := <-b.exit:
		checkGone(b.t, b.id.PID, pids...)
		return exit
	case <-time.After(patience):
		b.t.Fatal("the launch does not end")
		return jobs.Exit{}
	}
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

func TestExit(t *testing.T) {
	for _, row := range []struct {
		name string
		args []string
		want jobs.Exit
	}{
		{"success", []string{"exit", "0"}, jobs.Exit{}},
		{"failure", []string{"exit", "3"}, jobs.Exit{Code: 3}},
		{"exhausted", []string{"exit", "75"}, jobs.Exit{Code: 75}},
		{"killed by itself", []string{"kill", "9"}, jobs.Exit{Code: -1, Signal: "SIGKILL"}},
		{"crashed", []string{"kill", "11"}, jobs.Exit{Code: -1, Signal: "SIGSEGV"}},
		{"terminated by itself", []string{"kill", "15"}, jobs.Exit{Code: -1, Signal: "SIGTERM"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := begin(t, Launcher{}, command(row.args...)).end()
			if got.Took <= 0 || got.Took >= drainTimeout {
				t.Errorf("took %v", got.Took)
			}
			got.Took = 0
			if got != row.want {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
}

// A command reads what it is given from its beginning to its end.
func TestACommandReadsItsInput(t *testing.T) {
	c := command()
	c.Args, c.Stdin = []string{"/bin/cat"}, []byte("first\nlast\n")
	b := begin(t, Launcher{}, c)
	if exit := b.end(); exit.Code != 0 {
		t.Errorf("got %+v, want success", exit)
	}
	close(b.lines)
	var got []string
	for line := range b.lines {
		got = append(got, line.Text)
	}
	if want := []string{"first", "last"}; !slices.Equal(got, want) {
		t.Errorf("it read %q, want %q", got, want)
	}
}

func TestTimeout(t *testing.T) {
	c := command("sleep")
	c.Timeout = 50 * time.Millisecond
	exit := begin(t, Launcher{}, c).end()
	if exit.Cause != jobs.ErrTimeout || exit.Signal != "SIGTERM" || exit.Code != -1 {
		t.Errorf("got %+v, want SIGTERM for %v", exit, jobs.ErrTimeout)
	}
}

func TestCancelRecordsCauseWhateverTheExit(t *testing.T) {
	for _, row := range []struct {
		name string
		args []string
		want jobs.Exit
	}{
		{"dies of it", []string{"sleep"}, jobs.Exit{Code: -1, Signal: "SIGTERM"}},
		{"exits with success", []string{"trap", "0"}, jobs.Exit{Code: 0}},
		{"exits as if exhausted", []string{"trap", "75"}, jobs.Exit{Code: 75}},
		{"was stopped", []string{"stop"}, jobs.Exit{Code: -1, Signal: "SIGTERM"}},
		{"has closed its output", []string{"mute"}, jobs.Exit{Code: -1, Signal: "SIGTERM"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := begin(t, Launcher{}, command(row.args...))
			b.ready(1)
			b.stop(jobs.ErrOperator)
			got := b.end()
			row.want.Cause, got.Took = jobs.ErrOperator, 0
			if got != row.want {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
}

func TestIgnoredTermEndsInKillAfterGrace(t *testing.T) {
	t.Parallel()
	c := command("stay", "stubborn")
	c.KillGrace = 3 * time.Second // in which the leader obeys, however busy the machine is
	b := begin(t, Launcher{}, c)
	pids := b.ready(2)
	asked := time.Now()
	b.stop(jobs.ErrShutdown)
	exit := b.end(pids...)
	// The leader has obeyed at once, its child must be given its grace.
	if exit.Cause != jobs.ErrShutdown || exit.Signal != "SIGTERM" {
		t.Errorf("got %+v, want SIGTERM for %v", exit, jobs.ErrShutdown)
	}
	if took := time.Since(asked); took < c.KillGrace {
		t.Errorf("killed after %v, want a grace of %v", took, c.KillGrace)
	}
	c.KillGrace = 50 * time.Millisecond
	b = begin(t, Launcher{}, func() jobs.Command { c.Args = command("stubborn").Args; return c }())
	b.ready(1)
	b.stop(jobs.ErrShutdown)
	if exit := b.end(); exit.Cause != jobs.ErrShutdown || exit.Signal != "SIGKILL" {
		t.Errorf("got %+v, want SIGKILL for %v", exit, jobs.ErrShutdown)
	}
}

func TestForceLeavesNoGrace(t *testing.T) {
	test := func(t *testing.T, l Launcher, args ...string) {
		c := command(args...)
		c.KillGrace = time.Hour
		b := begin(t, l, c)
		pids := b.ready(len(args))
		b.stop(jobs.ErrShutdown)
		b.force()
		if exit := b.end(pids...); exit.Cause != jobs.ErrShutdown || exit.Left != 0 {
			t.Errorf("got %+v, want %v and none left", exit, jobs.ErrShutdown)
		}
	}
	t.Run("group", func(t *testing.T) { test(t, Launcher{}, "stay", "stubborn") })
	t.Run("cgroup", func(t *testing.T) {
		test(t, Launcher{Cgroups: cgroupRoot(t)}, "stay", "vanish", "stubborn")
	})
}

// A command that has ended by itself has not been ended by us, though we are
// asked to while we still clear up behind it.
func TestCancelAfterTheEndIsNoCause(t *testing.T) {
	c := command("leave", "warn")
	c.KillGrace = 200 * time.Millisecond
	b := begin(t, Launcher{}, c)
	pids := b.ready(2)
	b.await("asked")
	b.stop(jobs.ErrShutdown)
	exit := b.end(pids...)
	if exit.Cause != nil || exit.Code != 0 || exit.Signal != "" || exit.Swept != 1 {
		t.Errorf("got %+v, want success and one process swept", exit)
	}
}

// The same, when nobody has noticed its end yet.
func TestCancelWhileTheEndIsUnnoticed(t *testing.T) {
	out, err := openOutput()
	must(t, err)
	defer out.close()
	c, err := Launcher{}.start(command("exit", "0"), out)
	must(t, err)
	<-c.over
	ask, cancel := context.WithCancelCause(t.Context())
	cancel(jobs.ErrTimeout)
	if exit := c.wait(ask, ask); exit.Cause != nil || exit.Code != 0 {
		t.Errorf("got %+v, want success", exit)
	}
}

func TestCancelledBeforeTheStart(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	stop(jobs.ErrShutdown)
	c := command("exit", "0")
	c.Started = func(jobs.Identity) { t.Error("started") }
	if exit := (Launcher{}).Launch(ctx, ctx, c, nil); exit.Cause != jobs.ErrShutdown || exit.Err != nil || exit.Code != -1 {
		t.Errorf("got %+v, want %v", exit, jobs.ErrShutdown)
	}
}

func TestNotStarted(t *testing.T) {
	t.Run("group", func(t *testing.T) { testNotStarted(t, Launcher{}) })
	t.Run("cgroup", func(t *testing.T) { testNotStarted(t, Launcher{Cgroups: cgroupRoot(t)}) })
}

func testNotStarted(t *testing.T, l Launcher) {
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(content), mode))
		return path
	}
	for _, row := range []struct {
		name   string
		change func(*jobs.Command)
		want   string
	}{
		{"not there", func(c *jobs.Command) { c.Args = []string{dir + "/nothing"} }, "no such file or directory"},
		{"a directory", func(c *jobs.Command) { c.Args = []string{dir} }, "permission denied"},
		{"not executable", func(c *jobs.Command) { c.Args = []string{file("data", "x", 0o644)} }, "/data is not for user "},
		{"no interpreter line", func(c *jobs.Command) { c.Args = []string{file("bare", "echo x\n", 0o755)} }, "begins with a line such as #!/bin/sh"},
		{"no interpreter", func(c *jobs.Command) { c.Args = []string{file("lost", "#!/no/such/shell\n", 0o755)} }, `its first line names the interpreter "/no/such/shell", which does not exist: install it`},
		{"no directory", func(c *jobs.Command) { c.Dir = dir + "/nowhere" }, "its working directory"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := command("exit", "0")
			c.Started = func(jobs.Identity) { t.Error("started") }
			row.change(&c)
			exit := l.Launch(t.Context(), t.Context(), c, nil)
			if exit.Err == nil || !strings.Contains(exit.Err.Error(), row.want) {
				t.Errorf("got %v, want an error with %q", exit.Err, row.want)
			}
			if exit.Code != -1 || exit.Cause != nil {
				t.Errorf("got %+v, want code -1 and no cause", exit)
			}
		})
	}
}

func TestWhatACommandIsGiven(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/run/must/not/be/passed/on")
	c := command("describe")
	c.Dir = t.TempDir()
	test := func(t *testing.T, l Launcher) {
		var lines []string
		if exit := l.Launch(t.Context(), t.Context(), c, func(line jobs.Line) { lines = append(lines, line.Text) }); exit.Code != 0 {
			t.Fatalf("got %+v", exit)
		}
		for _, want := range []string{"leads true", "stdin /dev/null", "dir " + c.Dir, "env " + strings.Join(c.Env, " ")} {
			if !slices.Contains(lines, want) {
				t.Errorf("%q is not in %q", want, lines)
			}
		}
	}
	t.Run("group", func(t *testing.T) { test(t, Launcher{}) })
	t.Run("cgroup", func(t *testing.T) { test(t, Launcher{Cgroups: cgroupRoot(t)}) })
}

func TestNoDescriptorIsInherited(t *testing.T) {
	list, err := Resolve("ls", t.TempDir(), "")
	must(t, err)
	running := begin(t, Launcher{}, command("sleep")) // its pipes are open
	running.ready(1)
	for _, l := range []Launcher{{}, {Cgroups: cgroupRoot(t)}} {
		var got []string
		c := jobs.Command{Args: []string{list, "/proc/self/fd"}, Timeout: time.Minute, KillGrace: time.Second}
		l.Launch(t.Context(), t.Context(), c, func(line jobs.Line) { got = append(got, line.Text) })
		// Its own three, the one it lists them with, and what this process inherited itself,
		// of which Go may replace one while it starts the program.
		if most := 3 + 1 + len(givenDescriptors(t)); len(got) > most {
			t.Errorf("got %q, want at most %d", got, most)
		}
	}
	running.stop(nil)
	running.end()
}

// Nor is one that a careless parent left open in the daemon.
func TestKeepDescriptors(t *testing.T) {
	given, err := syscall.Dup(syscall.Stderr)
	must(t, err)
	defer syscall.Close(given)
	must(t, KeepDescriptors())
	if flags, err := unix.FcntlInt(uintptr(given), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("the flags of descriptor %d are %#x, %v: a command would inherit it", given, flags, err)
	}
}

// givenDescriptors returns the descriptors of this process, beyond the first
// three, that are not closed when it executes a program: Go opens none of them.
func givenDescriptors(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fdinfo")
	must(t, err)
	var given []string
	for _, entry := range entries {
		info, err := os.ReadFile("/proc/self/fdinfo/" + entry.Name())
		if err != nil {
			continue // it was the one that read the directory
		}
		var position, flags int
		if _, err := fmt.Sscanf(string(info), "pos:\t%d\nflags:\t%o\n", &position, &flags); err != nil {
			t.Fatal(err)
		}
		if flags&syscall.O_CLOEXEC == 0 && number(entry.Name()) > 2 {
			given = append(given, entry.Name())
		}
	}
	return given
}

func TestNoEnvironmentIsNotOurs(t *testing.T) {
	env, err := Resolve("env", t.TempDir(), "")
	must(t, err)
	c := jobs.Command{Args: []string{env}, Timeout: time.Minute, KillGrace: time.Second}
	Launcher{}.Launch(t.Context(), t.Context(), c, func(line jobs.Line) { t.Errorf("got %q", line.Text) })
}
