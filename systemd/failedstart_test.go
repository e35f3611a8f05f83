package systemd_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// embedded is the configuration of a daemon on the ledger in its state directory.
const embedded = `
[credentials.api]
limits.daily.units = 100_000_000
operations.list = 1
[passes]
drain = "1s"
[jobs.slow]
credential = "api"
regions = ["one", "two"]
schedule = "manual"
command = ["/opt/slow"]
`

// proxied needs a port that may be taken, and a key.
const proxied = embedded + `
[proxy]
listen = "127.0.0.1:9465"
[credentials.api.proxy]
upstream = "http://127.0.0.1:1"
key_file = "/etc/quotad/api.key"
routes = { "GET /" = "list" }
`

// A badStart keeps the daemon from starting again. Spoil is a script that runs before that, and mend ends it.
type badStart struct {
	name, config, spoil, mend string
	why                       string // part of what systemctl status shows
	code                      int    // with which quotad exits
}

const hold = `systemd-run --quiet --unit=holder python3 -c 'import socket,time
s=socket.socket(); s.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1); s.bind(("127.0.0.1",9465)); s.listen(); open("/run/held","w"); time.sleep(3600)'
until test -e /run/held; do sleep 0.1; done`

// damage changes a byte of the journal in its place.
const damage = "printf '#' | dd of=/var/lib/quotad/ledger/api/00000001 bs=1 seek=20 conv=notrunc status=none"

var badStarts = []badStart{
	{"the port of the proxy is taken", proxied, hold, "systemctl stop holder; rm /run/held", "address already in use", 1},
	{"the state is read-only", embedded, "printf '[Service]\nReadOnlyPaths=/var/lib/quotad\n' >/etc/systemd/system/quotad.service.d/ro.conf; systemctl daemon-reload",
		"rm /etc/systemd/system/quotad.service.d/ro.conf; systemctl daemon-reload", "read-only file system", 1},
	{"the ledger is damaged", embedded, "cd /var/lib/quotad/ledger/api && cp -a 00000001 /root/ && " + damage,
		"mv /root/00000001 /var/lib/quotad/ledger/api/", "is damaged", 1},
	{"the ledger is missing", embedded, "mv /var/lib/quotad/ledger/api /root/", "mv /root/api /var/lib/quotad/ledger/", "is missing", 1},
	{"the ledger is root's", embedded, "chown root:root /var/lib/quotad/ledger/api/00000001 && chmod 600 /var/lib/quotad/ledger/api/00000001",
		"chown quotad:quotad /var/lib/quotad/ledger/api/00000001", "permission denied", 1},
	{"the key is for root alone", proxied, "chmod 600 /etc/quotad/api.key; chgrp root /etc/quotad/api.key", "systemd-tmpfiles --create quotad.conf",
		"chgrp quotad /etc/quotad/api.key && chmod 640", 78},
	{"the file is not good", "nonsense = true\n" + embedded, "true", "cat /root/good.toml >/etc/quotad/config.toml", "config.toml:1: nonsense: unknown key", 78},
}

// testFailedStarts keeps the daemon from starting in every way. systemctl status says why. Callers wait in the socket
// meanwhile; once the cause is mended, systemd starts the daemon by itself, and no caller was lost. quotactl does not wait.
func testFailedStarts(t *testing.T, m *machine) {
	m.write(t, "/root/good.toml", embedded)
	m.sh(t, "echo the-secret-of-the-upstream >/etc/quotad/api.key; systemd-tmpfiles --create quotad.conf; systemctl stop quotad")
	m.write(t, "/etc/quotad/config.toml", embedded)
	m.sh(t, forget+"; touch /var/lib/quotad/accept-new-ledger")
	m.sh(t, "systemctl start quotad && quotactl acquire list")
	callers := startCallers(t, m)
	for _, bad := range badStarts {
		t.Run(bad.name, func(t *testing.T) {
			callers.await(t)
			m.write(t, "/etc/quotad/config.toml", bad.config)
			m.sh(t, "chgrp quotad /etc/quotad/config.toml; "+bad.spoil)
			if output, code := m.try("systemctl restart quotad"); code == 0 {
				t.Errorf("systemctl restart succeeds: %s", output)
			}
			m.await(t, fmt.Sprintf("systemctl status --full quotad.service | grep -F '%s' && systemctl status quotad.service | grep 'status=%d'", bad.why, bad.code))
			if output, code := m.try("quotactl acquire list"); code != 3 || !strings.Contains(output, "journalctl -u quotad -n 5") {
				t.Errorf("quotactl: exit code %d: %s", code, output)
			}
			m.await(t, "test $(systemctl show --value --property=NRestarts quotad.service) -gt 1")
			m.sh(t, bad.mend)
			callers.await(t)
			m.await(t, "systemctl is-active quotad.service quotad.socket")
		})
	}
	callers.stop()
	t.Logf("%d grants over %d bad starts", callers.granted.Load(), len(badStarts))
	// A socket without its service: the first caller starts it.
	m.sh(t, "systemctl stop quotad && systemctl start quotad.socket && quotactl acquire list")
	m.await(t, "systemctl is-active quotad.service")
}

// Callers acquire again and again, each time over a connection of its own.
type callers struct {
	end     context.CancelFunc
	calling sync.WaitGroup
	granted atomic.Int64
}

func startCallers(t *testing.T, m *machine) *callers {
	ctx, end := context.WithCancel(t.Context())
	c := &callers{end: end}
	for range 8 {
		c.calling.Go(func() {
			for ctx.Err() == nil {
				if err := m.callOnce(); err != nil {
					t.Errorf("a caller is lost: %v", err)
					return
				}
				c.granted.Add(1)
			}
		})
	}
	t.Cleanup(c.stop)
	return c
}

// await waits until callers were granted some more.
func (c *callers) await(t *testing.T) {
	t.Helper()
	reached := c.granted.Load() + 50
	eventually(t, "callers are answered", func() bool { return c.granted.Load() >= reached || t.Failed() })
}

func (c *callers) stop() {
	c.end()
	c.calling.Wait()
}

// testFullDiskStart begins the daemon on a full disk, after it was killed with a run under way.
func testFullDiskStart(t *testing.T, m *machine) {
	m.sh(t, "systemctl stop quotad && mount -t tmpfs -o size=8m,mode=750,uid=$(id -u quotad),gid=$(id -g quotad) tmpfs /var/lib/quotad && systemctl start quotad")
	m.await(t, "quotactl run slow --region two")
	m.await(t, running)
	m.sh(t, "dd if=/dev/zero of=/var/lib/quotad/ballast bs=4k status=none || test -s /var/lib/quotad/ballast")
	m.restarted(t, "KILL")
	m.sh(t, "quotactl jobs slow | grep interrupted && quotactl status >/dev/null")
	// A call or two may still have room in the last block of the journal.
	if output, code := m.try("quotactl acquire list"); code != 0 && !strings.Contains(output, "what is left cannot be known now") {
		t.Errorf("on a full disk: exit code %d: %s", code, output)
	}
	m.sh(t, "rm /var/lib/quotad/ballast")
	m.await(t, "quotactl acquire list")
	m.sh(t, "systemctl stop quotad && umount /var/lib/quotad && systemctl start quotad")
}

// testStopOfAFailedStart stops what failed and what waits for its restart: no caller
// starts it again.
func testStopOfAFailedStart(t *testing.T, m *machine) {
	m.write(t, "/root/good.toml", embedded)
	for name, script := range map[string]string{
		"it cannot start": "echo nonsense >/etc/quotad/config.toml; ! systemctl restart quotad",
		"it waits for its restart": `printf '[Service]\nRestartSec=1h\n' >/etc/systemd/system/quotad.service.d/late.conf; systemctl daemon-reload
			systemctl kill --kill-whom=main --signal=KILL quotad; until systemctl show quotad --property=SubState | grep -q auto-restart; do sleep 0.1; done`,
		"it failed": `printf '[Service]\nRestart=no\n' >/etc/systemd/system/quotad.service.d/late.conf; systemctl daemon-reload
			systemctl kill --kill-whom=main --signal=KILL quotad; until systemctl is-failed --quiet quotad; do sleep 0.1; done`,
	} {
		m.sh(t, script+"; systemctl stop quotad.service")
		if output, code := m.try("quotactl --socket /run/quotad.sock acquire list"); code != 3 {
			t.Errorf("%s: acquire of a stopped quotad: exit code %d, want 3:\n%s", name, code, output)
		}
		if got := m.sh(t, "systemctl is-active quotad.service quotad.socket || true"); strings.Contains(got, "\nactive") || strings.Contains(got, "activating") {
			t.Errorf("%s: after the stop: %s", name, got)
		}
		m.sh(t, "rm -f /etc/systemd/system/quotad.service.d/late.conf; cat /root/good.toml >/etc/quotad/config.toml; systemctl daemon-reload; systemctl start quotad")
		m.await(t, "quotactl acquire list")
	}
}

// testCheck has quotad --check say, of a service that is stopped, what would keep it from
// serving, and what only the service can tell.
func testCheck(t *testing.T, m *machine) {
	const check = "quotad --check --config /etc/quotad/config.toml"
	m.sh(t, "systemctl stop quotad")
	if got := m.sh(t, check); !strings.Contains(got, "LoadCredential=redis.password:") || !strings.Contains(got, "state in /var/lib/quotad,") {
		t.Errorf("without the service's credentials:\n%s", got)
	}
	m.write(t, "/etc/quotad/config.toml", embedded)
	m.sh(t, forget+"; touch /var/lib/quotad/accept-new-ledger; systemctl start quotad && systemctl stop quotad")
	for _, row := range []struct {
		spoil, mend, says string
		code              int
	}{
		{damage, "cat /root/kept >/var/lib/quotad/ledger/api/00000001", "is damaged", 1},
		{"chown root: /var/lib/quotad/ledger/api/00000001", "chown quotad: /var/lib/quotad/ledger/api/00000001", "belongs to user root, and the state directory to quotad", 1},
		{"cp /etc/passwd /root/ && sed -i s/^quotad-jobs:/quotad-other:/ /etc/passwd", "cat /root/passwd >/etc/passwd", "quotad-jobs", 78},
		{"true", "true", "is good: ", 0},
	} {
		m.write(t, "/etc/quotad/config.toml", proxied)
		m.sh(t, "systemd-tmpfiles --create quotad.conf; test -e /root/kept || cp /var/lib/quotad/ledger/api/00000001 /root/kept; "+row.spoil)
		if output, code := m.try(check); code != row.code || !strings.Contains(output, row.says) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s", row.spoil, code, row.code, row.says, output)
		}
		m.sh(t, row.mend)
	}
	// A credential that is missing.
	m.sh(t, forget)
	m.write(t, "/etc/quotad/config.toml", config)
	m.sh(t, "mv /etc/quotad/redis.password /root/; ! systemctl start quotad")
	m.await(t, "systemctl status --full quotad.service | grep 'is empty: write the password into it'")
	m.sh(t, "mv /root/redis.password /etc/quotad/ && systemctl restart quotad && quotactl acquire list")
}
