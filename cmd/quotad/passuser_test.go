package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"quotad/jobs/process"
	"quotad/quota/api"
)

// A job that tries what the user of the daemon could do, and lists what it could.
const curious = `
[passes]
user = "www-data"
drain = "1ms"
[credentials.api]
limits.daily.units = 10
operations.list = 1
[jobs.curious]
credential = "api"
regions = ["one"]
cron = "$FAR * * *"
run_at_start = true
env_file = "curious.env"
command = ["sh", "-c", """
state=$(dirname $QUOTAD_SOCKET)
may() { what=$1; shift; "$@" >/dev/null 2>&1 && echo $what >>report.new; }
rm -f report.new
may write touch here
may token quotactl acquire list
may read env -u QUOTAD_TOKEN quotactl
may spend env -u QUOTAD_TOKEN quotactl acquire list
may list ls $state
may ledger cat $state/ledger/api/00000001
may remove rm -r $state/ledger
may jobs ls $state/jobs
may env cat $state/../other.env
may environ cat /proc/$PPID/environ
may kill kill -0 $PPID
may chmod chmod 666 $QUOTAD_SOCKET
may unlink rm -f $QUOTAD_SOCKET
may replace mv $QUOTAD_SOCKET $state/data/curious/socket
echo $(id -nu) $(id -nG) $HOME $SECRET >>report.new
mv report.new report
sleep 4242; true"""]
[jobs.other]
credential = "api"
regions = ["one"]
cron = "$FAR * * *"
run_at_start = true
env_file = "other.env"
command = ["true"]
`

// TestPassesOfAnotherUser is the table of what a job cannot reach where passes have
// a user of their own.
func TestPassesOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can run passes as another user")
	}
	user := account(t, "www-data")
	dir := shortDir(t)
	asleep := fmt.Sprint("sleep ", 100_000+os.Getpid()) // that of no other test, nor of this one when it failed
	configured := strings.Replace(curious, "sleep 4242", asleep, 1)
	for name, text := range map[string]string{"config.toml": configured, "curious.env": "SECRET=mine\n", "other.env": "SECRET=theirs\n"} {
		write(t, dir, name, text)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // as /var/lib is, and a home often
		t.Fatal(err)
	}
	startIn(t, dir)
	report := awaitFile(t, filepath.Join(dir, ".quotad/data/curious/report"))
	want := "write\ntoken\nread\nwww-data www-data /var/www mine"
	if report != want {
		t.Errorf("the job could:\n%s\nwant\n%s", report, want)
	}
	// Neither does the user of jobs outside a pass.
	socket := filepath.Join(dir, ".quotad/quotad.sock")
	job := caller{name: "the user of jobs", person: user}
	for path, want := range map[string]int{"/v1/acquire": 403, "/v1/jobs/curious/pause": 403} {
		if got := job.ask(t, socket, "POST", path, "credential=api&operation=list"); got != want {
			t.Errorf("%s of the user of jobs: %d, want %d", path, got, want)
		}
	}
	if got := job.ask(t, socket, "GET", "/v1/status", ""); got != 200 {
		t.Errorf("status for the user of jobs: %d, want 200", got)
	}
	// What runs as another user is ended all the same.
	client := &api.Client{Socket: socket}
	var runs []struct{ ID string }
	must(t, client.Get(context.Background(), "/v1/runs?job=curious", &runs))
	running := func() bool {
		return exec.Command("pgrep", "--full", "^"+asleep+"$", "--uid", "www-data").Run() == nil
	}
	eventually(t, running) // it has reported, and goes on
	if output, err := exec.Command("quotactl", "--socket", socket, "stop", runs[0].ID).CombinedOutput(); err != nil {
		t.Fatalf("stop: %v: %s", err, output)
	}
	eventually(t, func() bool { return !running() })
}

// What passes wrote as quotad's own user is given to theirs, but nothing that a pass has
// linked into its directory.
func TestWorkDirsAreGivenToTheUserOfJobs(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	u, err := process.LookupUser("www-data")
	if err != nil {
		t.Skip(err)
	}
	state := shortDir(t)
	dir := filepath.Join(state, "data", "fetch")
	must(t, os.MkdirAll(filepath.Join(dir, "deep"), 0o750))
	owners := map[string]int{"journal": 0, "data/fetch": u.UID, "data/fetch/deep": u.UID, "data/fetch/deep/page": u.UID, "data/fetch/link": u.UID, "data/fetch/linked": 0, "data/fetch/theirs": 1}
	for _, file := range []string{"journal", "data/fetch/deep/page", "data/fetch/theirs"} {
		must(t, os.WriteFile(filepath.Join(state, file), []byte("x"), 0o600))
	}
	err = errors.Join(os.Link(filepath.Join(state, "journal"), filepath.Join(dir, "linked")),
		os.Symlink(filepath.Join(state, "journal"), filepath.Join(dir, "link")), os.Lchown(filepath.Join(dir, "theirs"), 1, 1))
	must(t, err)
	kept, err := give(dir, u)
	if err != nil || len(kept) != 1 || kept[0] != filepath.Join(dir, "linked") {
		t.Errorf("got %q, %v, want the linked file kept", kept, err)
	}
	for file, want := range owners {
		info, err := os.Lstat(filepath.Join(state, file))
		must(t, err)
		if got := int(info.Sys().(*syscall.Stat_t).Uid); got != want {
			t.Errorf("%s belongs to %d, want %d", file, got, want)
		}
	}
}

// A daemon that may not become another user says so, and what would do.
func TestPassesOfAUserOutOfReach(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be an ordinary user instead")
	}
	dir, nobody := shortDir(t), account(t, "nobody")
	must(t, os.WriteFile(filepath.Join(dir, "config.toml"), []byte(farOff(curious)), 0o644))
	for _, name := range []string{"curious.env", "other.env"} {
		file := filepath.Join(dir, name)
		must(t, errors.Join(os.WriteFile(file, nil, 0o600), os.Chown(file, nobody.uid, nobody.gid)))
	}
	must(t, os.Chmod(dir, 0o755))
	cmd := exec.Command("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "quotad", "--check")
	cmd.Dir = dir
	output, err := cmd.CombinedOutput()
	want := `config.toml:3: passes.user: cannot run passes as "www-data": quotad lacks CAP_SETUID, CAP_SETGID, CAP_KILL, CAP_CHOWN: ` +
		"remove systemd/drop-ins/daemon-user.conf, or start quotad as root\n"
	if cmd.ProcessState.ExitCode() != exitConfig || !strings.Contains(string(output), want) {
		t.Errorf("%v: got %s, want exit code 78 and %s", err, output, want)
	}
}
