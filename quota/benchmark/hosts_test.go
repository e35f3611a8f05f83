package benchmark

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/slidinglog"
)

const (
	ms       = time.Millisecond
	deadline = time.Second // of a call, which a busy machine meets too
)

// BenchmarkHosts measures acquires of four hosts from one credential, all goroutines of one process, and one of them
// perhaps away from Redis. The times of the worst host count. One iteration is five seconds:
//
//	go test -run - -bench Hosts -benchtime 1x
func BenchmarkHosts(b *testing.B) {
	for _, away := range []time.Duration{0, 10 * ms} {
		for _, callers := range []int{1, 8, 32} {
			b.Run(fmt.Sprintf("4x%d,one-%v-away", callers, away), func(b *testing.B) { measureHosts(b, away, callers) })
		}
	}
}

func measureHosts(b *testing.B, away time.Duration, callers int) {
	server := redistest.Start(b)
	hosts := make([]*host, 4)
	for i := range hosts {
		addr := server.Addr
		if i == 0 {
			addr = redistest.FarAway(b, server, away)
		}
		hosts[i] = startHost(b, addr, fmt.Sprint("host ", i), 1)
	}
	took, refused := make([][]time.Duration, len(hosts)*callers), new(atomic.Int64)
	for b.Loop() {
		var asking sync.WaitGroup
		for i := range took {
			asking.Go(func() {
				for begun, end := time.Now(), time.Now().Add(5*time.Second); begun.Before(end); begun = time.Now() {
					if err := hosts[i/callers].acquire(); err != nil {
						refused.Add(1)
					}
					took[i] = append(took[i], time.Since(begun))
				}
			})
		}
		asking.Wait()
	}
	p50, p99 := 0.0, 0.0
	for i := range hosts {
		all := slices.Concat(took[i*callers : (i+1)*callers]...)
		p50, p99 = max(p50, at(all, 0.5)), max(p99, at(all, 0.99))
	}
	b.ReportMetric(float64(len(slices.Concat(took...)))/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(float64(refused.Load()), "refused")
	b.ReportMetric(p50*1e3, "p50-ms")
	b.ReportMetric(p99*1e3, "p99-ms")
	b.ReportMetric(0, "ns/op")
}

// A host is a daemon as far as ledgers go.
type host struct {
	service    *quota.Service
	credential string
}

// startHost starts a host with a credential that has so many limits.
func startHost(b *testing.B, addr, name string, limits int) *host {
	b.Helper()
	store, err := redisledger.OpenStore(redisledger.Config{Addrs: []string{addr}, Deadline: deadline})
	if err != nil {
		b.Fatal(err)
	}
	c := &quota.Credential{Name: fmt.Sprint("youtube", limits), Operations: map[string]quota.Cost{"videos.list": {Every: 1}}}
	for n := range limits {
		window := quota.Sliding(24 * time.Hour / time.Duration(1+n))
		c.Limits = append(c.Limits, quota.Limit{Name: fmt.Sprint("limit", n), Units: 1_000_000_000, Window: window})
	}
	ledger := slidinglog.Open(slidinglog.Config{Engine: store, Dir: b.TempDir(), Name: name, Deadline: deadline})
	b.Cleanup(func() { ledger.Close() })
	service, err := quota.NewService(ledger, []*quota.Credential{c}, deadline)
	if err == nil {
		err = ledger.SetCredentials(service.Credentials(), nil)
	}
	if err != nil {
		b.Fatal(err)
	}
	ledger.Await(b.Context())
	return &host{service, c.Name}
}

func (h *host) acquire() error {
	r := quota.Request{Credential: h.credential, Operation: "videos.list", Count: 1}
	d, err := h.service.Acquire(context.Background(), r)
	if err == nil && !d.Granted() {
		err = fmt.Errorf("refused: %+v", d)
	}
	return err
}

// BenchmarkScripts prints what a call takes inside Redis, as Redis itself counts it: a script that does nothing, and an
// acquire with one, two and three limits, over few entries and over many; and what Redis keeps of an entry. One
// iteration is the whole comparison:
//
//	go test -run - -bench Scripts -benchtime 1x -v
func BenchmarkScripts(b *testing.B) {
	server := redistest.Start(b)
	conn := server.Dial(b)
	took := func(call func() error) (µs float64) {
		server.Order(b, "CONFIG RESETSTAT")
		for range 2000 {
			if err := call(); err != nil {
				b.Fatal(err)
			}
		}
		_, line, _ := strings.Cut(server.Do(b, "INFO", "commandstats").(string), "cmdstat_evalsha:")
		_, line, _ = strings.Cut(line, "usec_per_call=")
		fmt.Sscan(strings.ReplaceAll(line, ",", " "), &µs)
		return µs
	}
	sha := server.Do(b, "SCRIPT", "LOAD", "return 1").(string)
	nothing := func() error {
		_, err := conn.Do("EVALSHA", sha, "0")
		return err
	}
	for b.Loop() {
		for limits := 1; limits <= 3; limits++ {
			h := startHost(b, server.Addr, fmt.Sprint("limits", limits), limits)
			key := "quotad:{" + h.credential + "}:entries"
			for _, entries := range []int64{10, 100_000} {
				for has := server.Do(b, "ZCARD", key).(int64); has < entries; has++ {
					if err := h.acquire(); err != nil {
						b.Fatal(err)
					}
				}
				floor, µs := took(nothing), took(h.acquire)
				b.Logf("%d limits, %6d entries: %.1f µs a call, return 1 %.1f µs: ×%.1f", limits, entries, µs, floor, µs/floor)
			}
			entries, bytes := server.Do(b, "ZCARD", key).(int64), int64(0)
			for _, key := range []string{key, "quotad:{" + h.credential + "}:state"} {
				bytes += server.Do(b, "MEMORY", "USAGE", key, "SAMPLES", "0").(int64)
			}
			b.Logf("%d limits: %d bytes of an entry", limits, bytes/entries)
		}
	}
}
