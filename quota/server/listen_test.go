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

// What is there already stays, unless it is a socket without a daemon; and not every path can be a socket's.
func TestWhatIsRefused(t *testing.T) {
	dir := servertest.ShortDir(t)
	longest := filepath.Join(dir, strings.Repeat("x", 107-len(dir)-1))
	file := func(p string) error { return os.WriteFile(p, []byte("precious"), 0o600) }
	linked := func(p string) error {
		staleSocket(t, p+".real")
		return os.Symlink(p+".real", p)
	}
	live := func(p string) error {
		l, err := server.Listen(p)
		t.Cleanup(func() { l.Close() })
		return err
	}
	datagrams := func(p string) error {
		l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: p, Net: "unixgram"})
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	}
	for _, row := range []struct {
		name, path string
		make       func(path string) error
		says       string
	}{
		{"file", dir + "/f", file, "something that is not a socket is there already"},
		{"dangling link", dir + "/d", func(p string) error { return os.Symlink(p+".away", p) }, "not a socket"},
		{"link to a stale socket", dir + "/l", linked, "not a socket"},
		{"datagram socket", dir + "/g", datagrams, "cannot find out whether a daemon serves it"},
		{"socket of a daemon", dir + "/s", live, "another daemon serves this socket"},
		{"of 107 bytes", longest, nil, ""},
		{"of 108 bytes", longest + "x", nil, "the path has 108 bytes, a socket's has at most 107"},
		{"empty", "", nil, "the path is empty"},
		{"abstract", "@quotad", nil, "not a file"},
		{"in no directory", dir + "/none/s", nil, "no such file or directory"},
	} {
		if row.make != nil {
			if err := row.make(row.path); err != nil {
				t.Fatal(err)
			}
		}
		before, missing := os.Lstat(row.path)
		l, err := server.Listen(row.path)
		if (err == nil) != (row.says == "") || err != nil && !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: got %v, want %q in it", row.name, err, row.says)
		}
		if after, err := os.Lstat(row.path); missing == nil && (err != nil || !os.SameFile(before, after) || before.Mode() != after.Mode()) {
			t.Errorf("%s: it is not as it was: %v, %v", row.name, after, err)
		}
		if err == nil {
			l.Close()
		}
	}
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
