package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"quotad/jobs/process"
	"quotad/jobs/process/processtest"
)

// TestMain puts the programs on PATH: what is tested are processes. Quotad is this program itself, which saves a link.
func TestMain(m *testing.M) {
	process.Enter()
	if filepath.Base(os.Args[0]) == "quotad" {
		main()
	}
	// The tests may run in a service; the daemons in them are none.
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "STATE_DIRECTORY", "JOURNAL_STREAM"} {
		os.Unsetenv(name)
	}
	flag.Parse()
	if flag.Lookup("test.fuzz").Value.String() != "" {
		os.Exit(m.Run()) // it starts no programs, and each of its workers would build them
	}
	// Mostly they wait for each other's processes, which takes no CPU.
	flag.Set("test.parallel", strconv.Itoa(8*runtime.GOMAXPROCS(0)))
	os.Exit(processtest.Tests(func() int { return withPrograms(m.Run) }).Run())
}

func withPrograms(run func() int) int {
	dir, err := os.MkdirTemp("", "quotad")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	err = errors.Join(os.Chmod(dir, 0o755), copyProgram(filepath.Join(dir, "quotad"))) // other users run them too
	for _, name := range []string{"quotactl", "ytfetch", "ytsearch"} {
		// Unlike go build, go run keeps what it has linked: while the code is the same, a copy is all that it takes.
		command := exec.Command("go", "run", "-exec", "cp", "quotad/cmd/"+name, filepath.Join(dir, name))
		command.Stdout, command.Stderr = os.Stderr, os.Stderr
		err = errors.Join(err, command.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot build the programs:", err)
		return 1
	}
	// A shim of pyenv would take longer than most scripts.
	if python, err := exec.Command("python3", "-c", "import sys; print(sys.executable, end='')").Output(); err == nil {
		_ = os.Symlink(string(python), filepath.Join(dir, "python3"))
	}
	os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return run()
}

// copyProgram copies this program: by the name of quotad it is quotad, with the race detector if the tests have it.
func copyProgram(path string) error {
	program, err := os.ReadFile("/proc/self/exe")
	return errors.Join(err, os.WriteFile(path, program, 0o755))
}
