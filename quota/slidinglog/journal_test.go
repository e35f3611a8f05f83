package slidinglog

import (
	"errors"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/journal"
)

// On one host alone, nothing is decided that the journal could not take. Once it takes entries again, so does the log.
func TestAJournalThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := &quota.Credential{Name: "one", Operations: map[string]quota.Cost{"get": {Every: 1}},
		Limits: []quota.Limit{{Name: "daily", Units: 100, Window: quota.Sliding(24 * time.Hour)}}}
	begin := func() (*Ledger, *quota.Service) {
		l := Open(Config{Engine: NewMemory(time.Now), Dir: dir, Manual: true, Unsynced: true})
		t.Cleanup(func() { l.Close() })
		s, err := quota.NewService(l, []*quota.Credential{c}, time.Minute)
		if err == nil {
			err = l.SetCredentials(s.Credentials(), nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		return l, s
	}
	l, s := begin()
	get := func(id string) (quota.Decision, error) {
		return s.Acquire(t.Context(), quota.Request{Credential: "one", Operation: "get", Count: 10, RequestID: id})
	}
	used := func() quota.Units {
		t.Helper()
		u, err := s.Usage(t.Context(), "one")
		if err != nil {
			t.Fatal(err)
		}
		return u.Limits[0].Used
	}
	if d, err := get("first"); err != nil || !d.Granted() {
		t.Fatal(d, err)
	}
	one := l.find(c)
	if err := one.journal.Close(); err != nil { // from now on it takes nothing
		t.Fatal(err)
	}
	if d, err := get("second"); !errors.Is(err, quota.ErrOutcomeUnknown) {
		t.Fatalf("got %+v, %v, want that it counts and is not in the journal", d, err)
	}
	for range 3 {
		if d, err := get("third"); !errors.Is(err, quota.ErrUnavailable) || errors.Is(err, quota.ErrOutcomeUnknown) {
			t.Fatalf("got %+v, %v, want it refused before it is decided", d, err)
		}
	}
	_, err := s.Book(t.Context(), "one", quota.Booking{Limit: "daily", Units: 5})
	if !errors.Is(err, quota.ErrUnavailable) {
		t.Errorf("a booking: got %v", err)
	}
	if _, err := s.Reset(t.Context(), "one", quota.Caller{}, ""); !errors.Is(err, quota.ErrUnavailable) {
		t.Errorf("a reset: got %v", err)
	}
	if now := used(); now != 20 {
		t.Errorf("%d units are used, want 20", now)
	}
	one.poll(t.Context(), false)
	if h := l.Health(t.Context()); h.Reachable || len(h.Unwritten) != 1 || !strings.Contains(h.State, "journal") {
		t.Errorf("got %+v, want it said that the journal is not written", h)
	}

	again, err := journal.Open(dir, "one", false)
	if err != nil {
		t.Fatal(err)
	}
	one.journal = again
	one.poll(t.Context(), false)
	if h := l.Health(t.Context()); !h.Reachable || len(h.Unwritten) != 0 {
		t.Errorf("got %+v, want it well again", h)
	}
	if d, err := get("third"); err != nil || !d.Granted() || d.Replayed {
		t.Errorf("got %+v, %v, want a grant", d, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, s = begin()
	if now := used(); now != 30 {
		t.Errorf("%d units are used after a restart, want 30", now)
	}
	if d, err := get("second"); err != nil || !d.Replayed {
		t.Errorf("got %+v, %v, want the grant that was not in the journal at first", d, err)
	}
}
