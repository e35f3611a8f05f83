package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
