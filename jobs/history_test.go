package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func openTestHistory(t *testing.T, path string) *history {
	t.Helper()
	h, err := openHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func wantRuns(t *testing.T, h *history, n int, first, last string) {
	t.Helper()
	runs, err := h.read()
	if err != nil || len(runs) != n {
		t.Fatalf("got %d runs, %v, want %d", len(runs), err, n)
	}
	if runs[0].ID != first || runs[n-1].ID != last {
		t.Errorf("got %s … %s, want %s … %s", runs[0].ID, runs[n-1].ID, first, last)
	}
}

// A line that a power cut has cut short is lost; those before and after are not.
func TestHistoryMendsItself(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trending.history")
	h := openTestHistory(t, path)
	for _, id := range []string{"a", "b"} {
		if err := h.append(&Run{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data[:len(data)-5], 0o600); err != nil {
		t.Fatal(err)
	}
	h = openTestHistory(t, path)
	wantRuns(t, h, 1, "a", "a")
	if err := h.append(&Run{ID: "c"}); err != nil {
		t.Fatal(err)
	}
	wantRuns(t, openTestHistory(t, path), 2, "a", "c")
}

func TestHistoryIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trending.history")
	now := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	lines := ""
	for i := range 2*keptRuns - 1 {
		lines += fmt.Sprintf("{\"id\":\"%04d\",\"started_at\":%q}\n", i, now.Format(time.RFC3339))
	}
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	h := openTestHistory(t, path)
	if err := h.append(&Run{ID: "last", StartedAt: now, EndedAt: now}); err != nil {
		t.Fatal(err)
	}
	wantRuns(t, h, keptRuns, "0500", "last")
	wantRuns(t, openTestHistory(t, path), keptRuns, "0500", "last")

	h.lines = 2*keptRuns - 1
	late := now.Add(keptFor + time.Second)
	if err := h.append(&Run{ID: "late", StartedAt: late, EndedAt: late}); err != nil {
		t.Fatal(err)
	}
	wantRuns(t, h, 1, "late", "late")
}
