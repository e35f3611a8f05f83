package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"quotad/quota/api"
)

// onFile are the lines of [ledger] for one host alone, with a deadline that the disk of a busy machine meets.
const onFile = "backend = \"embedded\"\ndeadline = \"5s\""

// onRedis returns the lines of [ledger] for a Redis that is always there, with a deadline that a busy machine meets.
func onRedis(addr string) string {
	return fmt.Sprintf("backend = \"redis\"\nredis.addrs = [%q]\ndeadline = \"5s\"", addr)
}

// oneCredential has a limit that no test uses up.
const oneCredential = `
[credentials.api]
limits.daily.units = 1_000_000
operations.list = 1
`

// startWith starts a daemon with a configuration.
func startWith(t *testing.T, config string) (*child, *api.Client) {
	t.Helper()
	dir := shortDir(t)
	write(t, dir, "config.toml", config)
	return startIn(t, dir), clientIn(dir)
}

// startIn starts quotad in a directory and waits until it serves.
func startIn(t *testing.T, dir string) *child {
	t.Helper()
	cmd := exec.Command("quotad")
	cmd.Dir = dir
	daemon, err := startChild(cmd)
	must(t, err)
	t.Cleanup(daemon.kill)
	daemon.logs(t, "^serving$")
	return daemon
}

// clientIn returns a client of the daemon that runs in a directory.
func clientIn(dir string) *api.Client {
	return &api.Client{Socket: filepath.Join(dir, ".quotad/quotad.sock")}
}

// quotactlIn asks the quotad that was started in a directory.
func quotactlIn(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("quotactl", append([]string{"--socket", ".quotad/quotad.sock"}, args...)...)
	cmd.Dir = dir
	return cmd
}

// quotadIn runs quotad in a directory until it ends.
func quotadIn(dir string, args ...string) (output string, code int) {
	cmd := exec.Command("quotad", args...)
	cmd.Dir = dir
	text, _ := cmd.CombinedOutput()
	return string(text), cmd.ProcessState.ExitCode()
}

// write writes a file that tests configure a daemon with.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	text = farOff(text)
	if name == "config.toml" {
		text = operable(text)
	}
	must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

// operable makes the user who runs the tests an operator: root is one.
func operable(config string) string {
	if os.Getuid() == 0 || strings.Contains(config, "[access]") {
		return config
	}
	group, err := user.LookupGroupId(strconv.Itoa(os.Getgid()))
	if err != nil {
		return config
	}
	return config + fmt.Sprintf("\n[access]\nadmin_group = %q\n", group.Name)
}

// needRoot skips a test that only root can run.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can become other users, mount, and be asked beside the user of jobs")
	}
}

// shortDir is t.TempDir with a name that leaves room for a socket's.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "q")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// awaitFile returns what a file holds, once there is one.
func awaitFile(t *testing.T, path string) string {
	t.Helper()
	var text []byte
	eventually(t, func() (there bool) {
		var err error
		text, err = os.ReadFile(path)
		return err == nil
	})
	return strings.TrimSpace(string(text))
}
