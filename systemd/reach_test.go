package systemd_test

import "testing"

// testTokenInNoArgument runs the job of the API's page: its token is in no argument of a program,
// which every user of the host can read.
func testTokenInNoArgument(t *testing.T, m *machine) {
	m.install(t, withJobs("page"), map[string]string{"page": blockOf(t, "../quota/api/README.md", "# fetch.sh")})
	m.write(t, "/usr/local/bin/curl", `#!/bin/sh
case "$*" in *"$QUOTAD_TOKEN"*) echo shown ;; *) echo hidden ;; esac >>calls
exec /usr/bin/curl "$@"
`)
	m.sh(t, "chmod 755 /usr/local/bin/curl")
	m.passes(t, "page", "1 failed") // it knows another operation
	if got := m.sh(t, "cat /var/lib/quotad/data/page/calls"); got != "hidden" {
		t.Errorf("the token is %q in the arguments of curl", got)
	}
	m.sh(t, "rm /usr/local/bin/curl")
}

// thief is a job that would begin with a fresh budget.
const thief = `#!/bin/sh
touch /var/lib/quotad/accept-new-ledger && rm -r /var/lib/quotad/ledger && kill -9 $PPID
`

// testNewLedger has jobs of quotad's own user link the ledger, so that it is given to them,
// and put a new one in its place: that takes root, and the log says so.
func testNewLedger(t *testing.T, m *machine) {
	m.sh(t, "quotactl acquire list")
	used := m.used(t)
	linker := "#!/bin/sh\nln /var/lib/quotad/ledger/api/00000001 linked\n"
	for name, program := range map[string]string{"linker": linker, "thief": thief} {
		m.write(t, "/opt/"+name, program)
	}
	m.write(t, "/etc/quotad/config.toml", packageConfig+`
[jobs.linker]
credential = "api"
regions = ["one"]
schedule = "manual"
command = ["/opt/linker"]
[jobs.thief]
credential = "api"
regions = ["one"]
schedule = "manual"
command = ["/opt/thief"]
`)
	m.sh(t, "chmod 755 /opt/*")
	const asJobs = "rm /etc/systemd/system/quotad.service.d/daemon-user.conf && systemctl daemon-reload && systemctl restart quotad"
	m.asDaemon(t)
	m.passes(t, "linker", "1 ok")
	m.sh(t, asJobs)
	if got := m.sh(t, "stat --format=%U /var/lib/quotad/ledger/api/00000001"); got != "quotad" {
		t.Errorf("the ledger is given to %s", got)
	}
	m.asDaemon(t)
	m.await(t, "quotactl run thief")
	m.await(t, "journalctl --boot --unit=quotad.service | grep 'is missing, though jobs ran here'")
	m.sh(t, "systemctl stop quotad; test ! -e /var/lib/quotad/ledger")
	m.sh(t, "rm /var/lib/quotad/accept-new-ledger && touch /var/lib/quotad/accept-new-ledger && "+asJobs)
	if got := m.used(t); got != 0 || used == 0 {
		t.Errorf("%d units are used in a new ledger, %d were before", got, used)
	}
	m.await(t, "journalctl --boot --unit=quotad.service --priority=warning | grep 'a new ledger: limits count nothing that was spent before'")
	m.write(t, "/etc/quotad/config.toml", packageConfig)
	m.sh(t, "systemctl reload quotad")
}
