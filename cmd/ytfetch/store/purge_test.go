package store

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// A purge removes what upstream last answered before a time, and nothing else: the oldest
// first, so many at a time, and the next one continues.
func TestPurge(t *testing.T) {
	s := openTest(t)
	const days = 80
	for day := range days {
		at := noon.AddDate(0, 0, day)
		items := []json.RawMessage{video("always", "word always", nil)}
		for i := range 10 {
			items = append(items, video(fmt.Sprintf("%d-%d", day, i), "word", nil))
		}
		s.mustSave(t, Page{Items: items, At: at})
	}
	before := noon.AddDate(0, 0, 60)
	for i, want := range []struct{ removed, videos, charts, appearances int64 }{
		{500, 301, 30, 330},
		{100, 201, 20, 220},
		{0, 201, 20, 220},
	} {
		removed, err := s.Purge(before)
		if err != nil || removed != want.removed {
			t.Errorf("purge %d: got %d, %v, want %d", i+1, removed, err, want.removed)
		}
		if videos, charts, appearances := s.count(t, "videos"), s.count(t, "charts"), s.count(t, "appearances"); videos != want.videos || charts != want.charts || appearances != want.appearances {
			t.Errorf("purge %d: got %d videos, %d charts, %d appearances, want %+v", i+1, videos, charts, appearances, want)
		}
	}
	if got := s.finds(t, Query{Words: "always"}); !slices.Equal(got, []string{"always"}) {
		t.Errorf("got %v, want the video that is in every chart", got)
	}
}

// Of a video that is purged nothing is left in the file when the last process closes it:
// neither in rows, nor in the index of words, nor in the log of writes.
func TestPurgeLeavesNothingToRead(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for day := range 20 {
		at := noon.AddDate(0, 0, day)
		items := []json.RawMessage{video("always", fmt.Sprintf("pqtitle%dz", day), nil)}
		for i := range 20 {
			items = append(items, video(fmt.Sprintf("pqid%dz%d", day, i), fmt.Sprintf("common pqtitle%dz", day), map[string]any{
				"description": fmt.Sprintf("pqabout%dz 東京%d", day, day), "tags": []string{fmt.Sprintf("pqtag%dz", day)},
			}))
		}
		s.mustSave(t, Page{Items: items, At: at, Next: fmt.Sprintf("pqtoken%dz", day)})
	}
	if removed, err := s.Purge(noon.AddDate(0, 0, 15)); err != nil || removed != 300 {
		t.Fatalf("got %d, %v, want 300 removed", removed, err)
	}
	if got := len(s.finds(t, Query{Words: "common"})); got != 100 {
		t.Errorf("got %d videos, want the 100 of the last five days", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, FileName+"*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("got files %q, %v, want %s alone", files, err, FileName)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	// FTS5 writes a word without what it shares with the one before.
	for _, found := range regexp.MustCompile(`([0-9]{1,2})z`).FindAllSubmatch(content, -1) {
		if day, err := strconv.Atoi(string(found[1])); err != nil || day >= 10 && day < 15 {
			t.Fatalf("the file still holds %q", found[0])
		}
	}
}
