package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"quotad/quota/api"
	"quotad/quota/redisledger/redistest"
)

const oneMillion = `
[ledger]
deadline = "1s"
backend = "redis"
redis.addrs = [%q]
[credentials.api]
limits.daily.units = 1_000_000
operations.list = 1
`

// A daemon stands still between what Redis does for an operator and its answer, until after the call's deadline. The
// operator is told what was done, and the log has it once. What another host is granted meanwhile stays.
func TestAFrozenDaemonCorrectsOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server)
	daemon, client := startWith(t, fmt.Sprintf(oneMillion, proxy.Addr))
	_, other := startWith(t, fmt.Sprintf(oneMillion, server.Addr))
	acquire := func(count int64) bool {
		d, err := other.Acquire(t.Context(), api.AcquireRequest{Credential: "api", Operation: "list", Count: count})
		return err == nil && d.Granted
	}
	eventually(t, func() bool { return acquire(40) })
	noted := func(note string) (times int) {
		page, err := other.Log(t.Context(), api.LogQuery{})
		if err != nil {
			t.Error(err)
		}
		for _, e := range page.Entries {
			if e.Note == note {
				times++
			}
		}
		return times
	}
	if _, err := client.Reset(t.Context(), "api", "Redis knows the script from now on"); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name    string
		correct func(ctx context.Context, note string) (changed bool, err error)
		adds    int64
	}{
		{"book", func(ctx context.Context, note string) (bool, error) {
			_, err := client.Book(ctx, "api", api.Booking{Limit: "daily", Units: 7, Note: note})
			return true, err
		}, 7},
		{"reset", func(ctx context.Context, note string) (bool, error) {
			_, err := client.Reset(ctx, "api", note)
			return true, err
		}, -1 << 62},
	} {
		note, frozen := "frozen "+row.name, make(chan struct{})
		var seen atomic.Bool
		before := usedNow(t, other)
		eventually(t, func() bool { return usedNow(t, client) == before }) // or its first try is behind
		proxy.Disturb(func(command []string) redistest.Fault {
			if !strings.Contains(strings.Join(command, " "), url.QueryEscape(note)) || seen.Swap(true) {
				return redistest.Pass
			}
			go func() {
				defer close(frozen)
				daemon.cmd.Process.Signal(syscall.SIGSTOP)
				for range 100 { // until Redis has done it
					if noted(note) > 0 {
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
				if !acquire(3) {
					t.Error("another host waits for the frozen one")
				}
				time.Sleep(1500 * time.Millisecond) // past the deadline by more than a quarter of that
				proxy.Release()
				daemon.cmd.Process.Signal(syscall.SIGCONT)
			}()
			return redistest.Late
		})
		changed, err := row.correct(t.Context(), note)
		for err != nil && !seen.Load() { // a busy machine has not come so far
			changed, err = row.correct(t.Context(), note)
		}
		<-frozen
		var unknown *api.Problem // after the deadline nobody knows the outcome, or it was done
		if errors.As(err, &unknown) && unknown.Status == http.StatusServiceUnavailable {
			err = nil
		}
		if err != nil || !changed {
			t.Errorf("%s: changed %v, %v", row.name, changed, err)
		}
		if got, want := usedNow(t, other), max(0, before+row.adds)+3; got != want {
			t.Errorf("%s: %d units are used, want %d", row.name, got, want)
		}
		if times := noted(note); times != 1 {
			t.Errorf("%s: the log has it %d times", row.name, times)
		}
	}
}
