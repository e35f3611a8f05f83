package server_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

func TestListenMode(t *testing.T) {
	// With any umask: a daemon under systemd has 0027, which alone would lock the group out.
	for _, mask := range []int{0o000, 0o027, 0o077} {
		old := syscall.Umask(mask)
		path := filepath.Join(servertest.ShortDir(t), "s")
		l, err := server.Listen(path)
		syscall.Umask(old)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != fs.ModeSocket|0o660 {
			t.Errorf("umask %03o: mode %v, want a socket of mode 0660", mask, info.Mode())
		}
	}
}

// listen listens at a path.
func listen(t *testing.T, path string) net.Listener {
	t.Helper()
	l, err := server.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// staleSocket leaves what a killed daemon leaves.
func staleSocket(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
}

func TestLiveSocketIsRefused(t *testing.T) {
	path := filepath.Join(servertest.ShortDir(t), "s")
	defer listen(t, path).Close()
	_, err := server.Listen(path)
	if err == nil || !strings.Contains(err.Error(), "another daemon serves this socket") {
		t.Fatalf("a second daemon: %v", err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the first daemon is cut off: %v", err)
	}
	conn.Close()
}

func TestOfTwoThatStartTogetherOneListens(t *testing.T) {
	path := filepath.Join(servertest.ShortDir(t), "s")
	staleSocket(t, path)
	var listening atomic.Int32
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			l, err := server.Listen(path)
			if err != nil {
				return
			}
			listening.Add(1)
			t.Cleanup(func() { l.Close() })
		})
	}
	group.Wait()
	if n := listening.Load(); n != 1 {
		t.Errorf("%d daemons listen on one path, want 1", n)
	}
}

func TestOtherThingsAreNotTouched(t *testing.T) {
	for _, row := range []struct {
		name string
		make func(path string) error
	}{
		{"file", func(p string) error { return os.WriteFile(p, []byte("precious"), 0o600) }},
		{"dangling link", func(p string) error { return os.Symlink(p+".away", p) }},
		{"link to a stale socket", func(p string) error {
			staleSocket(t, p+".real")
			return os.Symlink(p+".real", p)
		}},
		{"datagram socket", func(p string) error {
			l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: p, Net: "unixgram"})
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(servertest.ShortDir(t), "s")
			if err := row.make(path); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			if l, err := server.Listen(path); err == nil {
				l.Close()
				t.Error("it is replaced by a socket")
			}
			after, err := os.Lstat(path)
			if err != nil || !os.SameFile(before, after) || before.Mode() != after.Mode() {
				t.Errorf("it is not as it was: %v, %v", after, err)
			}
		})
	}
}

func TestListenPaths(t *testing.T) {
	dir := servertest.ShortDir(t)
	longest := filepath.Join(dir, strings.Repeat("x", 107-len(dir)-1))
	for _, row := range []struct{ name, path, says string }{
		{"of 107 bytes", longest, ""},
		{"of 108 bytes", longest + "x", "the path has 108 bytes, a socket's has at most 107"},
		{"empty", "", "the path is empty"},
		{"abstract", "@quotad", "not a file"},
		{"in no directory", filepath.Join(dir, "none", "s"), "no such file or directory"},
	} {
		t.Run(row.name, func(t *testing.T) {
			l, err := server.Listen(row.path)
			if err == nil {
				l.Close()
			}
			if (err == nil) != (row.says == "") || err != nil && !strings.Contains(err.Error(), row.says) {
				t.Errorf("got %v, want %q in it", err, row.says)
			}
		})
	}
}

func TestCloseRemovesOnlyItsOwnFile(t *testing.T) {
	path := filepath.Join(servertest.ShortDir(t), "s")
	first := listen(t, path)
	// Somebody clears the directory, and another daemon takes the place.
	os.Remove(path)
	second := listen(t, path)
	first.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the second daemon's socket is gone: %v", err)
	}
	second.Close()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its own socket is still there: %v", err)
	}
}
