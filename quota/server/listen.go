package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"quotad/quota/api"
)

// socketMode lets the socket's owner and group connect.
const socketMode = 0o660

// Listen listens on a Unix socket at path, which must not be in use. If a file exists there, Listen
// replaces it only if it is a socket without a daemon. The socket has mode 0660 from the moment it
// exists. Closing the listener removes the file, unless it has been replaced.
func Listen(path string) (net.Listener, error) {
	l, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %q: %w", path, err)
	}
	return l, nil
}

func listen(path string) (*listener, error) {
	if err := api.CheckSocketPath(path); err != nil {
		return nil, err
	}
	// The lock keeps two daemons that start together from each taking the other's
	// new socket for a stale one. It needs no file of its own.
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close() // which unlocks it
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		return nil, fmt.Errorf("cannot lock %q: %w", dir.Name(), err)
	}
	if err := clearStale(path); err != nil {
		return nil, err
	}
	return bind(path)
}

// clearStale removes a stale socket: the path is a socket, and a connection to it is refused.
// The first alone would remove the socket of a running daemon, the second alone a user's file.
func clearStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("something that is not a socket is there already: move it away, or choose another path")
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		conn.Close()
		return errors.New("another daemon serves this socket: stop it first, or choose another path")
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return fmt.Errorf("a socket is there, and quotad cannot find out whether a daemon serves it: %w", err)
	}
}

func bind(path string) (*listener, error) {
	// Linux gives the file the mode of the unbound socket, less the umask, so it
	// never has a wider one. A process cannot change its umask safely.
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		err2 := raw.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), socketMode) })
		return errors.Join(err, err2)
	}}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	unix := l.(*net.UnixListener)
	unix.SetUnlinkOnClose(false)
	err = os.Chmod(path, socketMode) // what the umask took away
	info, err2 := os.Lstat(path)
	if err = errors.Join(err, err2); err != nil {
		return nil, errors.Join(err, unix.Close(), os.Remove(path))
	}
	return &listener{UnixListener: unix, path: path, file: info}, nil
}

// A listener removes its socket file when it is closed.
type listener struct {
	*net.UnixListener
	path string
	file fs.FileInfo // as bound
}

// Close removes the file first: while this listener still answers, no other daemon replaces it. It compares times, too,
// because a file system reuses the inode number of a removed file.
func (l *listener) Close() error {
	if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.file) && now.ModTime().Equal(l.file.ModTime()) {
		os.Remove(l.path)
	}
	return l.UnixListener.Close()
}
