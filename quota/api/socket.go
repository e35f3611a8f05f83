package api

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Names in the environment of a pass that concern the API.
const (
	SocketEnv = "QUOTAD_SOCKET" // path of the daemon's socket
	TokenEnv  = "QUOTAD_TOKEN"  // the run token of the pass
)

// Where a client looks for the daemon when nobody named a socket: as installed
// for systemd, and as started by hand in the working directory.
const (
	systemSocket = "/run/quotad.sock"
	localSocket  = "./.quotad/quotad.sock"
)

// FindSocket returns the path of the daemon's socket: flag if it is not empty,
// else $QUOTAD_SOCKET, else /run/quotad.sock if something is there, else
// ./.quotad/quotad.sock. It does not ask whether anybody listens.
func FindSocket(flag string) string {
	if named := cmp.Or(flag, os.Getenv(SocketEnv)); named != "" {
		return named
	}
	if _, err := os.Lstat(systemSocket); !errors.Is(err, fs.ErrNotExist) {
		return systemSocket
	}
	return localSocket
}

// maxSocketPath is what sun_path of unix(7) holds on Linux, less its closing zero.
const maxSocketPath = 107

func checkSocketPath(path string) error {
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
