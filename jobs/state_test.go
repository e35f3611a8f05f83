package jobs

import (
	"testing"
	"time"

	"quotad/regions"
)

// What several goroutines have read of the hosts may come in any order: the newest counts.
func TestOlderSharesAreIgnored(t *testing.T) {
	at := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	shared := func(seq int64, cursor regions.Cursor, mark string) logRecord {
		r := &sharedRecord{Seq: seq}
		r.Turn.set(at, turn{Cursor: cursor})
		return logRecord{Shared: r, Marks: map[regions.Region]bookmark{"US": {At: at.Add(time.Duration(seq)), Text: mark}}}
	}
	var s state
	s.apply(shared(2, "GB", "new"))
	s.apply(shared(1, "US", "old"))
	if cursor, _ := s.next(); cursor != "GB" || s.Bookmarks["US"].Text != "new" {
		t.Errorf("got the cursor at %s and the bookmark %q, want the newer ones", cursor, s.Bookmarks["US"].Text)
	}
}

// While a run of this host is under way, its cursor follows from its passes; what it shares is where that
// leaves it.
func TestTheCursorOfARunThatIsShared(t *testing.T) {
	at := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	r := &sharedRecord{Seq: 1}
	r.Turn.set(at, turn{Cursor: "US"})
	r.Run.set(at, holding{ID: "1"})
	var s state
	s.apply(logRecord{Run: &Run{ID: "1", State: RunRunning, Ring: regions.Ring{"US", "GB"}, StartedAt: at}})
	s.apply(passRecord("1", Pass{Region: "US", Outcome: OK}))
	s.apply(logRecord{Shared: r})
	if cursor, _ := s.next(); cursor != "GB" {
		t.Errorf("got the cursor at %s, want it after the pass", cursor)
	}
	over := &sharedRecord{Seq: 2}
	over.Turn.set(at, turn{Cursor: "GB"})
	s.apply(logRecord{Shared: over})
	if cursor, _ := s.next(); cursor != "GB" || !s.Moved {
		t.Errorf("got the cursor at %s, want that of the record", cursor)
	}
}
