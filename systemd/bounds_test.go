package systemd_test

import (
	"fmt"
	"strings"
	"testing"
)

// jobs is a configuration with more jobs, which a person runs.
func withJobs(names ...string) string {
	text := config
	for _, name := range names {
		text += `
[jobs.` + name + `]
credential = "api"
regions = ["one"]
schedule = "manual"
timeout = "2m"
command = ["/opt/` + name + `"]
env_file = "` + name + `.env"
`
	}
	return text
}

// install has jobs with these programs configured. Each has a secret.
func (m *machine) install(t *testing.T, text string, programs map[string]string) {
	t.Helper()
	for name, program := range programs {
		m.write(t, "/opt/"+name, program)
		m.write(t, "/etc/quotad/"+name+".env", "SECRET="+name+"\n")
	}
	m.write(t, "/etc/quotad/config.toml", text)
	m.sh(t, "chmod 755 /opt/* && systemd-tmpfiles --create quotad.conf && systemctl restart quotad")
}

// intruder is a job that tries what it must not be able to do, and lists what it
// could. Perl, which each Debian has, calls process_vm_readv(2) by its number.
const intruder = `#!/bin/sh
may() { what=$1; shift; "$@" >/dev/null 2>&1 && echo $what >>report.new; }
read_memory() { # where nothing is: whoever may not read hears of that first
	perl -MPOSIX -e '
		my $number = { x86_64 => 310, aarch64 => 270 }->{(POSIX::uname())[4]} or exit 1;
		my $room = "x"; my $local = pack("PQ", $room, 1); my $remote = pack("QQ", 1, 1);
		syscall($number, ($ARGV[0] || $$) + 0, $local, 1, $remote, 1, 0);
		exit($! == POSIX::EFAULT() ? 0 : 1)' $1
}
rm -f report.new report
state=/var/lib/quotad
may write touch here
may token quotactl acquire list
may status env -u QUOTAD_TOKEN quotactl
may spend env -u QUOTAD_TOKEN quotactl acquire list
may pause env -u QUOTAD_TOKEN quotactl pause slow
may mem perl -e 'open(my $m, "+<", "/proc/$ARGV[0]/mem") or exit 1' $PPID
may environ cat /proc/$PPID/environ
may descriptors ls /proc/$PPID/fd/
may memory read_memory $PPID
may own_memory read_memory 0
may chmod chmod 666 /run/quotad.sock
may unlink rm -f /run/quotad.sock
may replace mv /run/quotad.sock socket
may beside touch /run/quotad.sock.new
may password cat /run/credentials/quotad.service/redis.password
may config cat /etc/quotad/config.toml
may secret cat /etc/quotad/victim.env
may history ls $state/jobs
may ledger cat $state/ledger/api/00000001
may kill kill -0 $PPID
may accept touch $state/accept-new-ledger
may link ln $state/ledger/api/00000001 linked
dgram() { perl -MSocket -e 'socket(S, AF_UNIX, SOCK_DGRAM, 0) && send(S, $ARGV[1], 0, sockaddr_un($ARGV[0])) or exit 1' "$@"; }
stream() { perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) && connect(S, sockaddr_un($ARGV[0])) && syswrite(S, $ARGV[1]) or exit 1' "$@"; }
may forge dgram /run/systemd/journal/socket "MESSAGE=forged by its socket
PRIORITY=0
"
may syslog dgram /run/systemd/journal/dev-log "<0>quotad: forged by dev-log"
may stdout stream /run/systemd/journal/stdout "quotad

0
1
0
0
0
<0>forged by stdout
"
may shm touch /dev/shm/intruder
may lock touch /run/lock/intruder
may mqueue touch /dev/mqueue/intruder
may cgroup mkdir $(dirname $(` + ownCgroup + `))/beside
for environ in /proc/[0-9]*/environ; do
	token=$(tr '\0' '\n' <$environ 2>/dev/null | sed -n '/^QUOTAD_JOB=victim$/,$ s/^QUOTAD_TOKEN=//p')
	test -z "$token" || may victim env QUOTAD_TOKEN=$token quotactl acquire list
done
echo $(id -nu): $SECRET >>report.new
mv report.new report
`

// ownCgroup prints the directory of the cgroup that a process is in.
const ownCgroup = `echo $(sed -n '/ - cgroup2 /p' /proc/self/mountinfo | cut -d ' ' -f 5 | head -n 1)$(sed -n 's/^0:://p' /proc/self/cgroup)`

// victim is a job whose secrets stand in its environment while it runs.
const victim = "#!/bin/sh\nexec sleep 60\n"

// reports runs the intruder beside its victim and returns what it could do.
func (m *machine) reports(t *testing.T) string {
	t.Helper()
	m.await(t, "quotactl run victim") // the hosts may still have a run that a kill ended
	m.await(t, "quotactl jobs victim | grep 'last run .*: running'")
	m.await(t, "quotactl run intruder")
	m.await(t, "! quotactl jobs intruder | grep 'last run .*: running'")
	m.sh(t, "quotactl stop $(quotactl jobs victim | sed -n 's/^  last run \\([^:]*\\): running.*/\\1/p'); systemctl is-active quotad.service")
	return strings.Join(strings.Fields(m.sh(t, "cat /var/lib/quotad/data/intruder/report")), " ")
}

// bounds runs the intruder and checks what it could do, and that nothing of it shows outside
// of the sandbox.
func (m *machine) bounds(t *testing.T, want string) {
	t.Helper()
	if got := m.reports(t); got != want {
		t.Errorf("the job could %s, want %s\n%s", got, want, m.journal())
	}
	if got := m.sh(t, "stat --format='%U %G %a' /run/quotad.sock"); got != "root quota 660" {
		t.Errorf("the socket is now %s", got)
	}
	m.sh(t, "test ! -e /dev/shm/intruder && test ! -e /run/lock/intruder && test ! -e /dev/mqueue/intruder && journalctl --sync")
	if got, _ := m.try("journalctl --boot --output=cat | grep '^forged by'"); got != "" {
		t.Errorf("the journal has\n%s", got)
	}
}

// testJobOutOfBounds: a job reaches what the README says, and nothing that is quotad's; each
// of its processes is ended.
func testJobOutOfBounds(t *testing.T, m *machine) {
	straggler := "#!/bin/sh\nsleep 4712 &\n"
	if m.hasCgroups(t) {
		straggler += "env -i setsid sh -c 'env -i setsid sleep 4713 &'\n" + inCgroup
	}
	m.install(t, withJobs("victim", "intruder", "straggler"), map[string]string{"victim": victim, "intruder": intruder, "straggler": straggler})
	m.bounds(t, "write token status own_memory shm victim quotad-jobs: intruder")
	m.passes(t, "runtimes", "4 ok")
	m.passes(t, "straggler", "1 ok")
	m.await(t, "! pgrep --full 'sleep 471[23]'")
	// Killed, quotad ends at its next start what runs as that user.
	m.await(t, "quotactl run victim") // the hosts may still have a run that a kill ended
	m.await(t, "pgrep --uid quotad-jobs --full '^sleep 60'")
	m.restarted(t, "KILL")
	m.await(t, "! pgrep --uid quotad-jobs")
}

// asDaemon has jobs run as quotad, by the drop-in and the commands in it.
func (m *machine) asDaemon(t *testing.T) {
	t.Helper()
	m.sh(t, "install -D -m 644 -t /etc/systemd/system/quotad.service.d /src/systemd/drop-ins/daemon-user.conf")
	commands := "set -e\n"
	for line := range strings.Lines(read(t, "drop-ins/daemon-user.conf")) {
		if command, ok := strings.CutPrefix(line, "#   "); ok {
			commands += command
		}
	}
	m.sh(t, commands)
}

// testJobOfTheDaemonsUser applies the drop-in by which jobs run as quotad: they reach its
// files, and nothing of the process, the socket nor the journal. Without it again, they
// reach them no more.
func testJobOfTheDaemonsUser(t *testing.T, m *machine) {
	m.install(t, withJobs("victim", "intruder"), map[string]string{"victim": victim, "intruder": intruder})
	m.asDaemon(t)
	want := "write token status own_memory password config secret history ledger kill accept link shm victim quotad: intruder"
	if m.hasCgroups(t) {
		want = strings.Replace(want, "shm", "shm cgroup", 1)
	}
	m.bounds(t, want)
	m.sh(t, "rm /etc/systemd/system/quotad.service.d/daemon-user.conf /var/lib/quotad/accept-new-ledger && systemctl daemon-reload && systemctl restart quotad")
	m.await(t, "journalctl --unit=quotad.service --priority=warning | grep 'not given to the user of jobs.*data/intruder/linked'")
	if got := m.sh(t, "stat --format=%U /var/lib/quotad/ledger/api/00000001 /var/lib/quotad/data/intruder /var/lib/quotad/data/intruder/report"); got != "quotad\nquotad-jobs\nquotad-jobs" {
		t.Errorf("quotad's own, the job's directory and its file belong to %q", got)
	}
	m.sh(t, "rm /var/lib/quotad/data/intruder/linked")
	m.write(t, "/etc/quotad/config.toml", config)
	m.sh(t, "systemctl reload quotad")
}

// testForkBomb: a job that forks without end is kept from it by its own limit, below
// what the service may have; the daemon serves on. The bomb has an end all the same,
// for the host's sake: where that is reached, the test fails.
func testForkBomb(t *testing.T, m *machine) {
	const end = 1000
	bomb := fmt.Sprintf(`#!/bin/sh
exec perl -e 'for (my $n = 0; $n < %d;) {
	my $child = fork;
	exec "sleep", "100" if defined $child && !$child;
	defined $child ? $n++ : sleep 1
}
sleep 100'
`, end)
	m.install(t, withJobs("bomb"), map[string]string{"bomb": bomb})
	pid := m.property(t, "MainPID")
	m.await(t, "quotactl run bomb")
	m.await(t, `test "$(ps -L --no-headers --user quotad,quotad-jobs | wc -l)" -gt 300`)
	for range 20 {
		m.sh(t, "quotactl acquire list")
	}
	if got := m.sh(t, "ps -L --no-headers --user quotad,quotad-jobs | wc -l"); got > "512" || len(got) > 3 {
		t.Errorf("%s processes and threads, more than the service may have", got)
	}
	m.sh(t, "quotactl stop $(quotactl jobs bomb | sed -n 's/^  last run \\([^:]*\\): running.*/\\1/p')")
	m.await(t, `test "$(ps -L --no-headers --user quotad,quotad-jobs | wc -l)" -lt 100`)
	m.passes(t, "runtimes", "4 ok")
	if got := m.property(t, "MainPID"); got != pid {
		t.Error("the bomb ended the daemon")
	}
	m.write(t, "/etc/quotad/config.toml", config)
	m.sh(t, "systemctl reload quotad")
}
