package systemd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"quotad/cmd/quotad/config/configtest"
)

// clone returns a directory with what a clone of the repository holds after go
// build, as far as the README's commands ask for it.
func clone(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "bin")+"/", "./cmd/...")
	build.Dir = ".."
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, output)
	}
	host(t, "cp", "-r", "../systemd", dir)
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), configtest.Shipped(t, ".."), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// fromREADME returns the only block of commands in this directory's README that holds a text.
func fromREADME(t *testing.T, text string) (script string) {
	t.Helper()
	return "set -e; cd /src; " + blockOf(t, "README.md", text)
}

// blockOf returns the only block of a page that holds a text.
func blockOf(t *testing.T, page, text string) string {
	t.Helper()
	var found []string
	// Every other part between the fences is a block, with its language ahead.
	for i, part := range strings.Split(read(t, page), "```") {
		if _, block, ok := strings.Cut(part, "\n"); ok && i%2 == 1 && strings.Contains(block, text) {
			found = append(found, block)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d blocks of %s hold %q", len(found), page, text)
	}
	return found[0]
}
