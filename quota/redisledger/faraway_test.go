package redisledger_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/clientlimit"
	"quotad/quota/redisledger"
	"quotad/quota/redisledger/redistest"
)

// Clients are limited, however far away Redis is, if the deadline has room for that.
func TestClientsFarAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store, err := redisledger.OpenStore(redisledger.Config{Addrs: []string{redistest.FarAway(t, server, 110*time.Millisecond)}, Deadline: hanging})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	service := clientlimit.NewService(nil)
	err = service.SetClients(store, "", []*clientlimit.Clients{{
		Name: "public", Algorithm: clientlimit.Log, OpenOnOutage: true,
		Limits: []quota.Limit{{Name: "hourly", Units: 3, Window: quota.Sliding(time.Hour)}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		d, err := service.Acquire(t.Context(), "public", clientlimit.Request{Subject: "alice", Count: 1})
		if err != nil || d.Outage || d.Granted() != (n < 3) {
			t.Fatalf("call %d of 3 that fit: %+v", n+1, d)
		}
	}
	if lacks, err := store.Check(t.Context(), true); err != nil || slices.ContainsFunc(lacks, func(s string) bool { return strings.Contains(s, "deadline") }) {
		t.Errorf("%q, %v", lacks, err)
	}
	hasty, err := redisledger.OpenStore(redisledger.Config{Addrs: []string{redistest.FarAway(t, server, 110*time.Millisecond)}, Deadline: 250 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer hasty.Close()
	if lacks, err := hasty.Check(t.Context(), false); err != nil || !slices.ContainsFunc(lacks, func(s string) bool { return strings.Contains(s, "set deadline in [ledger] to ") }) {
		t.Errorf("%q, %v; want the deadline that is needed", lacks, err)
	}
}

// Servers ask for one subject all the time, and wait for answers about others that are late by 200 ms: never more than
// the units are granted in any window, by Redis' clock.
func TestNeverMoreInAnyWindow(t *testing.T) {
	t.Parallel()
	const units, window = 10, time.Second
	server := redistest.Start(t)
	late := redistest.FarAway(t, server, 200*time.Millisecond)
	var mu sync.Mutex // guards grants
	var grants []time.Time
	var servers sync.WaitGroup
	for n := range 2 {
		open := func(addr string) *redisledger.Clients {
			c, err := redisledger.OpenClients(redisledger.Config{Addrs: []string{addr}, Deadline: hanging}, "", &clientlimit.Clients{
				Name: "public", Algorithm: clientlimit.Log,
				Limits: []quota.Limit{{Name: "second", Units: units, Window: quota.Sliding(window)}},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			return c
		}
		near, far := open(server.Addr), open(late)
		servers.Go(func() {
			for i := range 8 {
				other := api.ClientRequest{Subject: fmt.Sprint("other", n, i)}
				if _, err := far.AcquireClient(t.Context(), "public", other); err != nil {
					t.Error(err)
				}
				for _, c := range []*redisledger.Clients{near, far, near} {
					for range 20 {
						d, err := c.AcquireClient(t.Context(), "public", api.ClientRequest{Subject: "greedy"})
						if err != nil {
							t.Error(err)
						} else if !d.Granted {
							break
						} else {
							mu.Lock()
							grants = append(grants, *d.Now)
							mu.Unlock()
						}
					}
				}
			}
		})
	}
	servers.Wait()
	for _, from := range grants {
		n := 0
		for _, at := range grants {
			if !at.Before(from) && at.Before(from.Add(window)) {
				n++
			}
		}
		if n > units {
			t.Fatalf("%d units were granted in the window from %v", n, from)
		}
	}
	if len(grants) <= units {
		t.Errorf("%d units were granted in several windows", len(grants))
	}
}
