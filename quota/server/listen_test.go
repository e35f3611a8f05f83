package server_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// The socket is for its owner and group, with any umask: a daemon under systemd has 0027, which alone would lock the
// group out.
func TestListenMode(t *testing.T) {
	for _, mask := range []int{0o000, 0o027, 0o077} {
		old := syscall.Umask(mask)
		path := filepath.Join(servertest.ShortDir(t), "s")
		l, err := server.Listen(path)
		syscall.Umask(old)
		servertest.Must(t, err)
		defer l.Close()
		if info, err := os.Lstat(path); err != nil || info.Mode() != fs.ModeSocket|0o660 {
			t.Errorf("umask %03o: %v, %v, want a socket of mode 0660", mask, info, err)
		}
	}
}

// listen listens at a path.
func listen(t *testing.T, path string) net.Listener {
	t.Helper()
	l, err := server.Listen(path)
	servertest.Must(t, err)
	return l
}

// What is there already stays, unless it is a socket without a daemon; and not every path can be a socket's.
func TestWhatIsRefused(t *testing.T) {
	dir := servertest.ShortDir(t)
	longest := filepath.Join(dir, strings.Repeat("x", 107-len(dir)-1))
	file := func(p string) error { return os.WriteFile(p, []byte("precious"), 0o600) }
	linked := func(p string) error {
		servertest.StaleSocket(t, p+".real")
		return os.Symlink(p+".real", p)
	}
	stale := func(p string) error { servertest.StaleSocket(t, p); return nil }
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
		{"stale socket", dir + "/o", stale, ""},
		{"datagram socket", dir + "/g", datagrams, "cannot find out whether a daemon serves it"},
		{"socket of a daemon", dir + "/s", live, "another daemon serves this socket"},
		{"of 107 bytes", longest, nil, ""},
		{"of 108 bytes", longest + "x", nil, "the path has 108 bytes, a socket's has at most 107"},
		{"empty", "", nil, "the path is empty"},
		{"abstract", "@quotad", nil, "not a file"},
		{"in no directory", dir + "/none/s", nil, "no such file or directory"},
	} {
		if row.make != nil {
			servertest.Must(t, row.make(row.path))
		}
		before, missing := os.Lstat(row.path)
		l, err := server.Listen(row.path)
		if (err == nil) != (row.says == "") || err != nil && !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: got %v, want %q in it", row.name, err, row.says)
		}
		if after, err := os.Lstat(row.path); missing == nil && row.says != "" && (err != nil || !os.SameFile(before, after) || before.Mode() != after.Mode()) {
			t.Errorf("%s: it is not as it was: %v, %v", row.name, after, err)
		}
		if err == nil {
			l.Close()
		}
	}
}

// A daemon that starts waits for another one that does, and does not take its new socket for a stale one.
func TestOfTwoThatStartTogetherOneListens(t *testing.T) {
	dir := servertest.ShortDir(t)
	other, err := os.Open(dir)
	servertest.Must(t, err)
	servertest.Must(t, syscall.Flock(int(other.Fd()), syscall.LOCK_EX))
	result := make(chan error, 1)
	go func() { _, err := server.Listen(dir + "/s"); result <- err }()
	waits := fmt.Sprintf("-> FLOCK  ADVISORY  WRITE %d ", os.Getpid())
	for locks := []byte(nil); !strings.Contains(string(locks), waits); {
		if locks, err = os.ReadFile("/proc/locks"); err != nil || len(result) > 0 {
			t.Fatalf("it does not wait: %v", err)
		}
	}
	l, err := net.Listen("unix", dir+"/s")
	servertest.Must(t, err)
	defer l.Close()
	other.Close()
	if err := <-result; err == nil || !strings.Contains(err.Error(), "another daemon serves this socket") {
		t.Errorf("got %v, want that the other one listens", err)
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
