package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"quotad/quota/api"
)

// quotad serves on when whoever read its log has ended, and its jobs do not ignore the signal.
func TestTheReaderOfTheLogEnds(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	writeConfig(t, dir, restartable+`
[jobs.pipe]
credential = "api"
regions = ["one"]
schedule = "manual"
# Bit 13 of the mask is SIGPIPE.
command = ["sh", "-c", "case $(grep SigIgn /proc/self/status) in *[13579bdf]???) exit 1 ;; esac"]
`)
	cmd := exec.Command("quotad")
	cmd.Dir = dir
	log, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(log)
	for lines.Scan() && !strings.Contains(lines.Text(), `"message":"serving"`) {
	}
	log.Close() // what follows is written to a pipe without a reader
	for range 3 {
		out, err := quotactlIn(dir, "run", "pipe", "--wait").CombinedOutput()
		if err != nil {
			t.Fatalf("a run: %v: %s", err, out)
		}
	}
	out, err := quotactlIn(dir, "acquire", "list").CombinedOutput()
	if err != nil {
		t.Fatalf("an acquire: %v: %s", err, out)
	}
}

// quotactlIn asks the quotad that was started in a directory.
func quotactlIn(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("quotactl", append([]string{"--socket", ".quotad/quotad.sock"}, args...)...)
	cmd.Dir = dir
	return cmd
}

func writeConfig(t *testing.T, dir, text string) {
	t.Helper()
	write(t, dir, "config.toml", text)
}

// A state directory that everybody may write to, and a lock that is a link, are refused by the start
// and by --check, and nothing is changed.
func TestStateOfOthers(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		spoil func(state string) error
		says  string
	}{
		{"mode 777", func(state string) error { return os.Chmod(state, 0o777) }, `everybody on this host may write to ".*" \(mode 0777\), and so replace the ledger: chmod o-w /.*\.quotad`},
		{"with the sticky bit", func(state string) error { return os.Chmod(state, 0o777|os.ModeSticky) }, `chmod o-w`},
		{"the lock is a link", func(state string) error {
			return os.Symlink(filepath.Join(filepath.Dir(state), "precious"), filepath.Join(state, lockName))
		}, `".*/quotad.lock" is a symbolic link, and quotad would overwrite what it names: rm /.*/quotad.lock`},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := shortDir(t)
			writeConfig(t, dir, restartable)
			state, precious := filepath.Join(dir, ".quotad"), filepath.Join(dir, "precious")
			for _, err := range []error{os.Mkdir(state, 0o750), os.WriteFile(precious, []byte("a file of somebody else's"), 0o600), row.spoil(state)} {
				must(t, err)
			}
			for _, args := range [][]string{nil, {"--check"}} {
				cmd := exec.Command("quotad", args...)
				cmd.Dir = dir
				out, _ := cmd.CombinedOutput()
				if code := cmd.ProcessState.ExitCode(); code != exitError || !regexp.MustCompile(row.says).Match(out) {
					t.Errorf("quotad %v: exit code %d, want that it says %q:\n%s", args, code, row.says, out)
				}
			}
			if text, _ := os.ReadFile(precious); string(text) != "a file of somebody else's" {
				t.Errorf("the file that the link names became %q", text)
			}
		})
	}
}

// inMounts returns a command that runs after a script has changed the mounts, for itself alone.
func inMounts(t *testing.T, script string, command ...string) *exec.Cmd {
	t.Helper()
	if out, err := exec.Command("unshare", "--mount", "true").CombinedOutput(); err != nil {
		t.Skipf("no mounts of its own can be had: %v: %s", err, out)
	}
	return exec.Command("unshare", append([]string{"--mount", "sh", "-ec", script + `; exec "$@"`, "sh"}, command...)...)
}

// A container may hide the id of the boot: quotad serves all the same, and ends what a killed
// quotad left.
func TestNoBootID(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	writeConfig(t, dir, restartable+`
[jobs.long]
credential = "api"
regions = ["one"]
schedule = "manual"
command = ["sh", "-c", "echo $$ >pid && echo holding && exec sleep 600"]
`)
	start := func() *child {
		cmd := inMounts(t, "mount -t tmpfs none /proc/sys/kernel/random", "quotad")
		cmd.Dir = dir
		daemon, err := startChild(cmd)
		must(t, err)
		t.Cleanup(daemon.kill)
		daemon.logs(t, "^serving$")
		return daemon
	}
	daemon := start()
	if out, err := quotactlIn(dir, "run", "long").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// quotad records the process of a pass before it logs the first line of it.
	daemon.logs(t, "^holding$")
	pid := strings.TrimSpace(awaitFile(t, filepath.Join(dir, ".quotad/data/long/pid")))
	daemon.kill()
	start()
	eventually(t, func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%s", pid))
		return err != nil
	})
}

// Where quotad is installed, and its socket is gone, quotactl names that socket.
func TestSocketOfAnInstalledHost(t *testing.T) {
	t.Parallel()
	if _, err := os.Lstat("/run/quotad.sock"); err == nil {
		t.Skip("a quotad is installed here")
	}
	dir := shortDir(t)
	for installed, want := range map[string]string{
		"mount -t tmpfs none /etc; mkdir /etc/quotad; touch /etc/quotad/config.toml": `cannot reach quotad at "/run/quotad.sock"`,
		"mount -t tmpfs none /etc": `cannot reach quotad at "./.quotad/quotad.sock"`,
	} {
		cmd := inMounts(t, installed, "quotactl")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), api.SocketEnv+"=")
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v: %s, want %s", installed, err, out, want)
		}
	}
}
