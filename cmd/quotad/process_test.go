package main

import (
	"bufio"
	"os/exec"
	"strings"
	"testing"
)

// quotad serves on when what read its log has ended, and its jobs do not ignore the signal.
func TestTheReaderOfTheLogEnds(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	write(t, dir, "config.toml", oneCredential+`
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
		if out, err := quotactlIn(dir, "run", "pipe", "--wait").CombinedOutput(); err != nil {
			t.Fatalf("a run: %v: %s", err, out)
		}
	}
	if out, err := quotactlIn(dir, "acquire", "list").CombinedOutput(); err != nil {
		t.Fatalf("an acquire: %v: %s", err, out)
	}
}
