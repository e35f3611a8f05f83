package config

import (
	"cmp"
	"path/filepath"
)

const (
	// quotactl looks for the daemon in the same places.
	localStateDir = ".quotad"
	socketName    = "quotad.sock"
	// maxSocketPath is what sun_path holds on Linux, less its closing zero: unix(7).
	maxSocketPath = 107
)

// path returns the absolute path at a key, or "" where there is none.
func (r *reader) path(t *table, key string) string {
	text, ok := read[string](t, key, "a path in quotes")
	if !ok {
		return ""
	}
	if text == "" {
		t.fail(key, "must not be empty")
		return ""
	}
	return r.absolute(text)
}

func (r *reader) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(r.dir, path)
}

// stateDir lies in the working directory where neither the file nor systemd
// names one.
func (r *reader) stateDir(root *table) string {
	if named := r.path(root, "state_dir"); named != "" {
		return named
	}
	dir, err := filepath.Abs(cmp.Or(r.host.StateDirectory, localStateDir))
	if err != nil {
		root.fail("state_dir", "is missing, and the working directory is unknown: %v", err)
	}
	return dir
}

func (r *reader) socket(root *table, stateDir string) string {
	socket := cmp.Or(r.path(root, "socket"), filepath.Join(stateDir, socketName))
	if len(socket) > maxSocketPath {
		root.fail("socket", "%q has %d bytes, the path of a socket at most %d: name a shorter one", socket, len(socket), maxSocketPath)
	}
	return socket
}

func (r *reader) logLevel(log *table) string {
	level := log.oneOf("level", "info", "debug", "info", "warn", "error")
	log.end()
	return level
}
