package benchmark

import (
	"fmt"
	"strings"
	"testing"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
)

// BenchmarkScripts prints what a call takes inside Redis, as Redis itself counts it: a script that does nothing, and an
// acquire with one, two and three limits, over few entries and over many. One iteration is the whole comparison:
//
//	go test -run - -bench Scripts -benchtime 1x -v
func BenchmarkScripts(b *testing.B) {
	server := redistest.Start(b)
	conn := server.Dial(b)
	took := func(calls int, call func() error) (µs float64) {
		server.Order(b, "CONFIG RESETSTAT")
		for range calls {
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
			acquire := func() error {
				d, err := h.service.Acquire(b.Context(), quota.Request{Credential: h.credential, Operation: "videos.list", Count: 1})
				if err == nil && !d.Granted() {
					err = fmt.Errorf("refused: %+v", d)
				}
				return err
			}
			for _, entries := range []int{10, 100_000} {
				for has := server.Do(b, "ZCARD", "quotad:{"+h.credential+"}:entries").(int64); has < int64(entries); has++ {
					if err := acquire(); err != nil {
						b.Fatal(err)
					}
				}
				floor, µs := took(2000, nothing), took(2000, acquire)
				b.Logf("%d limits, %6d entries: %.1f µs a call, return 1 %.1f µs: ×%.1f", limits, entries, µs, floor, µs/floor)
			}
		}
	}
}
