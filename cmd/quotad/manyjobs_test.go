package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	jobsapi "quotad/jobs/api"
	"quotad/quota/seedtest"
)

// Of ten passes one leaves a daemon behind, one a child, one fails and one dies.
const manyPasses = `
[ledger]
backend = "embedded"
[credentials.api]
limits.daily.units = 1_000_000
operations.list = 1
[jobs.many]
credential = "api"
regions = [%s]
cron = "$FAR * * *"
stagger = "0s"
parallel = 4
command = ["sh", "-c", '''
case $QUOTAD_REGION in
*1) (sleep 3600 &) ;;
*3) sleep 3600 & ;;
*5) exit 1 ;;
*7) kill -9 $$ ;;
esac
''']
`

// TestManyPasses holds that nothing stays of passes: no process, no zombie, no
// descriptor. There are some dozens of them, or as many as seedtest.Long
// says: 10000 take some minutes.
func TestManyPasses(t *testing.T) {
	seedtest.SkipUnderRace(t)
	t.Parallel()
	const perRun = 40
	passes := seedtest.Long(t, perRun)
	var regions []string
	for i := range perRun {
		regions = append(regions, fmt.Sprintf("%q", fmt.Sprintf("r%d", i)))
	}
	daemon, client := startWith(t, fmt.Sprintf(manyPasses, strings.Join(regions, ", ")))
	pid := daemon.cmd.Process.Pid
	run := func() {
		t.Helper()
		begun, err := jobsapi.Client{Client: client}.Begin(context.Background(), "many", jobsapi.RunRequest{})
		must(t, err)
		daemon.logs(t, "^run failed$", "run="+begun.ID, "regions=40")
	}
	run() // what is kept after the first time is kept for good
	before := resourcesOf(t, pid)
	for range passes / perRun {
		run()
	}
	eventually(t, func() bool { return resourcesOf(t, pid).descriptors <= before.descriptors })
	t.Logf("before %v; after %d passes %v", before, passes, resourcesOf(t, pid))
	if children := processesWith(t, func(p string) bool { return parentOf(p) == pid }); len(children) > 0 {
		t.Errorf("children of the daemon are left: %q", children)
	}
	mark := []byte("QUOTAD_SOCKET=" + client.Socket + "\x00")
	left := processesWith(t, func(p string) bool {
		environ, err := os.ReadFile(filepath.Join(p, "environ"))
		return err == nil && bytes.Contains(environ, mark)
	})
	if len(left) > 0 {
		t.Errorf("processes of passes are left: %q", left)
	}
}

// processesWith returns the entries of /proc for which something holds.
func processesWith(t *testing.T, holds func(path string) bool) []string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	return slices.DeleteFunc(all, func(path string) bool { return !holds(path) })
}

// parentOf returns the pid of a process's parent, 0 if the process is gone.
func parentOf(path string) int {
	text, err := os.ReadFile(filepath.Join(path, "stat"))
	if err != nil {
		return 0
	}
	_, behindName, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(behindName)
	parent, _ := strconv.Atoi(fields[1])
	return parent
}
