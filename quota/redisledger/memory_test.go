package redisledger

import (
	"fmt"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
)

// A day's log as a full YouTube budget leaves it: 9,500 grants of one unit with
// operation, job and region, which is what Redis has to hold at most.
func TestMemoryPerGrant(t *testing.T) {
	for _, test := range []struct {
		name string
		id   func(i int) string
		most int64 // bytes per grant
	}{
		{"without request ids", func(int) string { return "" }, 64},
		{"with request ids", func(i int) string { return fmt.Sprintf("page-%d", i) }, 160},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := Config{Addrs: []string{redistest.Start(t).Addr}, Daemon: "a"}
			l, client := openAt(t, config), connect(t, config)
			const grants, batch = 9500, 100
			for i := 0; i < grants; i += batch {
				asks := make([]quota.Ask, batch)
				for j := range asks {
					asks[j] = fetch("videos.list", 1, test.id(i+j))
				}
				if _, err := l.Acquire(t.Context(), youtube(), asks); err != nil {
					t.Fatal(err)
				}
			}
			total := int64(0)
			for _, key := range l.keys("youtube", newView(youtube()).digest) {
				size, err := client.Do(t.Context(), "MEMORY", "USAGE", key, "SAMPLES", 0).Int64()
				if err == nil { // a key that is not there takes nothing
					t.Logf("%s: %d bytes", key, size)
					total += size
				}
			}
			t.Logf("%.1f bytes per grant", float64(total)/grants)
			if total > test.most*grants {
				t.Errorf("%d bytes per grant, want at most %d", total/grants, test.most)
			}
		})
	}
}

// youtube is a credential as the shipped configuration has it.
func youtube() *quota.Credential {
	return &quota.Credential{
		Name:       "youtube",
		Limits:     []quota.Limit{{Name: "daily", Units: 10_000, Reserve: 500, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{"videos.list": {Every: 1}, "search.list": {Every: 100}},
	}
}

// fetch is what a pass asks for before it calls upstream.
func fetch(operation string, units quota.Units, id string) quota.Ask {
	return quota.Ask{
		Request: quota.Request{
			Credential: "youtube", Operation: operation, Count: 1, RequestID: id,
			Caller: quota.Caller{Job: "trending", Region: "US", Run: "trending-1795260896"},
		},
		Charges: []quota.Charge{{Limit: "daily", Units: units}},
	}
}
