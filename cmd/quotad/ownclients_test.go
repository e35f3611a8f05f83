package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"quotad/quota/api"
	"quotad/quota/redisledger/redistest"
)

const clientsOnRedis = `
[ledger]
backend = "redis"
redis.addrs = [%q]
deadline = %q
[clients.open]
units = 100
window = "1h"
[clients.closed]
units = 100
window = "1h"
algorithm = "counter"
on_outage = "closed"
`

// While Redis does not answer, clients are granted or refused as they are configured, at
// once but for the first calls; when it is back it decides again, and has counted none of
// that.
func TestClientsWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	daemon, client := startWith(t, fmt.Sprintf(clientsOnRedis, server.Addr, "1s"))
	away := func(how string) {
		t.Helper()
		for range 5 {
			d, err := client.AcquireClient(context.Background(), "open", api.ClientRequest{Subject: "alice", Count: 60})
			if err != nil || !d.Granted || d.Mode != "outage" {
				t.Errorf("%s: open clients are answered %+v, %v", how, d, err)
			}
			if d, err := client.AcquireClient(context.Background(), "closed", api.ClientRequest{Subject: "alice"}); !errors.Is(err, api.ErrLedgerUnavailable) {
				t.Errorf("%s: closed clients are answered %+v, %v", how, d, err)
			}
		}
	}
	asked := 0
	back := func() {
		t.Helper()
		for _, name := range []string{"closed", "open"} {
			eventually(t, func() bool {
				asked++ // an answer that was lost may have counted
				d, err := client.AcquireClient(context.Background(), name, api.ClientRequest{Subject: fmt.Sprint("bob", asked), Count: 100})
				return err == nil && d.Granted && d.Mode == ""
			})
		}
	}
	away("without Redis")
	for _, message := range []string{"^client call granted without the ledger$", "^client call failed$"} { // in this order
		daemon.logs(t, message)
	}
	server.Run(t)
	back()
	must(t, server.Freeze())
	away("with a frozen Redis")
	must(t, server.Thaw())
	back()
	list, err := client.ListClients(context.Background())
	i := slices.IndexFunc(list, func(one api.Clients) bool { return one.Name == "open" })
	if err != nil || i < 0 || list[i].OutageGrants < 10 {
		t.Errorf("told: %+v, %v", list, err)
	}
}
