package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"quotad/quota/api"
	"quotad/quota/redisledger/redistest"
)

const lendable = `
[ledger]
backend = "redis"
redis.addrs = [%q]
deadline = "5s"
[credentials.api]
limits.daily.units = 10
operations.list = 1
`

// A loan at one daemon is a loan at all, and so is its end.
func TestTwoDaemonsShareALoan(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	_, a := startWith(t, fmt.Sprintf(lendable, server.Addr))
	_, b := startWith(t, fmt.Sprintf(lendable, server.Addr))
	acquire := func(client *api.Client, count int64, want bool) {
		t.Helper()
		d, err := client.Acquire(t.Context(), api.AcquireRequest{Operation: "list", Count: count})
		if err != nil || d.Granted != want {
			t.Fatalf("%d calls: %+v, %v, want them granted: %v", count, d, err, want)
		}
	}
	lend := func(client *api.Client, units int64, span string) api.LoanChange {
		t.Helper()
		lent, err := client.Lend(t.Context(), api.OnlyCredential, api.Lend{Limit: "daily", Units: &units, Until: span, Note: "so"})
		if err != nil || !lent.Changed {
			t.Fatalf("got %+v, %v", lent, err)
		}
		return lent
	}
	limit := func(client *api.Client) api.Limit {
		t.Helper()
		list, err := client.Credentials(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return list[0].Limits[0]
	}
	acquire(a, 10, true)
	acquire(b, 1, false)
	lent := lend(a, 20, "6h")
	acquire(b, 8, true)
	if l := limit(b); l.Lent != 20 || !l.LentUntil.Equal(*lent.Until) || l.Units != 30 || l.Remaining != 12 || len(l.Loans) != 1 || l.Loans[0].Note != "so" {
		t.Errorf("the other daemon shows %+v", l)
	}
	lend(b, 0, "")
	acquire(a, 1, false)
	if l := limit(a); l.Lent != 0 || l.LentUntil != nil || l.Units != 10 || l.Used != 18 {
		t.Errorf("after its end the first daemon shows %+v", l)
	}

	// One that ends by itself ends at both.
	lend(b, 20, "1s")
	eventually(t, func() bool { return limit(a).Lent == 0 && limit(b).Lent == 0 })
	acquire(a, 1, false)
	acquire(b, 1, false)
}

// Only operators lend.
func TestLendingIsForOperators(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can call as another user")
	}
	t.Parallel()
	self := account(t, "www-data")
	dir := startAs(t, self, "[credentials.api]\nlimits.daily.units = 10\noperations.list = 1\n")
	socket := filepath.Join(dir, ".quotad/quotad.sock")
	who := caller{name: "member of the socket's group", person: account(t, "nobody").in(self)}
	if status := who.ask(t, socket, http.MethodPost, "/v1/credentials/api/lend", "limit=daily&units=5&until=1h"); status != http.StatusForbidden {
		t.Errorf("a member of the socket's group who lends gets %d, want 403", status)
	}
	units := int64(5)
	if _, err := (&api.Client{Socket: socket}).Lend(context.Background(), "api", api.Lend{Limit: "daily", Units: &units, Until: time.Hour.String()}); err != nil {
		t.Errorf("root cannot lend: %v", err)
	}
}
