package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"quotad/quota/api"
	"quotad/quota/redisledger/redistest"
)

const twoDuringAnOutage = `
state_dir = "disk"
socket = "api.sock"
[ledger]
backend = "redis"
redis.addrs = [%q]
[credentials.api]
limits.daily = { units = 100, reserve = 20 }
operations = { list = 1, search = 10 }
on_outage = { list = "open", open_units = 20 }
[credentials.other]
limits.daily = { units = 100, reserve = 20 }
operations = { list = 1, search = 10 }
on_outage = { list = "open", open_units = 20 }
`

// The disk is full, and Redis is frozen as soon as a host that has offline grants to
// append calls it again: who asks for anything else is answered.
func TestNobodyWaitsForAReplay(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	disk := filepath.Join(dir, "disk")
	mountSmallDisk(t, disk, "8m")
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server)
	must(t, os.WriteFile(filepath.Join(dir, "config.toml"), fmt.Appendf(nil, twoDuringAnOutage, proxy.Addr), 0o600))
	daemon := startIn(t, dir)
	client := &api.Client{Socket: filepath.Join(dir, "api.sock")}
	acquire := func(credential, operation string) (api.Decision, error) {
		ctx, cancel := context.WithTimeout(t.Context(), hangTimeout)
		defer cancel()
		return client.Acquire(ctx, api.AcquireRequest{Credential: credential, Operation: operation})
	}
	offline := func(credential string) bool {
		d, err := acquire(credential, "list")
		return err == nil && d.Mode == "outage"
	}
	eventually(t, func() bool { d, err := acquire("api", "search"); return err == nil && d.Granted })
	eventually(t, func() bool { d, err := acquire("other", "search"); return err == nil && d.Granted })
	used := usedNow(t, client)

	freeze(t, server)
	eventually(t, func() bool { return offline("api") })
	fillDisk(t, filepath.Join(disk, "ballast"))

	again := make(chan struct{})
	frozen := sync.OnceFunc(func() {
		if err := server.Freeze(); err != nil {
			t.Error(err)
		}
		close(again)
	})
	proxy.Disturb(func(command []string) redistest.Fault {
		if redistest.IsScript(command) {
			frozen()
		}
		return redistest.Pass
	})
	must(t, server.Thaw())
	<-again
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			if _, err := acquire("other", "search"); !errors.Is(err, api.ErrLedgerUnavailable) {
				t.Errorf("a closed operation of another credential: %v, want 503", err)
			}
			// Whether it is granted depends on the room in the tail's last page.
			if d, err := acquire("other", "list"); err == nil && d.Mode != "outage" || err != nil && !errors.Is(err, api.ErrLedgerUnavailable) {
				t.Errorf("an open operation of another credential: %+v, %v; want a grant of the outage, or 503", d, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), hangTimeout)
			defer cancel()
			var problem *api.Problem
			if err := client.Get(ctx, "/readyz", nil); !errors.As(err, &problem) || problem.Status != http.StatusServiceUnavailable {
				t.Errorf("/readyz: %v, want 503", err)
			}
			if output, err := exec.CommandContext(ctx, "quotactl", "--socket", client.Socket, "status").CombinedOutput(); !bytes.Contains(output, []byte("other")) {
				t.Errorf("quotactl status: %v\n%s", err, output)
			}
		})
	}
	asking.Wait()
	if up := scrape(t, client)[`quotad_ledger_up{backend="redis"}`]; up != 0 {
		t.Errorf("/metrics says that the ledger is up: %v", up)
	}

	must(t, os.Remove(filepath.Join(disk, "ballast")))
	must(t, server.Thaw())
	daemon.logs(t, "^ledger up$", "credential=api")
	// The call that found Redis frozen has an id: if Redis carried it out as it thawed, it counts
	// until it is asked again.
	if got := usedNow(t, client); got != used+1 && got != used+2 {
		t.Errorf("%d units are used, want %d and the one granted offline", got, used)
	}
}

func freeze(t *testing.T, server *redistest.Server) {
	t.Helper()
	must(t, server.Freeze())
	t.Cleanup(func() { server.Thaw() })
}
