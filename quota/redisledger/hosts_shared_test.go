package redisledger

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
)

// hosts is a number of hosts that share a Redis whose clock the test sets.
type hosts struct {
	t    *testing.T
	now  time.Time
	set  func(ms int64)
	each []Hosts
}

func newHosts(t *testing.T, n int) *hosts {
	t.Helper()
	config := Config{Addrs: []string{redistest.Start(t).Addr}, KeyPrefix: "hosts:"}
	client := connect(t, config)
	h := &hosts{t: t, now: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)}
	h.set = func(ms int64) {
		if err := client.Set(context.Background(), "clock", ms, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for range n {
		l, err := openStore(config, onClock(t, clockOfServer))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		h.each = append(h.each, l.Hosts())
	}
	h.pass(0)
	return h
}

// pass lets time pass on Redis' clock.
func (h *hosts) pass(d time.Duration) {
	h.now = h.now.Add(d)
	h.set(h.now.UnixMilli())
}

// wantClaim has a host claim a slot, for an hour after it.
func (h *hosts) wantClaim(host int, claimant string, slot time.Time, want bool) (before time.Time) {
	h.t.Helper()
	mine, before, err := h.each[host].Claim(h.t.Context(), "trending", claimant, slot, time.Hour, "")
	if err != nil || mine != want {
		h.t.Errorf("%s claims %v: got %v, %v, want %v", claimant, slot, mine, err, want)
	}
	return before
}

func TestASlotIsClaimedOnce(t *testing.T) {
	t.Parallel()
	h := newHosts(t, 2)
	slot := h.now
	if before := h.wantClaim(0, "a", slot, true); !before.IsZero() {
		t.Errorf("got %v as the slot before the first one", before)
	}
	h.wantClaim(1, "b", slot, false)
	h.wantClaim(0, "a", slot, true) // it did not hear of it
	h.wantClaim(0, "c", slot, false)
	next := slot.Add(30 * time.Minute)
	if before := h.wantClaim(1, "d", next, true); !before.Equal(slot) {
		t.Errorf("got %v as the slot before, want %v", before, slot)
	}
	// A claim that comes late does not make the newer one forgotten.
	h.wantClaim(0, "e", slot.Add(10*time.Minute), true)
	if before := h.wantClaim(0, "f", next.Add(time.Minute), true); !before.Equal(next) {
		t.Errorf("got %v as the slot before, want %v", before, next)
	}
}

// The claim expires with the time in which it could be made: nobody can be told
// that a slot is free because it was forgotten who had it.
func TestASlotIsNotClaimedTooLate(t *testing.T) {
	t.Parallel()
	h := newHosts(t, 1)
	slot := h.now
	h.wantClaim(0, "a", slot, true)
	h.pass(time.Hour - time.Millisecond)
	h.wantClaim(0, "b", slot, false)
	h.pass(time.Millisecond)
	mine, _, err := h.each[0].Claim(t.Context(), "trending", "d", slot, time.Hour, "")
	if mine || err == nil || errors.Is(err, quota.ErrUnavailable) {
		t.Errorf("got %v, %v, want an error about the clock", mine, err)
	}
}

// A host whose clock is ahead claims slots too early, and they are run once all
// the same; it does not make others believe that none was missed.
func TestAClaimFromTheFuture(t *testing.T) {
	t.Parallel()
	h := newHosts(t, 2)
	tomorrow := h.now.Add(24 * time.Hour)
	h.wantClaim(0, "a", tomorrow, true)
	h.wantClaim(1, "b", h.now, true)
	h.pass(30 * time.Minute)
	if before := h.wantClaim(1, "c", h.now, true); !before.Equal(h.now.Add(-30 * time.Minute)) {
		t.Errorf("got %v as the slot before", before)
	}
	h.pass(24*time.Hour - 30*time.Minute)
	h.wantClaim(1, "d", tomorrow, false)
}

func TestManyHostsClaimManySlots(t *testing.T) {
	t.Parallel()
	h := newHosts(t, 3)
	var claims sync.WaitGroup
	var mu sync.Mutex
	winners := map[int64][]string{}
	for i, one := range h.each {
		claims.Go(func() {
			for n := range 200 {
				slot := h.now.Add(time.Duration(n) * time.Second)
				claimant := string(rune('a' + i))
				mine, _, err := one.Claim(t.Context(), "trending", claimant, slot, time.Hour, "")
				if err != nil {
					t.Error(err)
				}
				if mine {
					mu.Lock()
					winners[slot.Unix()] = append(winners[slot.Unix()], claimant)
					mu.Unlock()
				}
			}
		})
	}
	claims.Wait()
	for slot, of := range winners {
		if len(of) != 1 {
			t.Errorf("slot %d was claimed by %q", slot, of)
		}
	}
	if len(winners) != 200 {
		t.Errorf("%d slots were claimed, want 200", len(winners))
	}
}

func (h *hosts) wantLock(host int, holder string, want time.Duration) {
	h.t.Helper()
	left, lapsed, taken, err := h.each[host].Lock(h.t.Context(), "trending", holder, 10*time.Second, "", time.Time{})
	if err != nil || left != want || lapsed != "" || taken {
		h.t.Errorf("%s locks the job: got %v, %q, %v, want %v", holder, left, lapsed, err, want)
	}
}

func (h *hosts) wantAppend(host int, holder string, length time.Duration, want bool, parts map[string]string, lines ...string) {
	h.t.Helper()
	if held, err := h.each[host].Append(h.t.Context(), "trending", holder, length, parts, lines); err != nil || held != want {
		h.t.Errorf("%s appends %q: got %v, %v, want %v", holder, parts, held, err, want)
	}
}

// wantLoad has each host read on behind the line named after.
func (h *hosts) wantLoad(after, holder string, parts map[string]string, lines ...string) (last string) {
	h.t.Helper()
	for i, one := range h.each {
		got, by, more, name, err := one.Load(h.t.Context(), "trending", after)
		if err != nil || by != holder || !maps.Equal(got, parts) || !slices.Equal(more, lines) {
			h.t.Errorf("host %d loads %q and %q of %q, %v, want %q and %q of %q", i, got, more, by, err, parts, lines, holder)
		}
		last = name
	}
	return last
}

func TestAJobIsLockedByOne(t *testing.T) {
	t.Parallel()
	h := newHosts(t, 2)
	h.wantLoad("", "", nil)
	h.wantLock(0, "run1", 0)
	h.pass(4 * time.Second)
	h.wantLock(1, "run2", 6*time.Second)
	h.wantAppend(0, "run1", 10*time.Second, true, nil, "begun")
	h.pass(6 * time.Second)
	h.wantLock(1, "run2", 4*time.Second) // it has gone on
	last := h.wantLoad("", "run1", nil, "begun")
	h.wantAppend(0, "run1", 0, true, map[string]string{"turn": "FR"}, "passed", "ended")
	h.wantLoad(last, "", map[string]string{"turn": "FR"}, "passed", "ended")
	h.wantLoad("", "", map[string]string{"turn": "FR"}, "begun", "passed", "ended")
	h.wantLock(1, "run2", 0) // it has given it back
}

// A run begins with the claim of its slot, which is only for who holds the job. Then
// nobody holds it for that slot any more.
func TestARunBeginsWithItsSlot(t *testing.T) {
	t.Parallel()
	h := newHosts(t, 2)
	slot := h.now
	begin := func(host int, run string, want bool) {
		t.Helper()
		mine, _, err := h.each[host].Claim(t.Context(), "trending", run, slot, time.Hour, run+" begun")
		if err != nil || mine != want {
			t.Errorf("%s begins: got %v, %v, want %v", run, mine, err, want)
		}
	}
	wantTaken := func(host int, run string, want bool) {
		t.Helper()
		_, _, taken, err := h.each[host].Lock(t.Context(), "trending", run, 10*time.Second, "", slot)
		if err != nil || taken != want {
			t.Errorf("%s locks the job for the slot: got %v, %v, want taken %v", run, taken, err, want)
		}
	}
	begin(0, "run1", false) // without the lock
	wantTaken(0, "run1", false)
	wantTaken(1, "run2", false) // it is busy, and nobody has the slot yet
	begin(1, "run2", false)
	begin(0, "run1", true)
	begin(0, "run1", true) // it did not hear of it
	wantTaken(0, "run1", false)
	wantTaken(1, "run2", true)
	h.wantLoad("", "run1", nil, "run1 begun")
	h.wantAppend(0, "run1", 0, true, nil)
	wantTaken(1, "run2", true)
	begin(1, "run2", false)
	h.wantLock(1, "run2", 0) // for another slot
}

// A host that dies locks nothing for longer than it said. Another one watches the lock
// first: its holder may come back. What a holder says after another one has taken the
// job moves nothing; what became of its own run is known all the same.
func TestAHolderThatWasAway(t *testing.T) {
	t.Parallel()
	h := newHosts(t, 2)
	h.wantLock(0, "run1", 0)
	h.pass(10*time.Second - time.Millisecond)
	h.wantLock(1, "run2", time.Millisecond)
	h.pass(time.Millisecond)
	lapsed := h.wantLapsed(1, "run2", "")
	h.wantAppend(0, "run1", 10*time.Second, true, map[string]string{"turn": "GB"}) // it comes back
	h.wantLock(1, "run2", 10*time.Second)
	h.pass(20 * time.Second)
	lapsed = h.wantLapsed(1, "run2", lapsed) // another time
	if left, again, _, err := h.each[1].Lock(t.Context(), "trending", "run2", 10*time.Second, lapsed, time.Time{}); err != nil || left != 0 || again != "" {
		t.Errorf("got %v, %q, %v, want the lock", left, again, err)
	}
	h.wantAppend(1, "run2", 0, true, map[string]string{"turn": "DE"})
	h.wantAppend(0, "run1", 10*time.Second, false, map[string]string{"turn": "FR"}, "ended")
	h.wantLoad("", "", map[string]string{"turn": "DE"}, "ended")
	h.wantAppend(0, "", 0, true, map[string]string{"pause": "…"}) // anybody's
	h.wantLoad("", "", map[string]string{"turn": "DE", "pause": "…"}, "ended")
}

func (h *hosts) wantLapsed(host int, holder, watched string) (lapsed string) {
	h.t.Helper()
	_, lapsed, _, err := h.each[host].Lock(h.t.Context(), "trending", holder, 10*time.Second, watched, time.Time{})
	if err != nil || lapsed == "" || lapsed == watched {
		h.t.Errorf("%s locks the job: got %q, %v, want it to watch first", holder, lapsed, err)
	}
	return lapsed
}

// Lines are read in order, however many there are, and only so many are kept.
func TestManyLines(t *testing.T) {
	t.Parallel()
	h := newHosts(t, 1)
	var want []string
	for i := range 3 * linesRead / 2 {
		want = append(want, strconv.Itoa(i))
	}
	h.wantAppend(0, "", 0, true, nil, want...)
	h.wantLoad("", "", nil, want...)
	for range 8 {
		h.wantAppend(0, "", 0, true, nil, want...)
	}
	_, _, lines, _, err := h.each[0].Load(t.Context(), "trending", "")
	if err != nil || len(lines) < linesKept || len(lines) > linesKept+200 {
		t.Errorf("%d lines are kept, %v, want about %d", len(lines), err, linesKept)
	}
}

// What a job leaves in Redis expires by itself, and is of no other job.
func TestNothingOfAJobStaysForEver(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l, err := openStore(Config{Addrs: []string{server.Addr}}, guarded(t, clockOfServer))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	server.Do(t, "SET", "clock", "1000000")
	f := l.Hosts()
	slot := time.UnixMilli(1_000_000)
	for _, job := range []string{"trending", "channels"} {
		if _, _, _, err := f.Lock(t.Context(), job, "a", time.Second, "", slot); err != nil {
			t.Error(err)
		}
	}
	if mine, _, err := f.Claim(t.Context(), "trending", "a", slot, time.Hour, "a run"); err != nil || !mine {
		t.Error(mine, err)
	}
	if _, err := f.Append(t.Context(), "videos", "", 0, map[string]string{"pause": "null"}, []string{"a run"}); err != nil {
		t.Error(err)
	}
	for _, job := range []string{"trending", "channels", "videos"} {
		if _, _, _, _, err := f.Load(t.Context(), job, ""); err != nil {
			t.Error(err)
		}
	}
	var keys []string
	for _, key := range server.Do(t, "KEYS", "quotad:*").([]any) {
		keys = append(keys, key.(string))
		if left := server.Do(t, "PTTL", key.(string)).(int64); left <= 0 || left > stateKept.Milliseconds() {
			t.Errorf("key %v expires in %d ms", key, left)
		}
	}
	slices.Sort(keys)
	want := []string{"quotad:{job:channels}:state", "quotad:{job:trending}:runs", "quotad:{job:trending}:slot:1000000", "quotad:{job:trending}:state", "quotad:{job:videos}:runs", "quotad:{job:videos}:state"}
	if !slices.Equal(keys, want) {
		t.Errorf("got the keys %q, want %q", keys, want)
	}
}

func TestHostsThatCannotBeReached(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l, err := OpenStore(Config{Addrs: []string{server.Addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	server.Kill()
	if _, _, err := l.Hosts().Claim(t.Context(), "trending", "a", time.Now(), time.Hour, ""); !errors.Is(err, quota.ErrUnavailable) {
		t.Errorf("got %v, want %v", err, quota.ErrUnavailable)
	}
	server.Run(t)
	if err := server.Freeze(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, _, err := l.Hosts().Lock(ctx, "trending", "a", time.Second, "", time.Time{}); err == nil {
		t.Error("a frozen Redis gave a job away")
	}
	if err := server.Thaw(); err != nil {
		t.Fatal(err)
	}
}
