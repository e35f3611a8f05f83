package jobs

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"quotad/regions"
)

// twoHosts are hosts of one job, each with its own way to the store.
type twoHosts struct {
	store memoryStore
	ways  [2]*hostStore
	beds  [2]*bed
}

// A hostStore is the store as a host sees it.
type hostStore struct {
	*memoryStore
	cut atomic.Bool // it cannot be reached
}

func (s *hostStore) of() *memoryStore {
	if s.cut.Load() {
		away := &memoryStore{}
		away.away.Store(true)
		return away
	}
	return s.memoryStore
}

func (s *hostStore) ReadRecords(ctx context.Context, keys []string) ([][]byte, []time.Time, error) {
	return s.of().ReadRecords(ctx, keys)
}

func (s *hostStore) SwapRecord(ctx context.Context, keys []string, read []byte, values [][]byte, notAfter time.Time) (bool, []byte, time.Time, error) {
	return s.of().SwapRecord(ctx, keys, read, values, notAfter)
}

func withTwoHosts(t *testing.T, job *Job, test func(h *twoHosts)) {
	t.Helper()
	inBubble(t, func(t *testing.T, dir string) {
		h := &twoHosts{}
		for i, name := range []string{"a", "b"} {
			h.ways[i] = &hostStore{memoryStore: &h.store}
			h.beds[i] = newHost(t, dir+"-"+name, h.ways[i], name, job)
			h.beds[i].Start(t.Context())
		}
		time.Sleep(lossTime)
		test(h)
		for _, b := range h.beds {
			b.stop()
		}
	})
}

// tick has both hosts tick the next hour.
func (h *twoHosts) tick() {
	slot := time.Now().Truncate(time.Hour).Add(time.Hour)
	time.Sleep(time.Until(slot))
	for _, b := range h.beds {
		b.Tick("trending", slot.UTC())
	}
	synctest.Wait()
}

// passes returns how many passes of each region the hosts have launched.
func (h *twoHosts) count() map[string]*atomic.Int32 {
	counts := map[string]*atomic.Int32{}
	for _, region := range eight() {
		counts[string(region)] = new(atomic.Int32)
	}
	for _, b := range h.beds {
		play := b.play
		b.play = func(ctx context.Context, p played) Exit {
			counts[p.region].Add(1)
			return play(ctx, p)
		}
	}
	return counts
}

// Each slot is run by one host, from where the run before on any host stopped; a pause, a cursor and a
// bookmark that are set on one host hold on both.
func TestHostsShareAJob(t *testing.T) {
	job := trendingIn(t, 3)
	job.Stagger = 0
	withTwoHosts(t, job, func(h *twoHosts) {
		a, b := h.beds[0], h.beds[1]
		counts := h.count()
		for range 3 {
			h.tick()
			time.Sleep(time.Minute)
		}
		if counts["US"].Load() != 3 || counts["GB"].Load() != 3 || counts["DE"].Load() != 3 {
			t.Errorf("got %d, %d and %d passes, want each region three times", counts["US"].Load(), counts["GB"].Load(), counts["DE"].Load())
		}
		must(t, a.SetCursor("trending", "DE"))
		must(t, b.SetBookmark("trending", "DE", "", "page 5"))
		seen := ""
		for _, bed := range h.beds {
			play := bed.play
			bed.play = func(ctx context.Context, p played) Exit {
				for _, entry := range p.Env {
					if entry == "QUOTAD_BOOKMARK=page 5" {
						seen += p.region
					}
				}
				return play(ctx, p)
			}
		}
		h.tick()
		time.Sleep(time.Minute)
		for _, bed := range h.beds {
			if last := bed.status().Last; last != nil && last.Slot.Hour() == 14 && last.Ring[0] != "DE" {
				t.Errorf("got a run of %v, want it to begin at DE", last.Ring)
			}
		}
		if seen != "DE" {
			t.Errorf("got the bookmark in %q, want it in the pass of DE", seen)
		}
		for _, bed := range h.beds { // that work is done
			if text, err := bed.Bookmark("trending", "DE"); err != nil || text != "" {
				t.Errorf("got the bookmark %q, %v, want none after a pass that ended well", text, err)
			}
		}
		must(t, b.Pause("trending", "root", "", 0))
		h.tick()
		time.Sleep(time.Minute)
		if a.status().Pause == nil || counts["US"].Load() != 4 {
			t.Errorf("got %+v and %d passes, want no run while the job is paused", a.status().Pause, counts["US"].Load())
		}
		must(t, a.Resume("trending"))
		h.tick()
		time.Sleep(time.Minute)
		if counts["US"].Load() != 5 {
			t.Errorf("got %d passes, want one more after the job was resumed", counts["US"].Load())
		}
	})
}

// A run whose host dies is over for the other one soon, which names it and runs the next slot from where
// that one was.
func TestAHostThatDiesLosesItsRun(t *testing.T) {
	job := trendingIn(t, 3)
	job.Stagger = 0
	withTwoHosts(t, job, func(h *twoHosts) {
		dead, other := 0, 1
		for i, b := range h.beds {
			b.play = func(ctx context.Context, p played) Exit {
				if p.region == "GB" {
					dead, other = i, 1-i
					<-ctx.Done()
					return Exit{Code: -1, Cause: context.Cause(ctx)}
				}
				return Exit{}
			}
		}
		h.tick()
		time.Sleep(time.Second)
		h.ways[dead].cut.Store(true)
		b := h.beds[other]
		b.forget()
		b.play = func(context.Context, played) Exit { return Exit{} }
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if len(b.log) != 1 || !strings.HasSuffix(b.log[0], "run interrupted (died)") {
			t.Errorf("got %q, want that the run died", b.log)
		}
		if got := b.status().Cursor; got != regions.Cursor("GB") {
			t.Errorf("the cursor is at %s, want it at the region that was under way", got)
		}
		h.tick()
		time.Sleep(time.Minute)
		if got := b.status().Last; got == nil || got.State != RunDone || got.Ring[0] != "GB" {
			t.Errorf("got %+v, want a run from GB on", got)
		}
	})
}

// A run that a person began has no slot. Of one whose host died the others do not say that it took centuries.
func TestAManualRunOfADeadHost(t *testing.T) {
	job := trendingIn(t, 1)
	withTwoHosts(t, job, func(h *twoHosts) {
		a, b := h.beds[0], h.beds[1]
		a.play = func(ctx context.Context, _ played) Exit {
			<-ctx.Done()
			return Exit{Code: -1, Cause: context.Cause(ctx)}
		}
		if _, err := a.Runner.Run("trending", "somebody"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		h.ways[0].cut.Store(true)
		asked := time.Now()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.died) != 1 || b.died[0].StartedAt.Before(asked) || b.died[0].Slot.Before(asked) {
			t.Errorf("got %+v, want one run of today", b.died)
		}
	})
}

// A run that ends while Redis is away, or by a stop, is over for the hosts as soon as its host is back.
func TestTheEndOfARunOutlivesItsDaemon(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		store := &memoryStore{}
		job := trendingIn(t, 2)
		job.Stagger = 0
		b := newHost(t, dir, store, "a", job)
		b.play = func(_ context.Context, p played) Exit {
			store.away.Store(true)
			return Exit{Code: map[string]int{"GB": 1}[p.region]}
		}
		b.Start(t.Context())
		time.Sleep(lossTime)
		b.run()
		b.stop()
		for range 2 { // once more without Redis
			b = newHost(t, dir, store, "a", job)
			b.Start(t.Context())
			time.Sleep(time.Second)
			b.stop()
		}
		store.away.Store(false)
		b = newHost(t, dir, store, "a", job)
		b.Start(t.Context())
		time.Sleep(time.Second)
		var record sharedRecord
		if err := json.Unmarshal(store.values["{job:trending}"], &record); err != nil || record.Run.Is.ID != "" || record.Last.Is.ID == "" || record.Last.Is.Why == Died {
			t.Errorf("got %+v, %v, want that the run is over, as it ended", record, err)
		}
		if bad := record.Bad.Is; len(bad) != 1 || bad[0].Region != "GB" || bad[0].Times != 1 {
			t.Errorf("got %+v, want that GB fails", bad)
		}
	})
}

// A run whose host cannot renew its lease launches nothing more until it can.
func TestARunWithoutTheStore(t *testing.T) {
	job := trendingIn(t, 3)
	job.Stagger = 10 * time.Minute
	withTwoHosts(t, job, func(h *twoHosts) {
		counts := h.count()
		h.tick()
		time.Sleep(time.Minute)
		h.store.away.Store(true)
		time.Sleep(15 * time.Minute)
		if counts["US"].Load() != 1 || counts["GB"].Load() != 0 {
			t.Errorf("got %d and %d passes, want none while the lease is over", counts["US"].Load(), counts["GB"].Load())
		}
		h.store.away.Store(false)
		time.Sleep(10 * time.Minute)
		if counts["US"].Load() != 1 || counts["GB"].Load() != 1 || counts["DE"].Load() != 1 {
			t.Errorf("got %d, %d and %d passes, want the rest once it is renewed", counts["US"].Load(), counts["GB"].Load(), counts["DE"].Load())
		}
	})
}

// A host that comes back makes up for the last slot that no host ran, and names the others.
func TestCatchUpAmongHosts(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		store := &memoryStore{}
		job := trendingIn(t, 1)
		job.CatchUp = true
		b := newHost(t, dir, store, "a", job)
		b.Start(t.Context())
		b.run()
		b.stop()
		time.Sleep(4*time.Hour + 30*time.Minute + time.Second)
		b = newHost(t, dir, store, "a", job)
		b.Start(t.Context())
		time.Sleep(time.Minute)
		b.wants("16:30:00 run skipped (missed) ×4", "16:30:00 run running", "16:30:00 US running", "16:30:00 US ok", "16:30:00 run done")
	})
}

// A host whose clock is five minutes ahead does not run slots early, nor take them from the others.
func TestAHostWhoseClockIsAhead(t *testing.T) {
	job := trendingIn(t, 1)
	job.Schedule = every(t, 10*time.Minute, 0)
	withTwoHosts(t, job, func(h *twoHosts) {
		a, b := h.beds[0], h.beds[1]
		b.ahead.Store(int64(5 * time.Minute))
		counts := h.count()
		time.Sleep(time.Until(time.Now().Truncate(10 * time.Minute).Add(15 * time.Minute))) // 11:05, and 11:10 there
		for range 3 {
			b.Tick("trending", b.now().Truncate(10*time.Minute))
			time.Sleep(5*time.Minute - time.Second)
			synctest.Wait()
			if n := counts["US"].Load(); n > 0 {
				t.Errorf("got %d passes before the slot", n)
			}
			time.Sleep(time.Second)
			a.Tick("trending", a.now().Truncate(10*time.Minute))
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			if n := counts["US"].Load(); n != 1 {
				t.Errorf("got %d passes of the slot, want one", n)
			}
			counts["US"].Store(0)
		}
	})
}
