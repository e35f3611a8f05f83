package api

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Names in the environment of a pass that concern the API.
const (
	SocketEnv = "QUOTAD_SOCKET" // path of the daemon's socket
	TokenEnv  = "QUOTAD_TOKEN"  // the run token of the pass
)

// Where a client looks for the daemon by default: as installed
// for systemd, and as started by hand in the working directory.
const (
	systemSocket = "/run/quotad.sock"
	localSocket  = "./.quotad/quotad.sock"
	systemConfig = "/etc/quotad/config.toml" // is there where quotad is installed
)

// FindSocket returns the path of the daemon's socket: flag if it is not empty, else $QUOTAD_SOCKET, else
// /run/quotad.sock if it exists, else ./.quotad/quotad.sock, unless that is another user's: root in a user's directory
// does not mean that user's daemon. If neither exists, it is /run/quotad.sock where quotad is installed. FindSocket
// does not check whether a daemon listens.
func FindSocket(flag string) string {
	named := cmp.Or(flag, os.Getenv(SocketEnv))
	switch {
	case named != "":
		return named
	case exists(systemSocket), isForeign(localSocket), !exists(localSocket) && exists(systemConfig):
		return systemSocket
	default:
		return localSocket
	}
}

// exists reports whether there is a file, perhaps in a directory that is closed to us.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// isForeign reports whether a file exists that is neither this user's nor root's.
func isForeign(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid()
}

// startHint says how to find a daemon that does not answer at path.
func startHint(path string) string {
	if path == systemSocket && isForeign(localSocket) {
		return localSocket + " is another user's: if that is the one, name it by --socket"
	}
	return fmt.Sprintf("is quotad running? start it, or name its socket by --socket or $%s", SocketEnv)
}

// maxSocketPath is what sun_path of unix(7) holds on Linux, less its closing zero.
const maxSocketPath = 107

// CheckSocketPath returns why a path cannot be that of a socket; nil: it can.
func CheckSocketPath(path string) error {
	switch {
	case path == "":
		return errors.New("the path is empty")
	case path[0] == '@':
		// Go would take it for an abstract socket, which has no mode to guard it.
		return errors.New("a path that begins with '@' is not a file: write it as ./@…")
	case len(path) > maxSocketPath:
		return fmt.Errorf("the path has %d bytes, a socket's has at most %d: choose a shorter one", len(path), maxSocketPath)
	}
	return nil
}
