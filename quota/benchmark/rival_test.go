package benchmark

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A Rival is something that is measured.
type Rival struct {
	Name string
	// Dial opens a client; each is used by one goroutine.
	Dial func() (Client, error)
	// Servers are the processes that answer, in a fixed order: their CPU is counted.
	Servers []*Process
	// Floor is the name of the rival that ratios are printed against; empty: none.
	Floor string
}

const (
	rounds   = 30  // turns of one client
	perRound = 200 // requests of one turn
	clients  = 64
	turns    = 7 // of many clients
	turn     = 400 * time.Millisecond
)

// Compare measures the rivals with one client, then with 64, and logs a line for each.
func Compare(tb testing.TB, rivals []Rival) {
	tb.Helper()
	latencies(tb, rivals)
	rates(tb, rivals)
}

func latencies(tb testing.TB, rivals []Rival) {
	tb.Helper()
	took := make([][]time.Duration, len(rivals))
	asking := dialAll(tb, rivals, 1)
	for range rounds {
		for i, r := range rivals {
			for range perRound {
				begun := time.Now()
				if err := asking[i][0].Ask(); err != nil {
					tb.Fatalf("%s: %v", r.Name, err)
				}
				took[i] = append(took[i], time.Since(begun))
			}
		}
	}
	p50 := make(map[string]float64)
	for i, r := range rivals {
		slices.Sort(took[i])
		p50[r.Name] = micros(percentile(took[i], 50))
	}
	for i, r := range rivals {
		tb.Logf("1 client    %-44s p50 %7.1f µs  p99 %7.1f µs%s", r.Name, p50[r.Name], micros(percentile(took[i], 99)), ratio(r, p50))
	}
}

// dialAll opens n clients of each rival.
func dialAll(tb testing.TB, rivals []Rival, n int) [][]Client {
	tb.Helper()
	all := make([][]Client, len(rivals))
	for i, r := range rivals {
		for range n {
			c, err := r.Dial()
			if err != nil {
				tb.Fatalf("%s: %v", r.Name, err)
			}
			tb.Cleanup(func() { c.Close() })
			if err := c.Ask(); err != nil { // what is made ready by a first request
				tb.Fatalf("%s: %v", r.Name, err)
			}
			all[i] = append(all[i], c)
		}
	}
	return all
}

// A turnResult is what many clients got in one turn of theirs.
type turnResult struct {
	rate float64       // answers in a second
	cpu  time.Duration // of all servers, per answer
	each []time.Duration
}

func rates(tb testing.TB, rivals []Rival) {
	tb.Helper()
	asking := dialAll(tb, rivals, clients)
	results := make([][]turnResult, len(rivals))
	for range turns {
		for i, r := range rivals {
			results[i] = append(results[i], manyClients(tb, r, asking[i]))
		}
	}
	cpu, rate := make(map[string]float64), make(map[string]float64)
	for i, r := range rivals {
		slices.SortFunc(results[i], func(a, b turnResult) int { return cmp.Compare(a.rate, b.rate) })
		rate[r.Name] = results[i][turns/2].rate
		slices.SortFunc(results[i], func(a, b turnResult) int { return cmp.Compare(a.cpu, b.cpu) })
		cpu[r.Name] = micros(results[i][turns/2].cpu)
	}
	for i, r := range rivals {
		var parts []string
		for _, each := range results[i][turns/2].each {
			parts = append(parts, fmt.Sprintf("%.1f", micros(each)))
		}
		tb.Logf("%d clients  %-44s %8.0f /s%s  cpu %6.1f µs (%s)%s", clients, r.Name, rate[r.Name], ratio(r, rate), cpu[r.Name], strings.Join(parts, " + "), ratio(r, cpu))
	}
}

// manyClients has all clients ask for one turn.
func manyClients(tb testing.TB, r Rival, asking []Client) turnResult {
	tb.Helper()
	before := cpuTimes(tb, r)
	begun := time.Now()
	var answers atomic.Int64
	var failed atomic.Pointer[error] // the first failure ends the turn
	var wg sync.WaitGroup
	for _, c := range asking {
		wg.Go(func() {
			for time.Since(begun) < turn && failed.Load() == nil {
				if err := c.Ask(); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
				answers.Add(1)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		tb.Fatalf("%s: %v", r.Name, *err)
	}
	took, n := time.Since(begun), answers.Load()
	result := turnResult{rate: float64(n) / took.Seconds()}
	for i, after := range cpuTimes(tb, r) {
		each := (after - before[i]) / time.Duration(max(1, n))
		result.cpu += each
		result.each = append(result.each, each)
	}
	return result
}

func cpuTimes(tb testing.TB, r Rival) []time.Duration {
	tb.Helper()
	var times []time.Duration
	for _, server := range r.Servers {
		t, err := CPU(server.PID)
		if err != nil {
			tb.Fatalf("%s: %v", r.Name, err)
		}
		times = append(times, t)
	}
	return times
}

// ratio is a rival's figure against its floor's.
func ratio(r Rival, figures map[string]float64) string {
	floor, ok := figures[r.Floor]
	if !ok {
		return ""
	}
	return fmt.Sprintf("  ×%.2f of %s", figures[r.Name]/floor, r.Floor)
}

func percentile(sorted []time.Duration, percent int) time.Duration {
	return sorted[len(sorted)*percent/100]
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
