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
type jsonLines struct{ dir string }

// openJSONLines makes the directory of a region's slot below out.
func openJSONLines(out, region string, slot time.Time) (*jsonLines, error) {
	s := &jsonLines{dir: filepath.Join(out, region, slot.UTC().Format(slotLayout))}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, fmt.Errorf("cannot make a directory for pages: %w", err)
	}
	return s, errors.Join(regions.SyncDir(s.dir), regions.SyncDir(filepath.Dir(s.dir)))
}

// write stores a page, one item a line, in place of what that page held. After
// an error the page is as it was.
func (s *jsonLines) write(at place, got page, _ bool) error {
	var lines bytes.Buffer
	for _, item := range got.Items {
		if err := json.Compact(&lines, item); err != nil {
			return err
		}
		lines.WriteByte('\n')
	}
	if err := regions.WriteFile(s.path(at.number), lines.Bytes(), 0o644); err != nil || got.Next != "" {
		return err
	}
	return s.trim(at.number)
}

// trim removes the pages after the last one: they belong to a chart that was
// longer when the same slot was fetched before.
func (s *jsonLines) trim(last int) error {
	for number := last + 1; ; number++ {
		switch err := os.Remove(s.path(number)); {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		}
	}
}

func (s *jsonLines) where() string { return s.dir }

// unknown returns all: the files of other passes are not read.
func (s *jsonLines) unknown(ids []string) ([]string, error) { return ids, nil }

func (s *jsonLines) path(number int) string {
	return filepath.Join(s.dir, fmt.Sprintf("page-%03d.jsonl", number))
}
