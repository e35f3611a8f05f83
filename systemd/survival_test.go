package systemd_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quotad/quota/api"
)

// slow is a job that runs until it is asked to end, and takes its time then. In
// the region two it would not end by itself.
const slow = `#!/bin/sh
grant=$(quotactl acquire --count 3 -o json list | sed -n 's/.*"grant_id": "\(.*\)",.*/\1/p') || exit
if [ "$QUOTAD_REGION" = one ]; then
	trap 'sleep 3; quotactl settle "$grant" 1; exit 1' TERM
else
	trap '' TERM
fi
echo holding
while :; do sleep 0.1; done
`

// running succeeds when the last run of slow is under way and has said so.
const running = `run=$(quotactl jobs slow | sed -n 's/^  last run \([^:]*\): running.*/\1/p')
	test -n "$run" && journalctl --unit=quotad.service | grep -q 'holding.*"run":"'$run'"'`

// testRestartUnderLoad restarts the daemon while clients spend, over connections
// that they keep and over a new one for each call: none of them fails, and every unit
// is counted once.
func testRestartUnderLoad(t *testing.T, m *machine) {
	const clients, restarts, between = 16, 50, 100
	before := m.used(t)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var granted atomic.Int64
	var spending sync.WaitGroup
	for i := range clients {
		call := m.callOnce
		if i%2 == 0 {
			client := m.client()
			call = func() error { return acquire(client) }
		}
		spending.Go(func() {
			for ctx.Err() == nil {
				if err := call(); err != nil {
					t.Errorf("an acquire fails: %v", err)
					return
				}
				granted.Add(1)
			}
		})
	}
	goOn := func() {
		reached := granted.Load() + between
		eventually(t, "clients spend", func() bool { return granted.Load() >= reached || t.Failed() })
	}
	for range restarts {
		goOn()
		m.sh(t, "systemctl restart quotad")
	}
	goOn()
	stop()
	spending.Wait()
	if used := m.used(t) - before; used != granted.Load() {
		t.Errorf("%d units are used after %d grants", used, granted.Load())
	}
	t.Logf("%d grants over %d restarts", granted.Load(), restarts)
}

// acquire has the client ask for a unit.
func acquire(client *api.Client) error {
	d, err := client.Acquire(context.Background(), api.AcquireRequest{Credential: "api", Operation: "list"})
	if err == nil && !d.Granted {
		err = fmt.Errorf("refused: %+v", d)
	}
	return err
}

// callOnce asks for a unit as curl does: over a connection of its own, and once.
func (m *machine) callOnce() error {
	conn, err := net.Dial("unix", m.client().Socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	const body = "credential=api&operation=list"
	request := fmt.Sprintf("POST /v1/acquire HTTP/1.1\r\nHost: quotad\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if err := conn.SetDeadline(time.Now().Add(hangTimeout)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}

// used is what the credential's limit holds.
func (m *machine) used(t *testing.T) int64 {
	t.Helper()
	status, err := m.client().Status(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return status.Credentials[0].Limits[0].Used
}

// testKill kills the daemon while a pass runs.
func testKill(t *testing.T, m *machine) {
	before := m.used(t)
	m.await(t, "quotactl run slow --region one")
	m.await(t, running)
	m.restarted(t, "KILL")
	m.sh(t, "quotactl acquire list")
	if got := m.used(t) - before; got != 4 {
		t.Errorf("%d units are used, want the 3 of the killed pass and 1", got)
	}
	if got := m.sh(t, "quotactl jobs slow"); !strings.Contains(got, "interrupted") {
		t.Errorf("the run is not interrupted:\n%s", got)
	}
	if got := m.sh(t, "pgrep --list-full --uid quotad,quotad-jobs"); strings.Contains(got, "slow") {
		t.Errorf("the pass lives on:\n%s", got)
	}
}

// restarted sends a signal to the daemon and waits until another one runs.
func (m *machine) restarted(t *testing.T, signal string) {
	t.Helper()
	pid := m.property(t, "MainPID")
	m.sh(t, "systemctl kill --kill-whom=main --signal="+signal+" quotad.service")
	m.await(t, fmt.Sprintf(`test "$(systemctl show --value --property=MainPID quotad.service)" != %s && systemctl --quiet is-active quotad.service`, pid))
}

// testFrozen stops the daemon from doing anything: the watchdog ends it.
func testFrozen(t *testing.T, m *machine) {
	m.write(t, "/etc/systemd/system/quotad.service.d/watchdog.conf", "[Service]\nWatchdogSec=2s\n")
	m.sh(t, "systemctl daemon-reload && systemctl restart quotad")
	m.restarted(t, "STOP")
	m.sh(t, "quotactl acquire list")
	m.await(t, "journalctl --unit=quotad.service | grep -q 'Watchdog timeout'")
}

// testNoRedis takes Redis away: the daemon says so, refuses, and is not taken for
// dead, nor kept from starting.
func testNoRedis(t *testing.T, m *machine) {
	m.sh(t, "systemctl stop redis-server")
	for _, how := range []string{"after an outage", "at the start"} {
		m.await(t, "systemctl show --value --property=StatusText quotad.service | grep -q '^Redis cannot be reached: every call is refused'")
		if output, code := m.try("quotactl acquire list"); code != 1 || !strings.Contains(output, "cannot reach redis") {
			t.Errorf("%s: acquire: exit code %d:\n%s", how, code, output)
		}
		restarts := m.property(t, "NRestarts")
		for range 6 { // at four pings within the two seconds of WatchdogSec
			m.await(t, fmt.Sprintf(`test "$(systemctl show --value --property=WatchdogTimestampMonotonic quotad.service)" != %s`,
				m.property(t, "WatchdogTimestampMonotonic")))
		}
		if got := m.property(t, "NRestarts"); got != restarts {
			t.Errorf("%s: the daemon was restarted for want of Redis", how)
		}
		if how == "after an outage" {
			m.sh(t, "systemctl restart quotad")
		}
	}
	m.sh(t, "systemctl start redis-server")
	m.await(t, "systemctl show --value --property=StatusText quotad.service | grep -q '^idle; .* units left'")
	m.await(t, "quotactl acquire list")
}

// testStop stops the daemon while passes run: one ends in order, though it takes
// longer than the unit allows, the other is ended.
func testStop(t *testing.T, m *machine) {
	m.write(t, "/etc/systemd/system/quotad.service.d/watchdog.conf", "[Service]\nTimeoutStopSec=2s\n")
	m.sh(t, "systemctl daemon-reload && systemctl reload quotad")
	for region, want := range map[string]int64{"one": 1, "two": 3} {
		before := m.used(t)
		m.await(t, "quotactl run slow --region "+region)
		m.await(t, running)
		m.sh(t, "systemctl stop quotad.service")
		if got := m.property(t, "Result"); got != "success" {
			t.Errorf("%s: the result of the stop is %s, want success", region, got)
		}
		if output, code := m.try("pgrep --list-full --uid quotad,quotad-jobs"); code == 0 {
			t.Errorf("%s: left running: %s", region, output)
		}
		// Whoever calls does not start it again.
		if output, code := m.try("quotactl --socket /run/quotad.sock acquire list"); code != 3 {
			t.Errorf("%s: acquire of a stopped quotad: exit code %d, want 3:\n%s", region, code, output)
		}
		if output, code := m.try("systemctl is-active quotad.service quotad.socket"); code == 0 {
			t.Errorf("%s: after the stop: %s", region, output)
		}
		m.sh(t, "systemctl start quotad.service && systemctl is-active quotad.socket")
		if got := m.used(t) - before; got != want {
			t.Errorf("%s: %d units are used, want %d", region, got, want)
		}
		if got := m.sh(t, "quotactl jobs slow"); !strings.Contains(got, "interrupted") {
			t.Errorf("%s: the run is not interrupted:\n%s", region, got)
		}
	}
}
