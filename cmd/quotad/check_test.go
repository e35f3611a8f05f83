package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// checked returns what --check says of a directory, and its exit code.
func checked(dir string) (output string, code int) {
	cmd := exec.Command("quotad", "--check")
	cmd.Dir = dir
	text, _ := cmd.CombinedOutput()
	return string(text), cmd.ProcessState.ExitCode()
}

// tree lists the files of a directory with their sizes and times.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var list strings.Builder
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil {
			fmt.Fprintln(&list, path, info.Size(), info.ModTime(), info.Mode())
		}
		return err
	})
	must(t, err)
	return list.String()
}

func journalOf(state string) string { return filepath.Join(state, journalDir, "api") }

// lose removes the journal of a state.
func lose(state string) error { return os.RemoveAll(journalOf(state)) }

// acceptedBy has the state be another user's, its ledger missing, and a new one accepted.
func acceptedBy(uid int) func(state string) error {
	return func(state string) error {
		err := filepath.WalkDir(state, func(path string, _ os.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, 65534, -1))
		})
		accept := acceptPath(state)
		return errors.Join(err, lose(state), os.WriteFile(accept, nil, 0o600), os.Chown(accept, uid, -1))
	}
}

// --check says what would keep quotad from serving, and changes nothing.
func TestCheckOfTheState(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	began := shortDir(t)
	writeConfig(t, began, restartable)
	daemon := startIn(t, began)
	if output, code := checked(began); code != exitOK {
		t.Errorf("while it serves: exit code %d: %s", code, output)
	}
	daemon.kill()
	onPort := fmt.Sprintf("[metrics]\nlisten = %q\n", taken.Addr())
	for _, test := range []struct {
		name, text string
		spoil      func(state string) error
		says       string // empty: nothing is wrong
	}{
		{"nothing is wrong", restartable, nil, ""},
		{"no state yet", restartable, os.RemoveAll, ""},
		{"a ledger that is missing", restartable, lose, `ledger/api is missing; restore it, or start once with quotad --accept-new-ledger`},
		{"a ledger of another user", restartable, func(state string) error { return os.Chown(filepath.Join(journalOf(state), "00000001"), 65534, -1) }, "the state directory to root: chown root: "},
		{"a new ledger that root accepts", restartable, acceptedBy(0), ""},
		{"a new ledger that another user accepts", restartable, acceptedBy(1), "ledger/api is missing"},
		{"a port that is taken", restartable + onPort, nil, "[metrics] listen: listen tcp"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := shortDir(t)
			must(t, exec.Command("cp", "-a", filepath.Join(began, ".quotad"), dir).Run())
			state := filepath.Join(dir, ".quotad")
			if test.spoil != nil {
				if err := test.spoil(state); errors.Is(err, os.ErrPermission) {
					t.Skip("only root can give a file away")
				} else if err != nil {
					t.Fatal(err)
				}
			}
			writeConfig(t, dir, test.text)
			before := tree(t, dir)
			output, code := checked(dir)
			if test.says == "" && code != exitOK || test.says != "" && (code != exitError || !strings.Contains(output, test.says)) {
				t.Errorf("exit code %d, want that it says %q:\n%s", code, test.says, output)
			}
			if after := tree(t, dir); after != before {
				t.Errorf("it changed\n%sto\n%s", before, after)
			}
		})
	}
}

// inService has a shell run a command as root on a host where the package is installed and the service has not
// started yet: in /etc are the file of the service, and a key of root's alone.
const inService = `set -e
mount -t tmpfs -o mode=755 tmpfs /mnt
cp /etc/passwd /etc/group /mnt/
install -d -m 750 -g nogroup /mnt/quotad
install -m 640 -g nogroup config.toml /mnt/quotad/
install -m 755 job.sh /mnt/quotad/
install -m 600 /dev/null /mnt/quotad/api.env
mount --bind /mnt /etc
mount -t tmpfs -o mode=755 tmpfs /var/lib
PATH=$PWD:$PATH
rm config.toml
`

// systemctlShow answers as systemctl does for the unit of the package.
const systemctlShow = `#!/bin/sh
[ "$*" = "show --property=User,Environment quotad.service" ] && printf 'Environment=LANG=C QUOTAD_PASSES_USER=www-data\nUser=nobody\n'
`

const ofService = `[credentials.api]
limits.daily.units = 10
operations.list = 1
[jobs.one]
credential = "api"
schedule = "manual"
command = ["./job.sh"]
`

// As root, --check of the service's file says what the service would, before its first start as well: in its state
// directory.
func TestCheckBeforeTheFirstStart(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 || exec.Command("unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt").Run() != nil {
		t.Skip("only root can have an /etc of its own")
	}
	dir := shortDir(t)
	write(t, dir, "job.sh", "#!/bin/sh\n")
	write(t, dir, "systemctl", systemctlShow)
	must(t, os.Chmod(filepath.Join(dir, "systemctl"), 0o755))
	for _, row := range []struct {
		text, command string
		code          int
		says          []string
	}{
		{ofService, "quotad --check", exitOK, []string{
			"is good: state in /var/lib/quotad, socket /run/quotad.sock\n",
		}},
		{ofService, "cd /etc/quotad && quotad --check", exitOK, []string{"state in /var/lib/quotad,"}},
		{ofService, "echo >systemctl && quotad --check", exitOK, []string{"state in " + dir + "/.quotad,"}}, // there is no service
	} {
		write(t, dir, "config.toml", row.text)
		cmd := exec.Command("unshare", "--mount", "sh", "-c", inService+row.command)
		cmd.Dir = dir
		output, _ := cmd.CombinedOutput()
		for _, says := range row.says {
			if code := cmd.ProcessState.ExitCode(); code != row.code || !strings.Contains(string(output), says) {
				t.Errorf("%s: exit code %d, want %d and %q:\n%s", row.command, code, row.code, says, output)
			}
		}
	}
}
