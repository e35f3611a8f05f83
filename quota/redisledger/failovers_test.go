package redisledger_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
	"quotad/quota/slidinglog"
)

// A burst is what callers were granted in a window that is full all the time.
type burst struct {
	mu       sync.Mutex // guards the rest
	at       []int64    // the times of the grants, in ms of the logs
	failedAt time.Time  // when a call got no decision last
}

const (
	burstUnits  = 60
	burstWindow = 2 * time.Second
)

// most returns the most that one window held.
func (b *burst) most() (most int) {
	slices.Sort(b.at)
	from := 0
	for to := range b.at {
		for b.at[to]-b.at[from] >= burstWindow.Milliseconds() {
			from++
		}
		most = max(most, to-from+1)
	}
	return most
}

// ask acquires until ctx ends.
func (b *burst) ask(ctx context.Context, h *daemon) {
	for ctx.Err() == nil {
		d, err := h.service.Acquire(context.Background(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1})
		b.mu.Lock()
		if err != nil {
			b.failedAt = time.Now()
		} else if d.Granted() {
			_, id, _ := quota.ParseGrantID(d.GrantID)
			b.at = append(b.at, id.Ms)
		}
		b.mu.Unlock()
		if err != nil || !d.Granted() {
			time.Sleep(5 * time.Millisecond) // as a caller would
		}
	}
}

// TestOrderedFailovers has Sentinels replace the master while hosts spend, as often as
// QUOTAD_TEST_LONG says, without and with min-replicas-to-write. Without it the old master takes writes
// until the last Sentinel announces the new one, and a window may be granted twice. With it, never.
func TestOrderedFailovers(t *testing.T) {
	rounds := seedtest.OnlyLong(t, "failovers")
	for _, replicas := range []string{"0", "1"} {
		t.Run("min-replicas-to-write "+replicas, func(t *testing.T) {
			w := redistest.StartSentinels(t, 3, 2, "--min-replicas-to-write", replicas, "--min-replicas-max-lag", "2")
			var addrs []string
			for _, s := range w.Sentinels {
				addrs = append(addrs, s.Addr)
			}
			over := 0
			for round := range rounds {
				w.Settled(t)
				var hosts []*daemon
				for i := range 2 {
					// Each host asks another Sentinel first: they hear of the new master at different times.
					own := slices.Concat(addrs[i:], addrs[:i])
					h := beginOn(t, redisledger.Config{Addrs: own, MasterName: w.Name, KeyPrefix: fmt.Sprintf("round%d:", round), Deadline: time.Second}, fmt.Sprint(i), t.TempDir(), "")
					c := youtube()
					c.Limits = []quota.Limit{{Name: "burst", Units: burstUnits, Window: quota.Sliding(burstWindow)}}
					h.configure(c, slidinglog.Policy{})
					hosts = append(hosts, h)
				}
				for _, h := range hosts {
					h.serves()
				}
				ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
				var b burst
				var asking sync.WaitGroup
				for _, h := range hosts {
					for range 4 {
						asking.Go(func() { b.ask(ctx, h) })
					}
				}
				time.Sleep(burstWindow)
				ordered := time.Now()
				w.Failover(t)
				asking.Wait()
				cancel()
				most, away := b.most(), max(0, b.failedAt.Sub(ordered))
				if most > burstUnits {
					over++
				}
				t.Logf("round %d: %d granted, at most %d of %d in a window, ready after %v", round+1, len(b.at), most, burstUnits, away.Round(time.Millisecond))
				for _, h := range hosts {
					h.stop()
				}
			}
			t.Logf("over in %d of %d failovers", over, rounds)
			if replicas != "0" && over > 0 {
				t.Errorf("a window was granted twice in %d of %d failovers", over, rounds)
			}
		})
	}
}
