package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// failedStarts have what keeps quotad from starting, the code with which it exits, and what the log, systemd's status
// and --check say.
var failedStarts = []struct {
	name  string
	spoil func(t *testing.T, dir string)
	code  int
	says  string
}{
	{"the file is not good", func(t *testing.T, dir string) { write(t, dir, "config.toml", "nonsense = true\n"+oneCredential) },
		exitConfig, "config.toml:1: nonsense: unknown key"},
	{"the ledger is damaged", func(t *testing.T, dir string) {
		file := filepath.Join(dir, "state", journalDir, "api", "00000001")
		text := []byte(readPage(t, file))
		text[20] = '#'
		must(t, os.WriteFile(file, text, 0o600))
	}, exitError, `ledger/api/00000001 is damaged`},
	{"the state is read-only", func(t *testing.T, dir string) {
		state := filepath.Join(dir, "state")
		if err := syscall.Mount(state, state, "", syscall.MS_BIND, ""); err != nil {
			t.Skipf("cannot mount: %v", err)
		}
		t.Cleanup(func() { syscall.Unmount(state, syscall.MNT_DETACH) })
		must(t, syscall.Mount("", state, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	}, exitError, "read-only file system"},
}

// A start that fails ends quotad, and says why in the log and in systemd's status; --check says it before, and changes
// nothing. A caller waits meanwhile in systemd's socket, and is answered by the start that succeeds.
func TestFailedStart(t *testing.T) {
	needRoot(t)
	t.Parallel()
	dir := shortDir(t)
	manager, socket := notifySocket(t, dir), passedSocket(t, dir)
	fails := func(t *testing.T, spoil func(t *testing.T, dir string), code int, pattern string) {
		spoil(t, dir)
		before, says := tree(t, dir), regexp.MustCompile(pattern)
		check := exec.Command("quotad", "--check")
		check.Dir, check.Env = dir, append(os.Environ(), "STATE_DIRECTORY="+filepath.Join(dir, "state"))
		if output, _ := check.CombinedOutput(); check.ProcessState.ExitCode() != code || !says.Match(output) {
			t.Errorf("--check: %v, want %d and %q:\n%s", check.ProcessState, code, says, output)
		}
		if after := tree(t, dir); after != before {
			t.Errorf("--check changed\n%sto\n%s", before, after)
		}
		failed := startAsService(t, dir, socket)
		awaitNotice(t, manager, "STATUS=.*"+pattern+".*")
		if got, err := failed.end(); got != code || err != nil || !says.MatchString(failed.text()) {
			t.Errorf("exit code %d, want %d and %q: %v\n%s", got, code, says, err, failed.text())
		}
	}
	answered := make(chan error, 1)
	go func() {
		answer, err := overSocket(serviceClient(dir).Socket).PostForm("http://quotad/v1/acquire", url.Values{"operation": {"list"}})
		if err == nil && answer.StatusCode != http.StatusOK {
			err = errors.New(answer.Status)
		}
		answered <- err
	}()
	for _, way := range failedStarts {
		t.Run(way.name, func(t *testing.T) { fails(t, way.spoil, way.code, way.says) })
		if way.code == exitConfig {
			write(t, dir, "config.toml", oneCredential)
			mended := startAsService(t, dir, socket)
			if err := <-answered; err != nil {
				t.Errorf("a caller is lost: %v", err)
			}
			must(t, mended.halt())
		}
	}
}

// tree lists the files of the ledger with their sizes.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var list strings.Builder
	_ = filepath.Walk(filepath.Join(dir, "state", journalDir), func(path string, info os.FileInfo, err error) error { // at first there is none
		if err == nil {
			fmt.Fprintln(&list, path, info.Size(), info.ModTime(), info.Mode())
		}
		return err
	})
	return list.String()
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
