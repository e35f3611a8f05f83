package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// A purge removes what upstream last told before a time, and nothing else; one that ends
// early has the next one go on.
func TestPurge(t *testing.T) {
	s := openTest(t)
	const days = 40
	for day := range days {
		at := noon.AddDate(0, 0, day)
		items := []json.RawMessage{video("always", "word always", nil)}
		for i := range 30 {
			items = append(items, video(fmt.Sprintf("%d-%d", day, i), "word", nil))
		}
		s.mustSave(t, Page{Items: items, At: at})
	}
	before := noon.AddDate(0, 0, 10)
	ctx := &steps{Context: t.Context(), left: 40}
	if done, err := s.Purge(ctx, before); err == nil || done.Charts == 10 && done.Videos == 300 {
		t.Fatalf("got %+v, %v, want a purge that is interrupted", done, err)
	}
	if _, err := s.Purge(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	if videos, charts, appearances := s.count(t, "videos"), s.count(t, "charts"), s.count(t, "appearances"); videos != 30*30+1 || charts != 30 || appearances != 30*31 {
		t.Errorf("got %d videos, %d charts, %d appearances, want 901, 30 and 930", videos, charts, appearances)
	}
	if got := s.finds(t, Query{Words: "always"}); !slices.Equal(got, []string{"always"}) {
		t.Errorf("got %v, want the video that is in every chart", got)
	}
	if _, err := s.Show("9-1"); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v, want ErrUnknown", err)
	}
	if done, err := s.Purge(t.Context(), before); err != nil || done != (Purged{}) {
		t.Errorf("got %+v, %v, want nothing left to do", done, err)
	}
}

// Of a video that is purged nothing is left in the file or beside it: neither in rows, nor
// in the index of words, nor in the log of writes; nor by a purge that was interrupted.
func TestPurgeLeavesNothingToRead(t *testing.T) {
	s := openTest(t)
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
	before := noon.AddDate(0, 0, 15)
	for left := 5; left < 1<<30; left *= 2 {
		_, err := s.Purge(&steps{Context: t.Context(), left: left}, before)
		old, unfinished, dueErr := s.Old(before)
		due := unfinished || old != (Purged{})
		if dueErr != nil || due != (err != nil) {
			t.Fatalf("after %v: due %v, %v", err, due, dueErr)
		}
		if !due {
			break
		}
	}
	files, err := filepath.Glob(s.Path() + "*")
	if err != nil {
		t.Fatal(err)
	}
	// FTS5 writes a word without what it shares with the one before.
	day := regexp.MustCompile(`([0-9]{1,2})z`)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range day.FindAllSubmatch(content, -1) {
			if day, err := strconv.Atoi(string(found[1])); err != nil || day >= 10 && day < 15 {
				t.Fatalf("%s still holds %q", file, found[0])
			}
		}
	}
	if got := len(s.finds(t, Query{Words: "common"})); got != 100 {
		t.Errorf("got %d videos, want the 100 of the last five days", got)
	}
}

// A steps context ends after it was asked so often whether it has: SQLite asks at each step.
type steps struct {
	context.Context
	left int
}

func (s *steps) Err() error {
	if s.left--; s.left < 0 {
		return context.Canceled
	}
	return nil
}
