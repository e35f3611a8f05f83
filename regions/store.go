package regions

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A Store keeps small documents, each a JSON file of its own in one directory.
// A document is replaced as a whole or not at all, also when the machine loses
// power. Any number of goroutines may use it at the same time; of two that save
// one document, the later one wins.
type Store struct {
	dir string
}

// OpenStore returns the store in dir, which it makes when missing and which
// nobody else writes to. What an interrupted Save left behind is removed.
func OpenStore(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("cannot make state directory: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"+unfinished))
	if err != nil {
		return nil, fmt.Errorf("cannot look through state directory %q: %w", dir, err)
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("cannot clean up state directory: %w", err)
		}
	}
	return &Store{dir: dir}, nil
}

// unfinished ends the names of files that are not documents yet.
const unfinished = ".tmp"

// Path returns the file of the document of that name.
func (s *Store) Path(name string) string {
	return filepath.Join(s.dir, name+".json")
}

// Names returns the names of all documents.
func (s *Store) Names() ([]string, error) {
	const ending = ".json"
	paths, err := filepath.Glob(filepath.Join(s.dir, "*"+ending))
	if err != nil {
		return nil, fmt.Errorf("cannot look through state directory %q: %w", s.dir, err)
	}
	names := make([]string, len(paths))
	for i, path := range paths {
		names[i] = strings.TrimSuffix(filepath.Base(path), ending)
	}
	return names, nil
}

// Load reads the document of that name into v and tells whether there is one.
func (s *Store) Load(name string, v any) (found bool, err error) {
	data, err := os.ReadFile(s.Path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot read state: %w", err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return false, fmt.Errorf("cannot understand state in %q (move the file away to start afresh): %w", s.Path(name), err)
	}
	return true, nil
}

// Save replaces the document of that name by v. When it returns nil the
// document survives a power cut; after an error the previous one stands.
func (s *Store) Save(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("cannot encode state %q: %w", name, err)
	}
	return WriteFile(s.Path(name), append(data, '\n'))
}

// WriteFile replaces the file at path, durably and as a whole: written beside
// it, synced, renamed over it, and the directory synced, without which the
// rename itself could be lost (fsync(2)).
func WriteFile(path string, data []byte) error {
	dir, name := filepath.Dir(path), filepath.Base(path)
	temporary, err := os.CreateTemp(dir, name+".*"+unfinished)
	if err != nil {
		return fmt.Errorf("cannot save state in %q: %w", path, cause(err))
	}
	err = errors.Join(writeSynced(temporary, data), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		os.Remove(temporary.Name()) // best effort; OpenStore removes what stays
		return fmt.Errorf("cannot save state in %q: %w", path, cause(err))
	}
	return syncDir(dir)
}

// cause leaves out the name of a temporary file, which is another one each time.
func cause(err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

func writeSynced(f *os.File, data []byte) error {
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Sync()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("cannot save state: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("cannot save state: %w", err)
	}
	return nil
}
