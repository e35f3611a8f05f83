package redisledger

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
)

// A subject takes what Redis needs for a key with an expiry, and its record; once it has been idle for two windows it
// takes nothing. For more subjects:
//
//	QUOTAD_TEST_LONG=10000000 go test -run TestMemoryPerSubject -v -timeout 1h ./quota/redisledger
func TestMemoryPerSubject(t *testing.T) {
	for algorithm, most := range map[clientlimit.Algorithm]float64{clientlimit.Counter: 220, clientlimit.Log: 280} {
		t.Run(string(algorithm), func(t *testing.T) {
			t.Parallel()
			memoryPerSubject(t, algorithm, most)
		})
	}
}

func memoryPerSubject(t *testing.T, algorithm clientlimit.Algorithm, most float64) {
	n := seedtest.Long(t, 10_000)
	clock := redistest.NewClock(t)
	server := redistest.StartOn(t, clock)
	l, c := patient(openStoreAt(t, Config{Addrs: []string{server.Addr}})), hourly()
	c.Algorithm = algorithm
	service, err := serviceOn(l, c)
	if err != nil {
		t.Fatal(err)
	}
	before, begun := usedMemory(t, server), time.Now()
	var asking sync.WaitGroup
	for from := range 8 {
		asking.Go(func() {
			for i := from; i < n; i += 8 {
				address := fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255)
				d, err := service.Acquire(t.Context(), c.Name, clientlimit.Request{Subject: address, Count: 1})
				if err != nil || !d.Granted() {
					t.Errorf("got %+v, %v, want a grant", d, err)
					return
				}
			}
		})
	}
	asking.Wait()
	each := float64(usedMemory(t, server)-before) / float64(n)
	t.Logf("%s subjects in %v: %.1f bytes each", quota.Thousands(quota.Units(n)), time.Since(begun).Round(time.Millisecond), each)
	if each > most {
		t.Errorf("a subject takes %.1f bytes, want at most %.0f", each, most)
	}
	if clock == nil {
		return
	}
	clock.Step(t, 2*time.Hour)
	begun = time.Now()
	for tick := time.NewTicker(10 * time.Millisecond); server.Do(t, "DBSIZE") != int64(0); <-tick.C {
		if time.Since(begun) > hanging {
			t.Fatalf("%v subjects are left that have been idle for two windows", server.Do(t, "DBSIZE"))
		}
	}
	t.Logf("they had gone %v after two windows", time.Since(begun).Round(time.Millisecond))
}

func usedMemory(t *testing.T, server *redistest.Server) int64 {
	t.Helper()
	_, text, _ := strings.Cut(server.Do(t, "INFO", "memory").(string), "used_memory:")
	text, _, _ = strings.Cut(text, "\r\n")
	used, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return used
}
