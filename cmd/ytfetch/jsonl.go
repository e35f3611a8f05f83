package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"quotad/regions"
)

// JsonLines keep the pages of one pass as files of JSON lines. A page is there
// as a whole or not at all, whenever the machine stops.
type jsonLines struct {
	dir string
	stored
}

// openJSONLines makes the directory of a region's slot below out.
func openJSONLines(out, region string, slot time.Time) (*jsonLines, error) {
	s := &jsonLines{dir: filepath.Join(out, region, slot.UTC().Format(slotLayout)), stored: make(stored)}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, fmt.Errorf("cannot make a directory for pages: %w", err)
	}
	return s, errors.Join(regions.SyncDir(s.dir), regions.SyncDir(filepath.Dir(s.dir)))
}

// write stores a page, one item a line, in place of what that page held. After
// an error the page is as it was.
func (s *jsonLines) write(at place, got page, _ bool) error {
	number := at.number
	var lines bytes.Buffer
	for _, item := range got.Items {
		if err := json.Compact(&lines, item); err != nil {
			return fmt.Errorf("cannot store page %d: %w", number, err)
		}
		lines.WriteByte('\n')
	}
	if err := regions.WriteFile(s.path(number), lines.Bytes(), 0o644); err != nil {
		return fmt.Errorf("cannot store page %d: %w", number, err)
	}
	s.stored[number] = len(got.Items)
	if got.Next == "" {
		return s.trim(number)
	}
	return nil
}

// trim removes the pages after the last one: they belong to a chart that was
// longer when the same slot was fetched before.
func (s *jsonLines) trim(last int) error {
	for number := last + 1; ; number++ {
		err := os.Remove(s.path(number))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot remove outdated page %d: %w", number, err)
		}
		delete(s.stored, number)
	}
}

func (s *jsonLines) where() string { return s.dir }

// unknown returns all: the files of other passes are not read.
func (s *jsonLines) unknown(ids []string) ([]string, error) { return ids, nil }

func (s *jsonLines) path(number int) string {
	return filepath.Join(s.dir, fmt.Sprintf("page-%03d.jsonl", number))
}
