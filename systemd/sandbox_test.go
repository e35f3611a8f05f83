package systemd_test

import (
	"strings"
	"testing"
)

// runtimes is a job that has each runtime compile code while it runs.
const runtimes = `#!/bin/sh
quotactl acquire list >/dev/null || exit
case $QUOTAD_REGION in
sh) exec cat /proc/cpuinfo /proc/meminfo >/dev/null ;;
python3) exec python3 -c 'print(sum(i * i for i in range(10 ** 6)))' ;;
node) exec node -e 'let s = 0; for (let i = 0; i < 1e7; i++) s += i % 7; console.log(s)' ;;
php) exec php -d opcache.enable_cli=1 -d opcache.jit=tracing -d opcache.jit_buffer_size=16M -r '
	for ($i = $s = 0; $i < 1e7; $i++) $s += $i % 7;
	echo $s, PHP_EOL;
	exit(opcache_get_status()["jit"]["on"] && stream_socket_server("tcp://127.0.0.1:0") ? 0 : 3);' ;;
esac
`

// testRuntimes runs jobs in the service's sandbox: nothing in it breaks a
// just-in-time compiler, nor keeps them from the network.
func testRuntimes(t *testing.T, m *machine) {
	m.passes(t, "runtimes", "4 ok")
}

// passes runs a job to its end, and wants its summary to hold a text.
func (m *machine) passes(t *testing.T, job, want string) {
	t.Helper()
	m.await(t, "quotactl run "+job)
	m.await(t, "! quotactl jobs "+job+" | grep 'last run .*: running'")
	if got := m.sh(t, "quotactl jobs "+job); !strings.Contains(got, want) {
		t.Errorf("want %s:\n%s\n%s", want, got, m.journal())
	}
}

// generous is a job that does what the sandbox forbids unless jobs.conf lets it.
const generous = `#!/bin/sh -e
quotactl acquire list >/dev/null
echo fetched >/srv/$QUOTAD_REGION
chown quotad:quotad /srv/$QUOTAD_REGION
cp -p /srv/$QUOTAD_REGION /srv/$QUOTAD_REGION.copy
test "$(setpriv --reuid nobody --regid nogroup --clear-groups id -un)" = nobody
env -i setsid sleep 4711 &
until [ "$(cat /proc/$!/comm)" = sleep ]; do :; done
`

// inCgroup is a line of a job that fails unless it has a cgroup of its own.
const inCgroup = "grep -q '^0::.*/pass-' /proc/self/cgroup\n"

// hasCgroups tells whether systemd has cgroups of version 2 to delegate.
func (m *machine) hasCgroups(t *testing.T) bool {
	t.Helper()
	_, code := m.try("grep -q ' - cgroup2 ' /proc/self/mountinfo")
	if code != 0 {
		t.Log("NOT TESTED HERE: this host has no cgroup v2, which alone holds every process that hides")
	}
	return code == 0
}

// testJobsThatNeedMore applies every line of the drop-in for jobs.
func testJobsThatNeedMore(t *testing.T, m *machine) {
	job := generous
	if m.hasCgroups(t) {
		job += inCgroup
	}
	m.write(t, "/opt/generous", job)
	m.write(t, "/etc/quotad/config.toml", config+`
[jobs.generous]
credential = "api"
regions = ["one"]
schedule = "manual"
command = ["/opt/generous"]
`)
	m.sh(t, "chmod 755 /opt/generous && chown quotad /srv && systemctl reload quotad")
	m.passes(t, "generous", "1 failed")
	m.write(t, "/etc/systemd/system/quotad.service.d/jobs.conf", applied(read(t, "drop-ins/jobs.conf")))
	m.asDaemon(t)
	m.passes(t, "generous", "1 ok")
	m.await(t, "! pgrep --full 'sleep 471[1]'")
}
