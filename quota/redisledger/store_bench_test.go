package redisledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"quotad/quota/redisledger/redistest"
	"quotad/quota/slidinglog"
)

// BenchmarkAppendInside compares what an append takes inside Redis, as INFO commandstats has
// it, with what a script takes that does nothing, by one caller, in turns.
func BenchmarkAppendInside(b *testing.B) {
	server := redistest.Start(b)
	s := openStoreAt(b, Config{Addrs: []string{server.Addr}})
	nothing := redis.NewScript("return 1")
	var appends, nothings []float64
	var at slidinglog.Position
	for range 9 {
		appends = append(appends, inside(b, server, func() {
			at = appended(b, s, at, strings.Repeat("x", 60))
		}))
		nothings = append(nothings, inside(b, server, func() {
			if err := nothing.Run(context.Background(), s.current(), nil).Err(); err != nil {
				b.Fatal(err)
			}
		}))
	}
	slices.Sort(appends)
	slices.Sort(nothings)
	b.ReportMetric(appends[len(appends)/2], "µs/append")
	b.ReportMetric(nothings[len(nothings)/2], "µs/nothing")
	b.ReportMetric(appends[len(appends)/2]/nothings[len(nothings)/2], "ratio")
	b.ReportMetric(appends[0], "µs/append-least")
	b.ReportMetric(nothings[0], "µs/nothing-least")
	b.ReportMetric(0, "ns/op")
}

// inside makes calls, and returns how many µs one took inside Redis.
func inside(b *testing.B, server *redistest.Server, call func()) (micros float64) {
	b.Helper()
	call() // the script is loaded
	server.Do(b, "CONFIG", "RESETSTAT")
	for range 3000 {
		call()
	}
	_, line, _ := strings.Cut(server.Do(b, "INFO", "commandstats").(string), "cmdstat_evalsha:")
	_, line, _ = strings.Cut(line, "usec_per_call=")
	if _, err := fmt.Sscanf(line, "%f,", &micros); err != nil {
		b.Fatal(err)
	}
	return micros
}

// A record of 72 bytes takes at most 110 in Redis.
func TestStoreMemory(t *testing.T) {
	server := redistest.Start(t)
	s := openStoreAt(t, Config{Addrs: []string{server.Addr}})
	var at slidinglog.Position
	const records = 10_000
	for range records {
		at = appended(t, s, at, strings.Repeat("x", 60))
	}
	taken := server.Do(t, "MEMORY", "USAGE", s.key("youtube"), "SAMPLES", "0").(int64)
	t.Logf("%d records of 72 bytes take %d bytes each", records, taken/records)
	if taken > 110*records {
		t.Errorf("a record takes %d bytes, want at most 110", taken/records)
	}
}
