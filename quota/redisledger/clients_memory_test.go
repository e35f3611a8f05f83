package redisledger

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
)

// A subject of the counter takes what Redis needs for a key with an expiry, about 120 bytes
// with the malloc that Debian has, and 48 for its record; once it has been idle for two windows
// it takes nothing. For more subjects:
//
//	QUOTAD_TEST_LONG=10000000 go test -run TestMemoryPerSubject -v -timeout 1h ./quota/redisledger
func TestMemoryPerSubject(t *testing.T) {
	t.Parallel()
	n := seedtest.Long(t, 10_000)
	clock := redistest.NewClock(t)
	server := redistest.StartOn(t, clock)
	l := patient(openStoreAt(t, Config{Addrs: []string{server.Addr}}))
	c := hourly()
	before, begun := usedMemory(t, server), time.Now()
	asks := make([]clientlimit.Ask, 0, 500)
	for i := range n {
		address := fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255)
		asks = append(asks, clientlimit.Ask{Subject: c.Ask(clientlimit.Salt{}, address, 1).Subject, Units: 1})
		if len(asks) < cap(asks) && i < n-1 {
			continue
		}
		for _, d := range (clientlimit.Decider{Store: l}).Decide(t.Context(), c, asks) {
			if !d.Granted() {
				t.Fatalf("got %+v, want a grant", d)
			}
		}
		asks = asks[:0]
	}
	each := float64(usedMemory(t, server)-before) / float64(n)
	t.Logf("%s subjects in %v: %.1f bytes each", quota.Thousands(quota.Units(n)), time.Since(begun).Round(time.Millisecond), each)
	if most := 220.0; each > most {
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
