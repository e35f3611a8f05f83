package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
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

// While the host that runs the job is killed, frozen, cut off and back, a slot runs twice or not at all only around a
// change of the host.
func TestHostsTakeOver(t *testing.T) {
	changes := seedtest.Long(t, 0)
	if changes == 0 {
		t.Skip("it takes minutes: " + seedtest.LongVariable + " says how often the host changes, such as 10")
	}
	const every = time.Second
	server, file := redistest.Start(t), filepath.Join(shortDir(t), "passes")
	proxy := redistest.NewProxy(t, server) // by which a reaches Redis
	dir := shortDir(t)
	write(t, dir, "config.toml", fmt.Sprintf(everySecond, "a", onRedis(proxy.Addr), file))
	a := startIn(t, dir)
	startWith(t, fmt.Sprintf(everySecond, "b", onRedis(server.Addr), file))
	passes := func() string {
		text, _ := os.ReadFile(file)
		return string(text)
	}
	runsOn := func(name string) {
		before := len(passes())
		eventually(t, func() bool { return strings.Contains(passes()[before:], " "+name+"\n") })
	}
	random := rand.New(rand.NewPCG(57, 1))
	runsOn("a")
	began := time.Now()
	var around []time.Time
	change := func(do func()) {
		around = append(around, time.Now())
		do()
		time.Sleep(20*time.Second + time.Duration(random.IntN(2000))*time.Millisecond)
	}
	for i := 0; i < changes; i += 2 {
		switch i / 2 % 3 {
		case 0:
			change(a.kill)
			runsOn("b")
			change(func() { a = startIn(t, dir) })
		case 1:
			change(func() { _ = a.cmd.Process.Signal(syscall.SIGSTOP) })
			runsOn("b")
			change(func() { _ = a.cmd.Process.Signal(syscall.SIGCONT) })
		case 2:
			change(func() { proxy.Disturb(func([]string) redistest.Fault { return redistest.CutBefore }) })
			change(func() { proxy.Disturb(func([]string) redistest.Fault { return redistest.Pass }) })
		}
		runsOn("a")
	}
	text, twice, none, all := passes(), 0, 0, 0
	for slot := began.Truncate(every).Add(every); slot.Before(time.Now().Add(-2 * every)); slot = slot.Add(every) {
		all++
		switch n := strings.Count(text, slot.UTC().Format(time.RFC3339)+" "); {
		case n == 1:
			continue
		case n == 0:
			none++
		default:
			twice++
		}
		if !slices.ContainsFunc(around, func(at time.Time) bool {
			return slot.After(at.Add(-4*every)) && slot.Before(at.Add(24*time.Second))
		}) {
			t.Errorf("slot %v ran twice or not at all, and no host had changed", slot)
		}
	}
	t.Logf("%d slots with %d changes: %d ran twice, %d not at all", all, len(around), twice, none)
}
