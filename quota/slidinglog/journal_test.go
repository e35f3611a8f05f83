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
	b := newBed(t, &quota.Credential{Name: "one", Operations: map[string]quota.Cost{"get": {Every: 1}},
		Limits: []quota.Limit{{Name: "daily", Units: 100, Window: quota.Sliding(24 * time.Hour)}}})
	get := func(b *bed, id string) (quota.Decision, error) {
		return b.Acquire(t.Context(), quota.Request{Credential: "one", Operation: "get", Count: 10, RequestID: id})
	}
	if d, err := get(b, "first"); err != nil || !d.Granted() {
		t.Fatal(d, err)
	}
	one := b.l.find(b.c)
	if err := one.journal.Close(); err != nil { // from now on it takes nothing
		t.Fatal(err)
	}
	if d, err := get(b, "second"); !errors.Is(err, quota.ErrOutcomeUnknown) {
		t.Fatalf("got %+v, %v, want that it counts and is not in the journal", d, err)
	}
	for range 3 {
		if d, err := get(b, "third"); !errors.Is(err, quota.ErrUnavailable) || errors.Is(err, quota.ErrOutcomeUnknown) {
			t.Fatalf("got %+v, %v, want it refused before it is decided", d, err)
		}
	}
	_, err := b.Book(t.Context(), "one", quota.Booking{Limit: "daily", Units: 5})
	if !errors.Is(err, quota.ErrUnavailable) {
		t.Errorf("a booking: got %v", err)
	}
	if _, err := b.Reset(t.Context(), "one", quota.Caller{}, ""); !errors.Is(err, quota.ErrUnavailable) {
		t.Errorf("a reset: got %v", err)
	}
	b.used(20)
	one.poll(t.Context(), false)
	if h := b.l.Health(t.Context()); h.Reachable || len(h.Unwritten) != 1 || !strings.Contains(h.State, "journal") {
		t.Errorf("got %+v, want it said that the journal is not written", h)
	}

	again, err := journal.Open(b.dir, "one", false)
	if err != nil {
		t.Fatal(err)
	}
	one.journal = again
	one.poll(t.Context(), false)
	if h := b.l.Health(t.Context()); !h.Reachable || len(h.Unwritten) != 0 {
		t.Errorf("got %+v, want it well again", h)
	}
	if d, err := get(b, "third"); err != nil || !d.Granted() || d.Replayed {
		t.Errorf("got %+v, %v, want a grant", d, err)
	}
	next := b.killed()
	next.used(30)
	if d, err := get(next, "second"); err != nil || !d.Replayed {
		t.Errorf("got %+v, %v, want the grant that was not in the journal at first", d, err)
	}
}
