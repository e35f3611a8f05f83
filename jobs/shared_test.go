package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// However many regions fail and operations there are, a record is small, and says the same when it is read.
func TestARecordIsSmall(t *testing.T) {
	var r sharedRecord
	long := strings.Repeat("\u00e4\"", 32)
	r.Run.set(worldStart, holding{ID: "run", Host: long, Name: long, Until: worldStart})
	calls := Made{}
	for i := range 3000 {
		calls[fmt.Sprintf("%s%d", long, i)] = 1
		r.Bad.Is = append(r.Bad.Is, Failing{Region: regions.Region(fmt.Sprintf("%s%d", long, i)), Since: worldStart, Times: i})
	}
	r.Bad.set(worldStart, r.Bad.Is)
	r.Last.set(worldStart, sharedRun{ID: "last", Calls: calls, Ended: worldStart})
	value := r.encode()
	if len(value) > maxShared {
		t.Errorf("the record has %d bytes", len(value))
	}
	again, err := decodeShared(value)
	if err != nil || again.Run.Is != r.Run.Is || len(again.Bad.Is) == 0 || len(again.Bad.Is) > maxSharedBad || string(again.encode()) != string(value) {
		t.Errorf("got %+v, %v", again, err)
	}
}

func TestARecordThatCannotBeRead(t *testing.T) {
	for name, row := range map[string]struct{ value, want string }{
		"another version": {`{"v":2,"seq":7,"slot":"new"}`, "version 2, this quotad knows 1; run the same version on all hosts"},
		"damaged":         {`{"v":1,"seq":`, "damaged; delete the key"},
		"something else":  {`hello`, "damaged; delete the key"},
		"no version":      {`{"seq":7}`, "damaged; delete the key"},
	} {
		if _, err := decodeShared([]byte(row.value)); !errors.Is(err, quota.ErrUnavailable) || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, want %q", name, err, row.want)
		}
	}
}

func TestHowLongARunHoldsItsJob(t *testing.T) {
	for _, row := range []struct {
		schedule Schedule
		want     time.Duration
	}{
		{every(t, 30*time.Minute, 0), time.Minute},
		{every(t, time.Minute, 0), 30 * time.Second},
		{every(t, 2*time.Second, 0), 5 * time.Second},
		{Unscheduled{}, time.Minute},
	} {
		if got := holdTime(row.schedule); got != row.want {
			t.Errorf("%v: got %v, want %v", row.schedule, got, row.want)
		}
	}
}

// A claim goes by the store's clock, however wrong this host's is.
func TestTheSlotOfAClaim(t *testing.T) {
	now := worldStart.Add(5 * time.Second)
	for _, row := range []struct {
		name       string
		slot, want time.Duration // after worldStart
		waits      bool
	}{
		{"right", 0, 0, false},
		{"behind by a day", -24 * time.Hour, 0, false},
		{"ahead by a second", 30 * time.Second, 30 * time.Second, true},
		{"ahead by a year", 365 * 24 * time.Hour, 30 * time.Second, true},
	} {
		var r sharedRecord
		c := &claim{Run: "mine", Slot: worldStart.Add(row.slot)}
		got, err := r.claim(c, claimant{host: "a", schedule: every(t, 30*time.Second, 0), lease: time.Minute}, now)
		wait, waits := errors.AsType[*notYet](err)
		if waits != row.waits || waits && !wait.at.Equal(worldStart.Add(row.want)) || !waits && !got.Slot.Equal(worldStart.Add(row.want)) {
			t.Errorf("%s: got %+v, %v", row.name, got, err)
		}
	}
}

// A clock that was ahead once takes no slots: what is recorded of the future counts for nothing.
func TestARecordedSlotOfTheFuture(t *testing.T) {
	for _, ahead := range []time.Duration{5 * time.Minute, time.Hour, 365 * 24 * time.Hour} {
		var r sharedRecord
		r.Slot.set(worldStart.Add(ahead), slotTaken{worldStart.Add(ahead), "then"})
		got, err := r.claim(&claim{Run: "mine", Slot: worldStart}, claimant{host: "a", schedule: every(t, 30*time.Second, 0), lease: time.Minute}, worldStart)
		if err != nil || got.Skipped != "" || r.Run.Is.ID != "mine" || !got.Since.IsZero() {
			t.Errorf("ahead by %v: got %+v, %v", ahead, got, err)
		}
		if r.taken(worldStart) != worldStart {
			t.Errorf("ahead by %v: the slot is %v now", ahead, r.taken(worldStart))
		}
	}
}

// A host that looks puts back what the store has lost, also if it has nothing else to write.
func TestALookPutsBackWhatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memoryStore{}
		on := func(name string) *share {
			s := newShare(store, "j", func() (string, string) { return name, name })
			s.define(&Job{Name: "j", Schedule: every(t, time.Hour, 0), Regions: worldRing})
			return s
		}
		a := on("a")
		must(t, a.pause(t.Context(), "root", "", 0))
		store.values = nil
		lookAll(t.Context(), store, []*share{a})
		if found, err := decodeShared(store.values[a.key()]); err != nil || found.Paused.Is == nil {
			t.Errorf("the store has %+v, %v", found, err)
		}
		must(t, a.setMark(t.Context(), "B", "", "page 3"))
		store.values = nil
		lookAll(t.Context(), store, []*share{a})
		b := on("b")
		if marks, err := b.readMarks(t.Context(), "B"); err != nil || marks["B"].Text != "page 3" {
			t.Errorf("another host finds the bookmarks %v, %v", marks, err)
		}
		lost := time.Now()
		got, err := b.claim(t.Context(), &claim{Run: "run", Slot: Latest(b.schedule, time.Now())})
		if err != nil || got.Skipped != Paused {
			t.Errorf("another host claims %+v, %v", got, err)
		}
		if waited := time.Since(lost); waited < lossTime {
			t.Errorf("it waits %v for what other hosts know", waited)
		}
	})
}

// An overtakenStore lets another host come first with the next swap, whose answer it loses.
type overtakenStore struct {
	*memoryStore
	first func()
}

func (s *overtakenStore) SwapRecord(ctx context.Context, keys []string, read []byte, values [][]byte, notAfter time.Time) (bool, []byte, time.Time, error) {
	if first := s.first; first != nil {
		s.first = nil
		first()
		_, _, _, _ = s.memoryStore.SwapRecord(ctx, keys, read, values, notAfter)
		return false, nil, time.Time{}, quota.ErrOutcomeUnknown
	}
	return s.memoryStore.SwapRecord(ctx, keys, read, values, notAfter)
}

// Two hosts that make the same of a record know whose swap it was.
func TestASwapIsNotTakenForAnothers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &overtakenStore{memoryStore: &memoryStore{}}
		a := newShare(store, "j", func() (string, string) { return "a", "a" })
		b := newShare(store.memoryStore, "j", func() (string, string) { return "b", "b" })
		store.first = func() {
			if err := b.setMark(t.Context(), "B", "", "of b"); err != nil {
				t.Error(err)
			}
		}
		must(t, a.setMark(t.Context(), "B", "", "of a"))
		if marks, err := b.readMarks(t.Context(), "B"); err != nil || marks["B"].Text != "of a" {
			t.Errorf("a host was told that its bookmark is written, another one reads %v, %v", marks, err)
		}
	})
}

// What a host puts back replaces nothing that has been written meanwhile.
func TestABookmarkThatIsPutBackIsNotTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &overtakenStore{memoryStore: &memoryStore{}}
		a := newShare(store, "j", func() (string, string) { return "a", "a" })
		b := newShare(store.memoryStore, "j", func() (string, string) { return "b", "b" })
		must(t, a.setMark(t.Context(), "B", "", "old"))
		store.values = nil
		time.Sleep(time.Second)
		store.first = func() {
			if err := b.setMark(t.Context(), "B", "", "new"); err != nil {
				t.Error(err)
			}
		}
		for _, s := range []*share{a, b} {
			if marks, err := s.readMarks(t.Context(), "B"); err != nil || marks["B"].Text != "new" {
				t.Errorf("got %v, %v, want the newer bookmark", marks, err)
			}
		}
	})
}

// A steppedStore has a clock that may be set.
type steppedStore struct {
	*memoryStore
	ahead time.Duration
}

func (s *steppedStore) ReadRecords(ctx context.Context, keys []string) ([][]byte, []time.Time, error) {
	values, clocks, err := s.memoryStore.ReadRecords(ctx, keys)
	for i := range clocks {
		clocks[i] = clocks[i].Add(s.ahead)
	}
	return values, clocks, err
}

// A host that lost a lease has as long to renew it as another one waits, however the clock of the store is set.
func TestTheSecondReadingIsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &steppedStore{memoryStore: &memoryStore{}}
		on := func(name string) *share {
			s := newShare(store, "j", func() (string, string) { return name, name })
			s.define(&Job{Name: "j", Schedule: every(t, time.Hour, 0), Regions: worldRing})
			return s
		}
		a, b := on("a"), on("b")
		if _, err := a.claim(t.Context(), &claim{Run: "run", Slot: Latest(a.schedule, time.Now())}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(longestHold)
		look := func(after time.Duration) string {
			time.Sleep(after)
			lookAll(t.Context(), store, []*share{b})
			found, err := decodeShared(store.values[b.key()])
			must(t, err)
			return found.Run.Is.ID
		}
		look(0)
		store.ahead = time.Minute
		if look(time.Second) != "run" {
			t.Error("another host has taken the job a second after it had looked")
		}
		if look(longestHold/3) != "run" {
			t.Error("another host has taken the job, and the store may have been silent since it had looked")
		}
		if look(idleTime); look(idleTime) != "" {
			t.Error("the run of a silent host is not over")
		}
	})
}

// A run whose daemon was killed dies as that of another host does. The next one begins where this host knows it to
// have come, though the end of its last pass was not written.
func TestTheTurnOfARunWhoseDaemonWasKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memoryStore{}
		on := func() *share {
			s := newShare(store, "j", func() (string, string) { return "a", "a" })
			s.define(&Job{Name: "j", Schedule: every(t, time.Hour, 0), Regions: worldRing})
			return s
		}
		killed, next := on(), on()
		if _, err := killed.claim(t.Context(), &claim{Run: "run", Slot: Latest(killed.schedule, time.Now())}); err != nil {
			t.Fatal(err)
		}
		next.recall(killed.known, nil, &owed{sharedProgress{Turn: turn{Cursor: "B"}}, sharedRun{ID: "run", Why: Died}, false})
		for range 10 {
			time.Sleep(idleTime)
			lookAll(t.Context(), store, []*share{next})
		}
		found, err := decodeShared(store.values[next.key()])
		if err != nil || found.Run.Is.ID != "" || found.Last.Is.Why != Died || found.Turn.Is.Cursor != "B" {
			t.Errorf("got %+v, %v, want that the run died, and that B is next", found, err)
		}
	})
}
