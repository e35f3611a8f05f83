package main

import (
	"context"
	"fmt"
	"slices"
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

// A host whose file has other limits for the same clients is found by the others, in the
// status and its troubles, until its file is mended. A reload says that clients begin at 0.
func TestHostsWhoseClientsDiffer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	config := fmt.Sprintf(sharedClients, server.Addr, "counter")
	a, client := startWith(t, config)
	dir := shortDir(t)
	write := func(text string) {
		t.Helper()
		writeConfig(t, dir, text)
	}
	write(strings.ReplaceAll(config, `window = "1d"`, `window = "1h"`))
	startIn(t, dir)
	other := clientIn(dir)
	says := "counts differently: limit default: 20 units in any 1h, here 20 units in any 24h"
	found := func(c *api.Client, text string) bool {
		t.Helper()
		var status struct {
			Ledger api.LedgerState `json:"ledger"`
			Triage struct {
				Troubles []struct{ Says string } `json:"troubles"`
			} `json:"triage"`
		}
		must(t, c.Get(context.Background(), "/v1/status", &status))
		has := func(s string) bool { return strings.Contains(s, text) }
		warned := slices.ContainsFunc(status.Ledger.Warnings, has)
		if warned != slices.ContainsFunc(status.Triage.Troubles, func(one struct{ Says string }) bool { return has(one.Says) }) {
			return false // read in between
		}
		return warned
	}
	eventually(t, func() bool { return found(client, says) })
	a.logs(t, "^trouble$", "kind=hosts", "says=(.*; )?clients public: host .* "+says)
	eventually(t, func() bool { return found(other, "limit default: 20 units in any 24h, here 20 units in any 1h") })
	write(config)
	reloaded, err := other.Reload(context.Background())
	must(t, err)
	if want := "clients.public: it was counter of 1h, and is counter of 24h: every client begins at 0"; !slices.Contains(reloaded.Reminders, want) {
		t.Errorf("the reload says %q, want %q", reloaded.Reminders, want)
	}
	eventually(t, func() bool { return !found(other, "counts differently") && !found(client, "counts otherwise") })
}
