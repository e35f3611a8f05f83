package regions

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// unfinished ends the names of files that WriteFile has not renamed yet.
const unfinished = ".tmp"

// CleanUp removes from a directory what a WriteFile has left that was interrupted.
func CleanUp(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, "*"+unfinished))
	if err != nil {
		return fmt.Errorf("cannot look through state directory %q: %w", dir, err)
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("cannot clean up state directory: %w", err)
		}
	}
	return nil
}

// WriteFile replaces the file at path, durably and as a whole: written beside
// it, synced, renamed over it, and the directory synced, without which the
// rename itself could be lost (fsync(2)). The mode is before the umask.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	temporary, err := os.OpenFile(path+"."+rand.Text()[:10]+unfinished, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("cannot write %q: %w", path, cause(err))
	}
	_, err = temporary.Write(data)
	err = errors.Join(err, temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		os.Remove(temporary.Name()) // best effort; CleanUp removes what stays
		return fmt.Errorf("cannot write %q: %w", path, cause(err))
	}
	return SyncDir(path)
}

// cause leaves out the name of a temporary file, which is another one each time.
func cause(err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// SyncDir makes the name of a file durable, which a sync of the file does not (fsync(2)).
func SyncDir(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("cannot make %q durable: %w", path, err)
	}
	return nil
}
