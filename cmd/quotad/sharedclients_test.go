package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"quotad/quota/api"
	"quotad/quota/redisledger/redistest"
)

// Twenty units a day for each client of an API.
const sharedClients = `
[ledger]
backend = "redis"
redis.addrs = [%q]
deadline = "5s"
[clients.public]
units = 20
window = "1d"
algorithm = %q
on_outage = "closed"
`

// Three daemons on one Redis, asked at once: each client has its units, and no more.
func TestThreeDaemonsLimitClients(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, algorithm := range []string{"log", "counter"} {
		const subjects = 12
		var granted [subjects]atomic.Int64
		var callers sync.WaitGroup
		for range 3 {
			_, client := startWith(t, fmt.Sprintf(sharedClients, server.Addr, algorithm))
			for range 3 {
				callers.Go(func() {
					for n := range 4 * subjects {
						d, err := client.AcquireClient(t.Context(), "public", api.ClientRequest{Subject: fmt.Sprint("user", n%subjects), Count: 1})
						if err != nil {
							t.Error(err)
						}
						if d.Granted {
							granted[n%subjects].Add(1)
						}
					}
				})
			}
		}
		callers.Wait()
		for i := range granted {
			if got := granted[i].Load(); got != 20 {
				t.Errorf("%s: client %d was granted %d units of 20", algorithm, i, got)
			}
		}
	}
}

// Hosts whose files have other windows for the same clients count each for itself. A reload says that clients begin at 0.
func TestHostsWhoseClientsDiffer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	config := fmt.Sprintf(sharedClients, server.Addr, "counter")
	_, client := startWith(t, config)
	dir := shortDir(t)
	writeConfig(t, dir, strings.ReplaceAll(config, `window = "1d"`, `window = "1h"`))
	startIn(t, dir)
	other := clientIn(dir)
	spend := func(c *api.Client, granted bool) {
		t.Helper()
		d, err := c.AcquireClient(t.Context(), "public", api.ClientRequest{Subject: "alice", Count: 20})
		if err != nil || d.Granted != granted {
			t.Errorf("got %+v, %v", d, err)
		}
	}
	spend(client, true)
	spend(other, true)
	writeConfig(t, dir, config)
	_, err := other.Reload(context.Background())
	must(t, err)
	spend(other, false)
}
