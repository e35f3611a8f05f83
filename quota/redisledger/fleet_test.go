package redisledger

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"quotad/lua"
	"quotad/quota"
	"quotad/quota/redisledger/redistest"
)

// hosts is a number of fleets that share a Redis whose clock the test sets.
type hosts struct {
	t     *testing.T
	now   time.Time
	set   func(ms int64)
	fleet []Fleet
}

func newHosts(t *testing.T, n int) *hosts {
	t.Helper()
	config := Config{Addrs: []string{redistest.Start(t).Addr}, Daemon: "test", KeyPrefix: "fleet:"}
	client := connect(t, config)
	h := &hosts{t: t, now: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)}
	h.set = func(ms int64) {
		if err := client.Set(context.Background(), "clock", ms, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for range n {
		l, err := open(config, lua.AllOnTestClock("clock"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		h.fleet = append(h.fleet, l.Fleet())
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
	mine, before, err := h.fleet[host].Claim(h.t.Context(), "trending", claimant, slot, time.Hour)
	if err != nil || mine != want {
		h.t.Errorf("%s claims %v: got %v, %v, want %v", claimant, slot, mine, err, want)
	}
	return before
}

func TestASlotIsClaimedOnce(t *testing.T) {
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
	h := newHosts(t, 1)
	slot := h.now
	h.wantClaim(0, "a", slot, true)
	h.pass(time.Hour - time.Millisecond)
	h.wantClaim(0, "b", slot, false)
	h.pass(time.Millisecond)
	mine, _, err := h.fleet[0].Claim(t.Context(), "trending", "d", slot, time.Hour)
	if mine || err == nil || errors.Is(err, quota.ErrUnavailable) {
		t.Errorf("got %v, %v, want an error about the clock", mine, err)
	}
}

// A host whose clock is ahead claims slots too early, and they are run once all
// the same; it does not make others believe that none was missed.
func TestAClaimFromTheFuture(t *testing.T) {
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
	h := newHosts(t, 3)
	var claims sync.WaitGroup
	var mu sync.Mutex
	winners := map[int64][]string{}
	for i, fleet := range h.fleet {
		claims.Go(func() {
			for n := range 200 {
				slot := h.now.Add(time.Duration(n) * time.Second)
				claimant := string(rune('a' + i))
				mine, _, err := fleet.Claim(t.Context(), "trending", claimant, slot, time.Hour)
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

func (h *hosts) wantHold(host int, holder string, want time.Duration) {
	h.t.Helper()
	if left, err := h.fleet[host].Hold(h.t.Context(), "trending", holder, 10*time.Second); err != nil || left != want {
		h.t.Errorf("%s holds the job: got %v, %v, want %v", holder, left, err, want)
	}
}

func (h *hosts) wantSave(host int, holder string, length time.Duration, want bool, parts map[string]string) {
	h.t.Helper()
	if held, err := h.fleet[host].Save(h.t.Context(), "trending", holder, length, parts); err != nil || held != want {
		h.t.Errorf("%s saves %q: got %v, %v, want %v", holder, parts, held, err, want)
	}
}

func (h *hosts) wantLoad(holder string, parts map[string]string) {
	h.t.Helper()
	for i, fleet := range h.fleet {
		got, by, err := fleet.Load(h.t.Context(), "trending")
		if err != nil || by != holder || !maps.Equal(got, parts) {
			h.t.Errorf("host %d loads %q of %q, %v, want %q of %q", i, got, by, err, parts, holder)
		}
	}
}

func TestAJobIsHeldByOne(t *testing.T) {
	h := newHosts(t, 2)
	h.wantLoad("", map[string]string{})
	h.wantHold(0, "run1", 0)
	h.pass(4 * time.Second)
	h.wantHold(1, "run2", 6*time.Second)
	h.wantSave(0, "run1", 10*time.Second, true, nil)
	h.pass(6 * time.Second)
	h.wantHold(1, "run2", 4*time.Second) // it has gone on
	h.wantLoad("run1", map[string]string{})
	h.wantSave(0, "run1", 0, true, map[string]string{"turn": "FR"})
	h.wantLoad("", map[string]string{"turn": "FR"})
	h.wantHold(1, "run2", 0) // it has let go
}

// A host that dies holds nothing for longer than it said, and what it says after
// another one has taken the job is not heard.
func TestAHolderThatWasAway(t *testing.T) {
	h := newHosts(t, 2)
	h.wantHold(0, "run1", 0)
	h.pass(10*time.Second - time.Millisecond)
	h.wantHold(1, "run2", time.Millisecond)
	h.pass(time.Millisecond)
	h.wantSave(0, "run1", 10*time.Second, true, map[string]string{"turn": "GB"}) // nobody has taken it
	h.pass(10 * time.Second)
	h.wantHold(1, "run2", 0)
	h.wantSave(1, "run2", 0, true, map[string]string{"turn": "DE"})
	h.wantSave(0, "run1", 10*time.Second, false, map[string]string{"turn": "FR"})
	h.wantLoad("", map[string]string{"turn": "DE"})
	h.wantSave(0, "", 0, true, map[string]string{"pause": "…"}) // anybody's
	h.wantLoad("", map[string]string{"turn": "DE", "pause": "…"})
}

// What a job leaves in Redis expires by itself, and is of no other job.
func TestNothingOfAFleetStaysForEver(t *testing.T) {
	server := redistest.StartReal(t)
	l, err := open(Config{Addrs: []string{server.Addr}, Daemon: "test"}, guarded(t, "clock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	server.Do(t, "SET", "clock", "1000000")
	f := l.Fleet()
	if _, _, err := f.Claim(t.Context(), "trending", "a", time.UnixMilli(1_000_000), time.Hour); err != nil {
		t.Error(err)
	}
	if _, err := f.Hold(t.Context(), "channels", "a", time.Second); err != nil {
		t.Error(err)
	}
	if _, err := f.Save(t.Context(), "videos", "", 0, map[string]string{"pause": "null"}); err != nil {
		t.Error(err)
	}
	for _, job := range []string{"trending", "channels", "videos"} {
		if _, _, err := f.Load(t.Context(), job); err != nil {
			t.Error(err)
		}
	}
	var keys []string
	for _, key := range server.Do(t, "KEYS", "quotad:*").([]any) {
		keys = append(keys, key.(string))
		if left := server.Do(t, "PTTL", key.(string)).(int64); left <= 0 || left > deskKept.Milliseconds() {
			t.Errorf("key %v expires in %d ms", key, left)
		}
	}
	slices.Sort(keys)
	want := []string{"quotad:{job:channels}:desk", "quotad:{job:trending}:desk", "quotad:{job:trending}:slot:1000000", "quotad:{job:videos}:desk"}
	if !slices.Equal(keys, want) {
		t.Errorf("got the keys %q, want %q", keys, want)
	}
}

func TestAFleetThatCannotBeReached(t *testing.T) {
	server := redistest.StartReal(t)
	l, err := Open(Config{Addrs: []string{server.Addr}, Daemon: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	server.Kill()
	if _, _, err := l.Fleet().Claim(t.Context(), "trending", "a", time.Now(), time.Hour); !errors.Is(err, quota.ErrUnavailable) {
		t.Errorf("got %v, want %v", err, quota.ErrUnavailable)
	}
	server.Run(t)
	if err := server.Freeze(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := l.Fleet().Hold(ctx, "trending", "a", time.Second); err == nil {
		t.Error("a frozen Redis gave a job away")
	}
	if err := server.Thaw(); err != nil {
		t.Fatal(err)
	}
}
