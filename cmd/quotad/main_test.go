package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"

	"quotad/jobs/process/processtest"
)

// TestMain puts the programs on PATH, as users build them: what is tested are
// processes.
func TestMain(m *testing.M) {
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
	// Other users run them too.
	if err := errors.Join(os.Chmod(dir, 0o755), build(dir, "quotad/cmd/..."), buildForRace(dir, "quotad/cmd/quotad")); err != nil {
		fmt.Fprintln(os.Stderr, "cannot build the programs:", err)
		return 1
	}
	os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return run()
}

// buildForRace replaces a program by one with the race detector, if the test
// itself has it. The others go without: they would take a second longer to end.
func buildForRace(dir, program string) error {
	if !hasRaceDetector() {
		return nil
	}
	return build(dir, "-race", program)
}

func hasRaceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func build(dir string, args ...string) error {
	command := exec.Command("go", slices.Concat([]string{"build", "-ldflags=-w", "-o", dir}, args)...)
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	return command.Run()
}
