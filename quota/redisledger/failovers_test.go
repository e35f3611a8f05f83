package redisledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"quotad/quota/redisledger"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
)

// TestOrderedFailovers has Sentinels replace the master while hosts spend, as often as QUOTAD_TEST_LONG says, without
// and with min-replicas-to-write. Without it the old master takes writes until the last Sentinel announces the new
// one, and units may be granted twice: how many is logged. With it, never.
func TestOrderedFailovers(t *testing.T) {
	t.Parallel()
	rounds := seedtest.Long(t, 2)
	for _, replicas := range []string{"0", "1"} {
		t.Run("min-replicas-to-write "+replicas, func(t *testing.T) {
			t.Parallel()
			w := redistest.StartSentinels(t, 3, 2, "--min-replicas-to-write", replicas, "--min-replicas-max-lag", "2")
			var addrs []string
			for _, s := range w.Sentinels {
				addrs = append(addrs, s.Addr)
			}
			times, most := 0, int64(0)
			for round := range rounds {
				w.Settled(t)
				var configs []redisledger.Config
				for i := range 2 {
					// Each host asks another Sentinel first: they learn of the new master at different times.
					own := slices.Concat(addrs[i:], addrs[:i])
					prefix := fmt.Sprintf("round%d:", round)
					configs = append(configs, redisledger.Config{Addrs: own, MasterName: w.Name, KeyPrefix: prefix})
				}
				s := newSpreeOf(t, 1200, configs...)
				s.spent(300)
				begun := time.Now()
				w.Failover(t)
				bound := int64(1200)
				if replicas != "0" {
					bound = 0
				}
				over := s.full(fmt.Sprintf("failover %d", round+1), bound)
				t.Logf("all was spent %v after the order", time.Since(begun).Round(10*time.Millisecond))
				if over > 0 {
					times, most = times+1, max(most, over)
				}
				for _, h := range s.hosts {
					h.stop()
				}
			}
			t.Logf("over in %d of %d failovers, by %d at most", times, rounds, most)
		})
	}
}
