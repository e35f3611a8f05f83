package systemd_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// bootVariable asks for a test that takes minutes the first time: it downloads a
// Debian. It needs root, debootstrap and systemd-nspawn. A host on which nothing
// can be booted is told of, and the test skipped; with "require" it fails there.
const bootVariable = "QUOTAD_TEST_BOOT"

// cannot ends the test because of the host, before quotad has had a part in it.
func cannot(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv(bootVariable) == "require" {
		t.Fatalf(format, args...)
	}
	t.Skipf("NOT TESTED HERE: "+format, args...)
}

// TestBoot follows a host from the installation to the removal of quotad, as the
// README tells it, on a booted systemd: units, sandbox and daemon together.
func TestBoot(t *testing.T) {
	if os.Getenv(bootVariable) == "" {
		t.Skip("set " + bootVariable + "=1 to boot a machine with systemd-nspawn")
	}
	if os.Geteuid() != 0 {
		cannot(t, "only root can boot a machine")
	}
	for _, program := range []string{"debootstrap", "systemd-nspawn", "nsenter", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			cannot(t, "%v: apt-get install debootstrap systemd-container util-linux", err)
		}
	}
	m := &machine{root: debian(t), source: clone(t)}
	m.packages = startPackages(t.Context(), m.source) // meanwhile
	t.Cleanup(func() { m.off(t) })
	if err := m.start(); err != nil {
		cannot(t, "no Debian boots on this host, even without quotad: %v\n%s", err, tail(m.console.String()))
	}
	// It has a sandbox much like ours.
	if output, code := m.try("systemctl is-active redis-server.service || systemctl status --no-pager redis-server.service"); code != 0 || output != "active" {
		cannot(t, "no service can be confined on this host, even without quotad:\n%s", output)
	}
	for _, chapter := range []struct {
		name string
		run  func(*testing.T, *machine)
	}{
		{"install", testInstall},
		{"boot with redis", testBootWithRedis},
		{"users", testUsers},
		{"runtimes", testRuntimes},
		{"a job out of bounds", testJobOutOfBounds},
		{"a job of the daemon's user", testJobOfTheDaemonsUser},
		{"a job of the README", testTokenInNoArgument},
		{"a job that forks without end", testForkBomb},
		{"restart under load", testRestartUnderLoad},
		{"kill -9", testKill},
		{"frozen", testFrozen},
		{"no redis", testNoRedis},
		{"stop", testStop},
		{"starts that fail", testFailedStarts},
		{"a start on a full disk", testFullDiskStart},
		{"a stop of a start that failed", testStopOfAFailedStart},
		{"check", testCheck},
		{"jobs that need more", testJobsThatNeedMore},
		{"upgrade", testUpgrade},
		{"uninstall", testUninstall},
		{"package", testPackage},
		{"a job that wants a new ledger", testNewLedger},
		{"package upgrade", testPackageUpgrade},
		{"package removal", testPackageRemoval},
	} {
		if !t.Run(chapter.name, func(t *testing.T) { chapter.run(t, m) }) {
			t.Fatal("the rest of the story needs this chapter")
		}
	}
}

// testInstall runs the README's commands; what they leave is a daemon that runs
// the shipped example.
func testInstall(t *testing.T, m *machine) {
	m.sh(t, fromREADME(t, "systemctl enable --now quotad"))
	m.await(t, "systemctl --quiet is-active quotad.service quotad.socket")
	m.await(t, "quotactl runs trending | grep -q ' done '")
	m.await(t, "quotactl runs discover | grep -q ' done '")
	if output := m.sh(t, "systemd-analyze verify quotad.service quotad.socket"); output != "" {
		t.Errorf("systemd-analyze verify: %s", output)
	}
	for file, want := range map[string]string{
		"/run/quotad.sock":        "root quota 660",
		"/etc/quotad":             "root quotad 750",
		"/etc/quotad/config.toml": "root quotad 640",
		"/var/lib/quotad":         "quotad quotad 751",
	} {
		if got := m.sh(t, "stat --format='%U %G %a' "+file); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
}

// config is what the rest of the story runs with: the next slot is half a day away.
var config = strings.Replace(`
[ledger]
backend = "redis"
deadline = "5s" # the host may be a slow one, and it is not Redis that is tested
[ledger.redis]
addrs = ["unix:///run/redis/redis.sock"] # not every host lets a machine have a network, be it the loopback
password_file = "/run/credentials/quotad.service/redis.password"
[credentials.api]
limits.daily.units = 1_000_000
limits.daily.reserve = 1_000
operations.list = 1
[passes]
drain = "1s"
[jobs.runtimes]
credential = "api"
regions = ["sh", "python3", "node", "php"]
every = "24h"
stagger = "0s"
command = ["/opt/runtime"]
[jobs.slow]
credential = "api"
regions = ["one", "two"]
schedule = "manual"
command = ["/opt/slow"]
`, `every = "24h"`, time.Now().UTC().Add(12*time.Hour).Format(`cron = "4 15 * * *"`), 1)

// stopTime is in the place of the unit's minute and a half. Twice, in a container
// within a container on a busy host, systemd restarted a killed service only when
// that was over, though it had logged a KILL to each process left; why is not known.
const stopTime = "15s"

// forget takes away what belongs to one ledger, before another one is configured.
const forget = "systemctl stop quotad.socket quotad.service; rm -r /var/lib/quotad/ledger"

// testBootWithRedis switches to a Redis that asks for a password, and boots anew.
func testBootWithRedis(t *testing.T, m *machine) {
	m.write(t, "/etc/quotad/config.toml", config)
	m.write(t, "/etc/quotad/redis.password", "open sesame\n")
	m.write(t, "/etc/systemd/system/quotad.service.d/a.conf", "[Service]\nTimeoutStopSec="+stopTime+"\n")
	m.write(t, "/opt/runtime", runtimes)
	m.write(t, "/opt/slow", slow)
	m.sh(t, `chmod 755 /opt/*
		printf '%s\n' 'requirepass "open sesame"' 'appendonly yes' 'unixsocket /run/redis/redis.sock' 'unixsocketperm 777' >>/etc/redis/redis.conf
		systemd-tmpfiles --create quotad.conf
		install -D -m 644 -t /etc/systemd/system/quotad.service.d /src/systemd/drop-ins/redis-password.conf`)
	m.sh(t, forget)
	m.halt(t)
	m.boot(t)
	m.sh(t, "systemctl is-active quotad.service redis-server.service")
	status := m.property(t, "StatusText")
	if want := "idle; 999,000 of 999,000 units left; next runtimes "; !strings.HasPrefix(status, want) {
		t.Errorf("the status is %q, want %q and a time", status, want)
	}
	if got := m.property(t, "NRestarts"); got != "0" {
		t.Errorf("%s restarts until it ran, want none", got)
	}
	if got := m.sh(t, "journalctl --boot --unit=quotad.service --priority=notice --identifier=quotad --output=cat"); got != "" {
		t.Errorf("the journal has what a person should look at:\n%s", got)
	}
	if got := m.sh(t, "stat --format=%a /etc/quotad/redis.password"); got != "600" {
		t.Errorf("the password's file has mode %s, want 600", got)
	}
	if got := m.sh(t, "redis-cli -s /run/redis/redis.sock -a 'open sesame' --no-auth-warning keys '*'"); got == "" {
		t.Error("there is nothing in Redis")
	}
}

// testUsers asks as a member of the group, as an operator and as a stranger.
func testUsers(t *testing.T, m *machine) {
	m.sh(t, "useradd -G quota alice && useradd -G quota,quotad-admin olivia && useradd bob")
	acquire := `curl --silent --output /dev/null --write-out "%{http_code}" --unix-socket /run/quotad.sock http://quotad/v1/acquire -d credential=api -d operation=list`
	for _, row := range []struct {
		who, does string
		output    string // part of it
		code      int
	}{
		{"alice", acquire, "200", 0},
		{"alice", "quotactl acquire list", "granted", 0},
		{"alice", "quotactl pause slow", "may read and", 1},
		{"alice", "quotactl reload", "may read and", 1},
		{"olivia", "quotactl pause slow", "paused", 0},
		{"olivia", "quotactl pause --end slow", "slow", 0},
		{"olivia", "quotactl reload", "read again: no key changed", 0},
		{"bob", acquire, "000", 7},
		{"bob", "quotactl acquire list", "permission denied", 3},
		{"bob", "cat /etc/quotad/config.toml", "Permission denied", 1},
		{"quotad-jobs", "quotactl", "LIMIT", 0},
		{"quotad-jobs", acquire, "403", 0},
		{"quotad-jobs", "quotactl acquire list", "finds its run token in $QUOTAD_TOKEN", 1},
		{"quotad-jobs", "quotactl reload", "may read and", 1},
		{"quotad-jobs", "cat /etc/quotad/config.toml", "Permission denied", 1},
		{"quotad", "quotactl reload", "may read and", 1},
		{"quotad", "cat /etc/quotad/redis.password", "Permission denied", 1},
	} {
		output, code := m.as(row.who, row.does)
		if code != row.code || !strings.Contains(output, row.output) {
			t.Errorf("%s: %s: exit code %d, want %d; output, want %q:\n%s", row.who, row.does, code, row.code, row.output, output)
		}
	}
}

// testUpgrade runs the README's commands over the installation.
func testUpgrade(t *testing.T, m *machine) {
	before := m.property(t, "MainPID")
	m.sh(t, fromREADME(t, "systemctl enable --now quotad")+"systemctl restart quotad")
	m.sh(t, "systemctl is-active quotad.service")
	if m.property(t, "MainPID") == before {
		t.Error("the old quotad runs on")
	}
	if output, code := m.as("alice", "quotactl acquire list"); code != 0 {
		t.Errorf("acquire: exit code %d:\n%s", code, output)
	}
}

// findOurs lists what is there of quotad.
const findOurs = `find / -xdev -path /src -prune -o -path /proc -prune -o \( -name 'quotad*' -o -name 'quotactl*' -o -name 'ytfetch*' -o -name 'ytsearch*' \) -print
	getent passwd quotad; getent group quotad quota quotad-admin; systemctl list-unit-files --no-legend 'quotad*'; true`

// testUninstall runs the README's commands: first the programs go, then what
// they knew.
func testUninstall(t *testing.T, m *machine) {
	m.sh(t, fromREADME(t, "systemctl disable --now quotad"))
	m.sh(t, "test -d /etc/quotad && test -d /var/lib/quotad && ! test -e /run/quotad.sock")
	m.sh(t, fromREADME(t, "userdel quotad"))
	if left := m.sh(t, findOurs); left != "" {
		t.Errorf("it left:\n%s", left)
	}
}
