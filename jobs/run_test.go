package jobs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/quota"
)

func TestRunIDs(t *testing.T) {
	begin := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	var ids []string
	seen := make(map[string]bool)
	for i := range 1000 {
		id := NewRunID(begin.Add(time.Duration(i) * 37 * time.Millisecond))
		if len(id) != 15 || strings.Trim(id, digits) != "" || seen[id] {
			t.Fatalf("%q is not a new id of 15 characters", id)
		}
		if err := quota.CheckName(id); err != nil {
			t.Fatal(err)
		}
		seen[id] = true
		ids = append(ids, id)
	}
	if !slices.IsSorted(ids) {
		t.Error("ids do not sort by time")
	}
	if one, other := NewRunID(begin), NewRunID(begin); one == other {
		t.Errorf("two runs of one millisecond have one id, %q", one)
	}
}

func TestTail(t *testing.T) {
	var tail tail
	if got := tail.lines(); len(got) != 0 {
		t.Errorf("got %q of nothing", got)
	}
	for i := range 25 {
		tail.add(strings.Repeat("x", i))
	}
	got := tail.lines()
	if len(got) != keptLines || len(got[0]) != 15 || len(got[keptLines-1]) != 24 {
		t.Errorf("got %q, want the last %d lines", got, keptLines)
	}
	tail.add(strings.Repeat("ö", 1000))
	got = tail.lines()
	if last := got[keptLines-1]; len(last) > keptBytes+len("…") || !strings.HasSuffix(last, "ö…") {
		t.Errorf("got %q, want the beginning of the line, marked as cut", last)
	}
}
