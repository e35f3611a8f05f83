package redisledger_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/slidinglog"
)

// BenchmarkHosts has hosts in one process spend from one credential without a pause.
//
//	go test -run - -bench Hosts -benchtime 1x -v ./quota/redisledger
func BenchmarkHosts(b *testing.B) {
	for _, size := range []struct{ hosts, callers int }{{1, 1}, {1, 32}, {2, 1}, {4, 1}, {4, 32}} {
		b.Run(fmt.Sprintf("%dx%d", size.hosts, size.callers), func(b *testing.B) {
			server := redistest.Start(b)
			plenty := youtube()
			plenty.Limits[0].Units = 1 << 40
			hosts := make([]*daemon, size.hosts)
			for i := range hosts {
				hosts[i] = start(b, server, fmt.Sprint("h", i), b.TempDir())
				hosts[i].configure(plenty, slidinglog.Policy{})
			}
			for b.Loop() {
				saturate(b, hosts, size.callers)
			}
		})
	}
}

// saturate reports grants a second, the median of all calls, and the worst host's p99.
func saturate(b *testing.B, hosts []*daemon, callers int) {
	const length = 3 * time.Second
	var calls sync.WaitGroup
	var grants, contended atomic.Int64
	took := make([][]time.Duration, len(hosts)*callers)
	until := time.Now().Add(length)
	for i := range took {
		calls.Go(func() {
			for time.Now().Before(until) {
				began := time.Now()
				_, err := hosts[i%len(hosts)].service.Acquire(b.Context(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1})
				took[i] = append(took[i], time.Since(began))
				if err != nil {
					contended.Add(1)
				} else {
					grants.Add(1)
				}
			}
		})
	}
	calls.Wait()
	var all []time.Duration
	worst := time.Duration(0)
	for h := range hosts {
		var its []time.Duration
		for i := h; i < len(took); i += len(hosts) {
			its = append(its, took[i]...)
		}
		slices.Sort(its)
		worst = max(worst, its[len(its)*99/100])
		all = append(all, its...)
	}
	slices.Sort(all)
	b.ReportMetric(float64(grants.Load())/length.Seconds(), "grants/s")
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "µs/p50")
	b.ReportMetric(float64(worst.Microseconds()), "µs/worst-p99")
	b.ReportMetric(float64(contended.Load()), "refused")
	b.ReportMetric(0, "ns/op")
}
