package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func openTestLines(t *testing.T) *jsonLines {
	t.Helper()
	// The slot's directory is named in UTC, wherever quotad lives.
	berlin := time.FixedZone("", 3600)
	s, err := openJSONLines(t.TempDir(), "DE", time.Date(2026, 11, 21, 0, 30, 0, 0, berlin))
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join("DE", "20261120T233000Z"); filepath.Join(filepath.Base(filepath.Dir(s.dir)), filepath.Base(s.dir)) != want {
		t.Fatalf("got directory %q, want one that ends in %q", s.dir, want)
	}
	return s
}

// content returns the files of a store by name, temporary ones too.
func content(t *testing.T, s *jsonLines) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, entry := range entries {
		if raw, err := os.ReadFile(filepath.Join(s.dir, entry.Name())); err == nil {
			files[entry.Name()] = string(raw)
		}
	}
	return files
}

// onePage is a page of one item.
func onePage(next string) page {
	return page{Items: []json.RawMessage{json.RawMessage(`{}`)}, Next: next}
}

func TestPageIsOneItemALine(t *testing.T) {
	s := openTestLines(t)
	items := []json.RawMessage{json.RawMessage("{\n  \"id\": \"a\",\n  \"views\": 9007199254740993\n}"), json.RawMessage(`{"id":"b\nc"}`)}
	if err := s.write(firstPage(time.Time{}), page{Items: items, Next: "more"}, false); err != nil {
		t.Fatal(err)
	}
	got, want := content(t, s), "{\"id\":\"a\",\"views\":9007199254740993}\n{\"id\":\"b\\nc\"}\n"
	if len(got) != 1 || got["page-001.jsonl"] != want {
		t.Errorf("got %q, want page-001.jsonl with %q alone", got, want)
	}
}

func TestPageIsReplacedAsAWhole(t *testing.T) {
	s := openTestLines(t)
	for _, id := range []string{`"first, and longer"`, `"second"`} {
		if err := s.write(firstPage(time.Time{}), page{Items: []json.RawMessage{json.RawMessage(id)}, Next: "more"}, false); err != nil {
			t.Fatal(err)
		}
	}
	if got := content(t, s); len(got) != 1 || got["page-001.jsonl"] != "\"second\"\n" {
		t.Errorf("got %q, want the second page alone", got)
	}
}

func TestFailedWriteLeavesNothingBehind(t *testing.T) {
	s := openTestLines(t)
	if err := s.write(firstPage(time.Time{}), onePage("more"), false); err != nil {
		t.Fatal(err)
	}
	// A directory with a file in it cannot be replaced by a file.
	if err := os.MkdirAll(filepath.Join(s.path(2), "in the way"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := s.write(place{number: 2}, onePage("more"), false); err == nil {
		t.Error("got no error")
	}
	if got := content(t, s); len(got) != 1 {
		t.Errorf("got files %q, want page 1 alone", got)
	}
}

func TestLastPageRemovesOnlyWhatIsBehindIt(t *testing.T) {
	s := openTestLines(t)
	for number := 1; number <= 4; number++ {
		if err := s.write(place{number: number}, onePage("more"), false); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.write(place{number: 2}, onePage(""), false); err != nil {
		t.Fatal(err)
	}
	got := content(t, s)
	if _, kept := got["page-002.jsonl"]; len(got) != 2 || !kept {
		t.Errorf("got files %q, want pages 1 and 2", got)
	}
}
