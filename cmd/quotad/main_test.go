package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
)

// TestMain puts the programs on PATH, as users build them: what is tested are
// processes.
func TestMain(m *testing.M) {
	os.Exit(withPrograms(m.Run))
}

func withPrograms(run func() int) int {
	dir, err := os.MkdirTemp("", "quotad")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	args := []string{"build", "-o", dir, "quotad/cmd/..."}
	if underRace() {
		args = slices.Insert(args, 1, "-race")
	}
	build := exec.Command("go", args...)
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot build the programs:", err)
		return 1
	}
	os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return run()
}

// underRace tells whether the test itself was built with -race.
func underRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
