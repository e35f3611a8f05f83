package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"quotad/quota/redisledger/redistest"
)

// A startScene is the place of a daemon that systemd starts.
type startScene struct {
	*testing.T
	dir, state string
}

func (s *startScene) configure(text string) { write(s.T, s.dir, "config.toml", text) }

func (s *startScene) ledger() string { return filepath.Join(s.state, journalDir, "api", "00000001") }

// takePort has the configuration name a port that is taken.
func takePort(table string) func(s *startScene) (mend func() error) {
	return func(s *startScene) func() error {
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		must(s, err)
		s.configure(oneCredential + fmt.Sprintf("[%s]\nlisten = %q\n", table, taken.Addr()))
		return taken.Close
	}
}

// keepLedger moves the journal away, and has mend put it back.
func keepLedger(s *startScene) (mend func() error) {
	kept := s.ledger() + ".kept"
	must(s, os.Rename(s.ledger(), kept))
	return func() error { return errors.Join(os.RemoveAll(s.ledger()), os.Rename(kept, s.ledger())) }
}

// failedStarts have what keeps quotad from starting, the code with which it exits, and what the log, systemd's status
// and --check say.
var failedStarts = []struct {
	name  string
	spoil func(s *startScene) (mend func() error)
	code  int
	says  string
}{
	{"the port of the proxy is taken", takePort("proxy"), exitError, "address already in use"},
	{"the port of the metrics is taken", takePort("metrics"), exitError, "address already in use"},
	{"the ledger is damaged", func(s *startScene) func() error {
		mend := keepLedger(s)
		text, err := os.ReadFile(s.ledger() + ".kept")
		must(s, err)
		text[20] = '#'
		must(s, os.WriteFile(s.ledger(), text, 0o600))
		return mend
	}, exitError, `ledger/api/00000001 is damaged`},
	{"the ledger is missing", keepLedger, exitError, `ledger/api is missing; .*--accept-new-ledger`},
	{"the file is not good", func(s *startScene) func() error {
		s.configure("nonsense = true\n" + oneCredential)
		return func() error { s.configure(oneCredential); return nil }
	}, exitConfig, "config.toml:1: nonsense: unknown key"},
	{"there is no file", func(s *startScene) func() error {
		must(s, os.Remove(filepath.Join(s.dir, "config.toml")))
		return func() error { s.configure(oneCredential); return nil }
	}, exitConfig, "cannot read configuration"},
	{"everybody may write to the state", func(s *startScene) func() error {
		must(s, os.Chmod(s.state, 0o777))
		return func() error { return os.Chmod(s.state, 0o750) }
	}, exitError, "everybody on this host may write to .* chmod o-w "},
	{"the state is read-only", func(s *startScene) func() error {
		if err := syscall.Mount(s.state, s.state, "", syscall.MS_BIND, ""); err != nil {
			s.Skipf("cannot mount: %v", err)
		}
		s.Cleanup(func() { syscall.Unmount(s.state, syscall.MNT_DETACH) })
		must(s, syscall.Mount("", s.state, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
		return func() error { return syscall.Mount("", s.state, "", syscall.MS_BIND|syscall.MS_REMOUNT, "") }
	}, exitError, "read-only file system"},
}

// A start that fails ends quotad, and says why in the log and in systemd's status; --check says it before. A caller waits
// meanwhile in systemd's socket, and is answered by the start that succeeds.
func TestFailedStart(t *testing.T) {
	needRoot(t)
	t.Parallel()
	began := shortDir(t)
	first := startConfigured(t, began, oneCredential)
	first.logs(t, "^serving$")
	_, err := spend(serviceClient(began))
	must(t, err)
	first.stop(t)
	for _, way := range failedStarts {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s := &startScene{T: t, dir: shortDir(t)}
			s.state = filepath.Join(s.dir, "state")
			must(t, exec.Command("cp", "-a", filepath.Join(began, "state"), s.dir).Run())
			manager, socket := notifySocket(t, s.dir), passedSocket(t, s.dir)
			s.configure(oneCredential)
			mend := way.spoil(s)
			before, says := s.tree(), regexp.MustCompile(way.says)
			if output, code := s.check(); code != way.code || !says.MatchString(output) {
				t.Errorf("--check: exit code %d, want %d and %q:\n%s", code, way.code, way.says, output)
			}
			if after := s.tree(); after != before {
				t.Errorf("--check changed\n%sto\n%s", before, after)
			}
			waits := make(chan error, 1)
			go func() { waits <- callOnce(filepath.Join(s.dir, "api.sock")) }()
			failed := startAsService(t, s.dir, socket)
			awaitNotice(t, manager, "STATUS=.*"+way.says+".*")
			if code, err := failed.end(); code != way.code || err != nil || !says.MatchString(failed.text()) {
				t.Errorf("exit code %d, want %d and %q: %v\n%s", code, way.code, way.says, err, failed.text())
			}
			must(t, mend())
			mended := startAsService(t, s.dir, socket)
			if err := <-waits; err != nil {
				t.Errorf("a caller is lost: %v", err)
			}
			mended.stop(t)
		})
	}
}

// check has quotad check the file, for its state directory.
func (s *startScene) check() (output string, code int) {
	cmd := exec.Command("quotad", "--check")
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "STATE_DIRECTORY="+s.state)
	text, _ := cmd.CombinedOutput()
	return string(text), cmd.ProcessState.ExitCode()
}

// tree lists the files of the ledger with their sizes.
func (s *startScene) tree() string {
	var list strings.Builder
	must(s, filepath.Walk(filepath.Join(s.state, journalDir), func(path string, info os.FileInfo, err error) error {
		if err == nil {
			fmt.Fprintln(&list, path, info.Size(), info.ModTime(), info.Mode())
		}
		return err
	}))
	return list.String()
}

// What mends itself or can wait is no reason not to start: quotad is ready and alive to systemd, and the status says what
// is wrong. Of a ledger that was never reached nobody knows what is left.
func TestStartsWithATrouble(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ text, says, kind string }{
		"Redis is away": {"[ledger]\nbackend = \"redis\"\nredis.addrs = [\"unix:///nowhere/redis.sock\"]\n" + oneCredential,
			"Redis cannot be reached: every call is refused: .*", "ledger"},
		"key_command fails": {oneCredential + "[proxy]\nlisten = \"127.0.0.1:0\"\n[credentials.api.proxy]\nupstream = \"http://127.0.0.1:1\"\n" +
			"key_command = [\"false\"]\nroutes = { \"GET /\" = \"list\" }\n", ".*", "key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := shortDir(t)
			manager := notifySocket(t, dir)
			startConfigured(t, dir, row.text)
			awaitNotice(t, manager, `READY=1\nSTATUS=`+row.says)
			for range beats + 1 { // for longer than systemd would wait
				awaitNotice(t, manager, `WATCHDOG=1`)
			}
			known := row.kind != "ledger"
			ask := func(args ...string) (string, error) {
				output, err := exec.Command("quotactl", append([]string{"--socket", serviceClient(dir).Socket}, args...)...).Output()
				return string(output), err
			}
			if text, err := ask("status", "-o", "json"); err != nil || !strings.Contains(text, `"kind": "`+row.kind+`"`) {
				t.Errorf("want a trouble %q: %v\n%s", row.kind, err, text)
			}
			if text, err := ask("status"); err != nil || strings.Contains(text, "1,000,000") != known || strings.Contains(text, "1970") {
				t.Errorf("the status, with what is left known: %v: %v\n%s", known, err, text)
			}
			if text, err := ask("status", "api", "daily", "-o", "value"); (err == nil) != known || (text == "1000000\n") != known {
				t.Errorf("the value, known: %v: %v %q", known, err, text)
			}
			if left, there := scrape(t, serviceClient(dir))[`quotad_limit_left_units{credential="api",limit="daily"}`]; there != known {
				t.Errorf("the metric, known: %v: %v", known, left)
			}
		})
	}
}

// --check says what Redis lacks. With --strict it also writes there, and what is lacking is an error.
func TestCheckOfRedis(t *testing.T) {
	t.Parallel()
	unsafe := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	full := redistest.Start(t, "--appendonly", "yes", "--maxmemory", "1")
	for _, row := range []struct {
		addr   string
		strict string // what a strict check says besides
		says   []string
	}{
		{unsafe.Addr, "", []string{"maxmemory-policy is allkeys-lru", "appendonly is no"}},
		{full.Addr, "redis refuses: OOM", nil},
		{"unix:///nowhere/redis", "", []string{"cannot reach redis"}},
	} {
		dir := shortDir(t)
		write(t, dir, "config.toml", "[ledger]\n"+onRedis(row.addr)+oneCredential)
		for _, want := range []int{exitOK, exitError} {
			var text strings.Builder
			code := run([]string{"--check", fmt.Sprintf("--strict=%v", want == exitError), "--config", filepath.Join(dir, "config.toml")}, &text, &text)
			output := text.String()
			says := row.says
			if want == exitError {
				says = append(says, row.strict)
			}
			for _, one := range says {
				if code != want || !strings.Contains(output, one) {
					t.Errorf("exit code %d, want %d and %q:\n%s", code, want, one, output)
				}
			}
		}
	}
}

// inService has a shell run a command as root on a host where the package is installed and the service has not
// started yet: in /etc are the file of the service, and a key of root's alone.
const inService = `set -e
mount -t tmpfs -o mode=755 tmpfs /mnt
cp /etc/passwd /etc/group /mnt/
install -d -m 750 -g nogroup /mnt/quotad
install -m 640 -g nogroup config.toml /mnt/quotad/
install -D /dev/null /mnt/systemd/system/quotad.service
mount --bind /mnt /etc
mount -t tmpfs -o mode=755 tmpfs /var/lib
rm config.toml
`

// As root, --check of the service's file says what the service would, before its first start as well: in its state
// directory.
func TestCheckBeforeTheFirstStart(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 || exec.Command("unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt").Run() != nil {
		t.Skip("only root can have an /etc of its own")
	}
	dir := shortDir(t)
	for _, row := range []struct{ command, says string }{
		{"quotad --check", "is good: state in /var/lib/quotad, socket /run/quotad.sock\n"},
		{"cp /etc/quotad/config.toml . && quotad --check", "config.toml is good: state in " + dir + "/.quotad,"},
		{"rm -r /etc/systemd && quotad --check", "state in " + dir + "/.quotad,"}, // there is no service
	} {
		write(t, dir, "config.toml", oneCredential)
		cmd := exec.Command("unshare", "--mount", "sh", "-c", inService+row.command)
		cmd.Dir = dir
		if output, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(output), row.says) {
			t.Errorf("%s: %v, want %q:\n%s", row.command, err, row.says, output)
		}
	}
}
