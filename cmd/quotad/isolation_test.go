package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// intruder makes the test binary a job that tries to reach into the process that
// launched it, and writes what it reached into the file named.
const intruder = "TEST_INTRUDER" // quotad keeps names with its own prefix to itself

func intrude(file string) error {
	own := exec.Command("sleep", "600")
	if err := own.Start(); err != nil {
		return err
	}
	defer own.Wait()
	defer own.Process.Kill()
	report := fmt.Sprintf("own: %s\ndaemon: %s\n", reached(own.Process.Pid), reached(os.Getppid()))
	if err := os.WriteFile(file+".new", []byte(report), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// reached names what of another process can be opened.
func reached(pid int) string {
	proc := filepath.Join("/proc", fmt.Sprint(pid))
	var all []string
	for _, way := range []struct {
		name string
		try  func() error
	}{
		{"mem", func() error { return open(filepath.Join(proc, "mem"), os.O_RDWR) }},
		{"environ", func() error { return open(filepath.Join(proc, "environ"), os.O_RDONLY) }},
		{"maps", func() error { return open(filepath.Join(proc, "maps"), os.O_RDONLY) }},
		{"fd", func() error { _, err := os.ReadDir(filepath.Join(proc, "fd")); return err }},
		{"memory", func() error { return readMemory(pid) }},
		{"descriptor", func() error { return takeDescriptor(pid) }},
	} {
		if way.try() == nil {
			all = append(all, way.name)
		}
	}
	return strings.Join(all, " ")
}

func open(path string, flag int) error {
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// readMemory reads where nothing is: whoever may not read hears of that first.
func readMemory(pid int) error {
	var text [1]byte
	_, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &text[0], Len: 1}}, []unix.RemoteIovec{{Base: 1, Len: 1}}, 0)
	if errors.Is(err, unix.EFAULT) {
		return nil
	}
	return err
}

func takeDescriptor(pid int) error {
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(handle)
	taken, err := unix.PidfdGetfd(handle, 0, 0)
	if err != nil {
		return err
	}
	return unix.Close(taken)
}

// TestJobReachesNothingOfTheDaemon: a job of the daemon's own user may open what
// belongs to its own children, and nothing of the daemon.
func TestJobReachesNothingOfTheDaemon(t *testing.T) {
	dir := shortDir(t)
	program, report := filepath.Join(dir, "job"), filepath.Join(dir, ".quotad/data/intrude/report")
	self, err := os.Executable()
	must(t, err)
	if output, err := exec.Command("cp", self, program).CombinedOutput(); err != nil { // to where other users may run it
		t.Fatalf("%v: %s", err, output)
	}
	text := fmt.Sprintf(`
[credentials.api]
limits.daily.units = 1
operations.list = 1
[jobs.intrude]
credential = "api"
regions = ["one"]
cron = "$FAR * * *"
run_at_start = true
env = { %s = "report" }
command = [%q]
`, intruder, program)
	if os.Getuid() == 0 { // whom nothing stops
		startAsIn(t, account(t, "www-data"), dir, text)
	} else {
		writeConfig(t, dir, text)
		startIn(t, dir)
	}
	got := awaitFile(t, report)
	if want := "own: mem environ maps fd memory descriptor\ndaemon:"; got != want {
		t.Errorf("the job reached\n%s\nwant\n%s", got, want)
	}
}
