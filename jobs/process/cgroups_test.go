package process

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"quotad/jobs"
)

// refuge is a child that leaves its cgroup for another one, which it makes beside or below
// the one that commands have theirs in, and lives on there after its parent.
func refuge(args []string) {
	if err := os.Mkdir(args[0], 0o755); err != nil && !os.IsExist(err) {
		panic(err)
	}
	if err := os.WriteFile(filepath.Join(args[0], "cgroup.procs"), []byte("0"), 0); err != nil {
		panic(err)
	}
	spawn([]string{"sleep"}, &syscall.SysProcAttr{Setsid: true}, bareEnv())
	ready()
}

// A command that may write to cgroups, as one of our own user may, does not outlive its
// end in another one.
func TestNothingFindsRefugeInAnotherCgroup(t *testing.T) {
	root := cgroupRoot(t)
	var swept []string
	cgroups := NewCgroups(root, func(dir string, processes int) {
		swept = append(swept, strings.TrimPrefix(dir, root))
	})
	other := begin(t, Launcher{Cgroups: cgroups}, command("stay", "sleep"))
	others := other.ready(2)
	for _, below := range []string{"/beside", "/beside/below"} {
		b := begin(t, Launcher{Cgroups: cgroups}, command("refuge", root+below))
		if exit := b.end(b.ready(2)...); exit.Code != 0 || exit.Left != 0 {
			t.Errorf("%s: got %+v, want success and none left", below, exit)
		}
		if _, err := os.Stat(root + "/beside"); err == nil {
			t.Errorf("%s is left", below)
		}
		swept = swept[:0]
		if err := os.Mkdir(root+"/beside", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	other.stop(jobs.ErrShutdown)
	if exit := other.end(others...); exit.Cause != jobs.ErrShutdown || exit.Signal != "SIGTERM" {
		t.Errorf("another command: got %+v, want that it ran on", exit)
	}
	if strings.Join(swept, " ") != "/beside" {
		t.Errorf("it says that %q was ended, want /beside", swept)
	}
}

// adoptOutside is adopt of a command whose cgroup is below root.
func adoptOutside(args []string) {
	launchAdopting(Launcher{Cgroups: NewCgroups(args[0], nil)}, args[1:])
}

// A process that moves itself to the cgroup of the daemon is an orphan of its command.
func TestNothingFindsRefugeInTheDaemonsCgroup(t *testing.T) {
	root := cgroupRoot(t)
	b := begin(t, Launcher{}, command("adoptOutside", root, "refuge", root))
	pids := b.ready(2)
	b.await("exit 0 <nil> <nil>")
	b.end(pids...)
}
