package benchmark

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/slidinglog"
)

const deadline = time.Second // of a call, which a busy machine meets too

// A host is a daemon as far as ledgers go.
type host struct {
	service    *quota.Service
	credential string
}

// startHost starts a host with a credential that has so many limits.
func startHost(b *testing.B, addr string, limits int) *host {
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
	ledger := slidinglog.Open(slidinglog.Config{Engine: store, Dir: b.TempDir(), Deadline: deadline})
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
			h := startHost(b, server.Addr, limits)
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
