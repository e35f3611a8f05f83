package systemd_test

import (
	"strings"
	"testing"
)

// testReload changes the configuration under a run: it ends as it began, and the
// next one follows the new file.
func testReload(t *testing.T, m *machine) {
	m.await(t, "quotactl run slow --region one")
	m.await(t, running)
	changed := strings.Replace(config, `regions = ["one", "two"]`, `regions = ["three"]`, 1)
	changed = strings.Replace(changed, `command = ["/opt/slow"]`, `command = ["true"]`, 1)
	changed = strings.Replace(changed, "units = 1_000_000", "units = 500_000", 1)
	m.write(t, "/etc/quotad/config.toml", changed)
	pid := m.property(t, "MainPID")
	m.sh(t, "systemctl reload quotad")
	if got := m.property(t, "MainPID"); got != pid {
		t.Error("a reload restarted the daemon")
	}
	m.sh(t, running)
	m.await(t, "systemctl show --value --property=StatusText quotad.service | grep -q 'slow: one running; .* of 499,000 units left'")
	m.sh(t, "quotactl stop $(quotactl runs slow -o json | sed -n 's/.*\"id\": \"\\(.*\\)\",/\\1/p' | head -n 1)")
	m.await(t, "quotactl jobs slow | grep 'last run .*: interrupted'")
	m.passes(t, "slow", "1 ok")
	m.write(t, "/etc/quotad/config.toml", config)
	m.sh(t, "systemctl kill --kill-whom=main --signal=HUP quotad")
	m.await(t, "quotactl jobs slow | grep 'regions one two'")
}

// testReloadOfABadFile changes nothing, and is told to everybody who asks.
func testReloadOfABadFile(t *testing.T, m *machine) {
	for wrong, text := range map[string]string{
		"log.levl":     config + "[log]\nlevl = \"debug\"\n",
		"passes.drain": strings.Replace(config, `drain = "1s"`, `drain = "2s"`, 1),
	} {
		m.write(t, "/etc/quotad/config.toml", text)
		if output, code := m.try("systemctl reload quotad"); code == 0 {
			t.Errorf("%s: systemctl reload succeeds: %s", wrong, output)
		}
		if output, code := m.try("quotactl reload"); code != 1 || !strings.Contains(output, wrong) {
			t.Errorf("%s: quotactl reload: exit code %d:\n%s", wrong, code, output)
		}
		m.await(t, "systemctl show --value --property=StatusText quotad.service | grep 'was not loaded, .*"+wrong+"'")
		m.sh(t, "quotactl | tr -s '\n ' ' ' | grep 'was not loaded, .*"+wrong+"'")
		m.await(t, "journalctl --unit=quotad.service --priority=err | grep 'cannot reload.*"+wrong+"'")
		m.sh(t, "quotactl jobs slow | grep 'regions one two'")
	}
	m.write(t, "/etc/quotad/config.toml", config)
	m.sh(t, "systemctl reload quotad")
	m.await(t, "! systemctl show --value --property=StatusText quotad.service | grep 'not loaded'")
}
