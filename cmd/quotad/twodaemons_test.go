package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	jobsapi "quotad/jobs/api"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
)

// Each pass notes for which slot it is, and of which daemon.
const everySecond = `
name = %q
[ledger]
backend = "redis"
redis.addrs = [%q]
deadline = "1s"
[credentials.api]
limits.daily.units = 100
operations.list = 1
[jobs.fetch]
credential = "api"
every = %q
command = ["sh", "-c", 'echo $QUOTAD_SCHEDULED_AT %s >>%s']
`

// TwoDaemons are daemons on one Redis that have one job. The first by name, a, reaches Redis through a proxy.
type twoDaemons struct {
	*testing.T
	file    string // of the passes
	every   time.Duration
	proxy   *redistest.Proxy
	dirs    map[string]string
	daemons map[string]*child
	clients map[string]jobsapi.Client
}

func newTwoDaemons(t *testing.T, every time.Duration) *twoDaemons {
	server := redistest.Start(t)
	h := &twoDaemons{
		T: t, file: filepath.Join(shortDir(t), "passes"), every: every, proxy: redistest.NewProxy(t, server),
		dirs: map[string]string{}, daemons: map[string]*child{}, clients: map[string]jobsapi.Client{},
	}
	for name, addr := range map[string]string{"a": h.proxy.Addr, "b": server.Addr} {
		daemon, client := startWith(t, fmt.Sprintf(everySecond, name, addr, every, name, h.file))
		h.daemons[name], h.clients[name] = daemon, jobsapi.Client{Client: client}
		h.dirs[name] = filepath.Dir(filepath.Dir(client.Socket))
	}
	return h
}

// passes are what the passes have written, of each slot the names of its daemons in their order.
func (h *twoDaemons) passes() (slots []string, by map[string][]string) {
	text, err := os.ReadFile(h.file)
	if err != nil && !os.IsNotExist(err) {
		h.Fatal(err)
	}
	by = map[string][]string{}
	for line := range strings.Lines(string(text)) {
		slot, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if by[slot] == nil {
			slots = append(slots, slot)
		}
		by[slot] = append(by[slot], name)
	}
	return slots, by
}

// runsOn waits until a daemon has run a slot.
func (h *twoDaemons) runsOn(name string) {
	h.Helper()
	before, _ := h.passes()
	eventually(h.T, func() bool {
		slots, by := h.passes()
		return len(slots) > len(before) && by[slots[len(slots)-1]][0] == name
	})
}

// The job runs on the first of the two by name. The other one says so, and takes over once that has been silent for
// 15 seconds.
func TestTwoDaemonsRunAJobOnOne(t *testing.T) {
	t.Parallel()
	h := newTwoDaemons(t, time.Second)
	h.runsOn("a")
	eventually(t, func() bool {
		shown, err := exec.Command("quotactl", "--socket", h.clients["b"].Socket, "jobs", "fetch").CombinedOutput()
		return err == nil && strings.Contains(string(shown), "runs on a")
	})
	before, _ := h.passes() // at first b did not know of a
	h.runsOn("a")
	h.runsOn("a")
	slots, by := h.passes()
	for _, slot := range slots[len(before):] {
		if len(by[slot]) != 1 || by[slot][0] != "a" {
			t.Errorf("slot %s was run by %v, want a", slot, by[slot])
		}
	}
	if _, err := h.clients["b"].Begin(context.Background(), "fetch", jobsapi.RunRequest{}); err != nil {
		t.Errorf("an operator cannot run it on b: %v", err)
	}
	h.daemons["a"].kill()
	h.runsOn("b")
}

// While the host that runs the job is killed, frozen, cut off and back, a slot runs twice or not at all only around a
// change of the host.
func TestHostsTakeOver(t *testing.T) {
	changes := seedtest.OnlyLong(t, "changes of the host two daemons go through, such as 10")
	h := newTwoDaemons(t, 2*time.Second)
	random := rand.New(rand.NewPCG(57, 1))
	h.runsOn("a")
	began := time.Now()
	var around []time.Time
	change := func(do func()) {
		around = append(around, time.Now())
		do()
		time.Sleep(20*time.Second + time.Duration(random.IntN(2000))*time.Millisecond)
	}
	for i := 0; i < changes; i += 2 {
		a := h.daemons["a"].cmd.Process
		switch i / 2 % 3 {
		case 0:
			change(h.daemons["a"].kill)
			h.runsOn("b")
			change(func() { h.daemons["a"] = startIn(h.T, h.dirs["a"]) })
		case 1:
			change(func() { _ = a.Signal(syscall.SIGSTOP) })
			h.runsOn("b")
			change(func() { _ = a.Signal(syscall.SIGCONT) })
		case 2:
			change(func() { h.proxy.Disturb(func([]string) redistest.Fault { return redistest.CutBefore }) })
			change(func() { h.proxy.Disturb(func([]string) redistest.Fault { return redistest.Pass }) })
		}
		h.runsOn("a")
	}
	_, by := h.passes()
	twice, none, all := 0, 0, 0
	for slot := began.Truncate(h.every).Add(h.every); slot.Before(time.Now().Add(-h.every)); slot = slot.Add(h.every) {
		n := len(by[slot.UTC().Format(time.RFC3339)])
		all++
		if n == 1 {
			continue
		}
		if n == 0 {
			none++
		} else {
			twice++
		}
		near := false
		for _, at := range around {
			near = near || slot.After(at.Add(-2*h.every)) && slot.Before(at.Add(24*time.Second))
		}
		if !near {
			t.Errorf("slot %v had %d runs, and no host had changed", slot, n)
		}
	}
	t.Logf("%d slots with %d changes: %d ran twice, %d not at all", all, len(around), twice, none)
}
