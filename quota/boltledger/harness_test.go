package boltledger

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// pageSize is bbolt's on every machine with pages of 4 KiB.
const pageSize = 4096

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// smallDisk is a file system of that size.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("cannot unmount: %v", err)
		}
	})
	return dir
}

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	must(t, err)
	defer file.Close()
	for {
		if _, err := file.WriteString(strings.Repeat("x", 4096)); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// killed plays a test in a process of its own, which finds value in a variable, and kills it when it
// has written a number of lines, wherever it is by then. It calls each with every line.
func killed(t *testing.T, test, variable, value string, lines int, each func(line string)) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^"+test+"$")
	child.Env = append(os.Environ(), variable+"="+value)
	output, err := child.StdoutPipe()
	must(t, err)
	child.Stderr = os.Stderr
	must(t, child.Start())
	n := 0
	for scanner := bufio.NewScanner(output); scanner.Scan(); {
		each(scanner.Text())
		if n++; n == lines {
			must(t, child.Process.Kill())
		}
	}
	if err := child.Wait(); err == nil || n < lines {
		t.Fatalf("the child ended by itself after %d lines: %v", n, err)
	}
}
