package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quotad/quota/redisledger/redistest"
)

// Each pass notes of which daemon it is.
const everySecond = `
name = %[1]q
[ledger]
%[2]s
[credentials.api]
limits.daily.units = 100
operations.list = 1
[jobs.fetch]
credential = "api"
every = "1s"
command = ["sh", "-c", 'echo $QUOTAD_SCHEDULED_AT %[1]s >>%[3]s']
`

// Two daemons on one Redis have one job. It runs on the first of the two by name. The other one says so, and takes over once
// that has been silent for 15 seconds.
func TestTwoDaemonsRunAJobOnOne(t *testing.T) {
	t.Parallel()
	ledger, file := onRedis(redistest.Start(t).Addr), filepath.Join(shortDir(t), "passes")
	a, _ := startWith(t, fmt.Sprintf(everySecond, "a", ledger, file))
	dir := shortDir(t)
	write(t, dir, "config.toml", fmt.Sprintf(everySecond, "b", ledger, file))
	startIn(t, dir)
	passes := func() []string {
		text, _ := os.ReadFile(file)
		return strings.Fields(string(text))
	}
	runsOn := func(name string) {
		before := len(passes())
		eventually(t, func() bool { return slices.Contains(passes()[before:], name) })
	}
	eventually(t, func() bool {
		shown, err := quotactlIn(dir, "jobs", "fetch").CombinedOutput()
		return err == nil && strings.Contains(string(shown), "runs on a")
	})
	before := len(passes()) // at first b did not know of a
	runsOn("a")
	runsOn("a")
	if after := passes()[before:]; slices.Contains(after, "b") {
		t.Errorf("of the slots some ran on b: %v", after)
	}
	if output, err := quotactlIn(dir, "run", "fetch", "--wait").CombinedOutput(); err != nil {
		t.Errorf("an operator cannot run it on b: %v: %s", err, output)
	}
	a.kill()
	runsOn("b")
}
