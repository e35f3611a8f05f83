package redisledger_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/redisledger"
	"quotad/quota/redisledger/redistest"
	"quotad/regions"
)

// What a host is told in its environment, when this test binary is one.
const (
	hostVariable      = "QUOTAD_TEST_HOST"
	hostDirVariable   = "QUOTAD_TEST_HOST_DIR"
	hostRedisVariable = "QUOTAD_TEST_HOST_REDIS"
	stuckVariable     = "QUOTAD_TEST_HOST_STUCK" // the slot and region of a pass that never ends
)

// Three daemons on one Redis tick a thousand slots of one job, and one of them is
// killed in the middle of a run: each slot is begun once, what the dead one leaves
// over of its slot is all that is not run, and the next slot begins there. Slots
// come as fast as they are run.
func TestThreeProcessesShareAThousandSlots(t *testing.T) {
	t.Parallel()
	const slots, deadly, back = 1000, 500, 750
	server := redistest.Start(t)
	first := time.Now().Truncate(time.Second).Add(-2 * slots * time.Second)
	slot := func(n int) int64 { return first.Add(time.Duration(n) * time.Second).UnixMilli() }

	stuck := fmt.Sprintf("%d GB", slot(deadly))
	p := &parish{t: t, addr: server.Addr, stuck: stuck, events: make(chan event), hosts: map[string]*hostProcess{}}
	for _, name := range []string{"a", "b", "c"} {
		p.start(name, t.TempDir())
	}
	for n := range slots {
		if n == back {
			p.start("d", p.deadDir) // the killed one, again
		}
		p.tick(slot(n), n == deadly)
	}
	ring := []string{"US", "GB", "DE"}
	for n := range slots {
		want := ring
		switch {
		case n == deadly:
			want = []string{"US", "GB"} // where it was when it was killed
		case n > deadly:
			want = []string{"GB", "DE", "US"}
		}
		if got := p.passes[slot(n)]; !slices.Equal(got, want) {
			t.Errorf("slot %d: got the passes %q, want %q", n, got, want)
		}
	}
	t.Logf("slots by host: %v", p.began)
}

// A parish is some hosts, as processes, and what they did.
type parish struct {
	t     *testing.T
	addr  string
	stuck string

	events  chan event
	hosts   map[string]*hostProcess
	deadDir string // of the host that was killed

	passes map[int64][]string // by slot, the regions in the order in which they were begun
	began  map[string]int     // how many runs a host has begun
}

type hostProcess struct {
	cmd   *exec.Cmd
	stdin io.Writer
	dir   string
}

// An event is a line that a host has written.
type event struct {
	host   string
	what   string // began, pass, over
	slot   int64
	detail string
}

func (p *parish) start(name, dir string) {
	p.t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHostProcess$")
	cmd.Env = append(os.Environ(), hostVariable+"="+name, hostDirVariable+"="+dir, hostRedisVariable+"="+p.addr, stuckVariable+"="+p.stuck)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.hosts[name] = &hostProcess{cmd: cmd, stdin: stdin, dir: dir}
	over := make(chan struct{})
	p.t.Cleanup(func() {
		cmd.Process.Kill()
		close(over)
		cmd.Wait()
	})
	go p.read(name, stdout, over)
}

// read hands on what a host writes, until nobody listens any more.
func (p *parish) read(name string, stdout io.Reader, over <-chan struct{}) {
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		e := event{host: name}
		if n, _ := fmt.Sscan(lines.Text(), &e.what, &e.slot, &e.detail); n < 3 {
			continue // it says PASS at its end
		}
		select {
		case p.events <- e:
		case <-over:
			return
		}
	}
}

// tick has all hosts tick a slot, and waits until one of them has run it, or was
// killed over it.
func (p *parish) tick(slot int64, deadly bool) {
	p.t.Helper()
	for name, h := range p.hosts {
		if _, err := fmt.Fprintln(h.stdin, slot); err != nil {
			p.t.Fatalf("host %s: %v", name, err)
		}
	}
	late := time.NewTimer(3 * time.Minute)
	defer late.Stop()
	for {
		select {
		case e := <-p.events:
			if p.note(e, deadly) && e.slot == slot {
				return
			}
		case <-late.C:
			p.t.Fatalf("nobody runs slot %d; until now: %v", slot, p.passes[slot])
		}
	}
}

// note tells whether an event is the end of a slot.
func (p *parish) note(e event, deadly bool) bool {
	if p.passes == nil {
		p.passes, p.began = map[int64][]string{}, map[string]int{}
	}
	switch e.what {
	case "began":
		p.began[e.host]++
	case "pass":
		p.passes[e.slot] = append(p.passes[e.slot], e.detail)
		if deadly && p.stuck == fmt.Sprint(e.slot, " ", e.detail) {
			p.kill(e.host)
			return true
		}
	case "over":
		if e.detail != string(jobs.RunDone) {
			p.t.Errorf("slot %d: %s on host %s", e.slot, e.detail, e.host)
		}
		return true
	}
	return false
}

func (p *parish) kill(name string) {
	h := p.hosts[name]
	delete(p.hosts, name)
	if err := h.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	h.cmd.Process.Wait()
	p.deadDir = h.dir
}

// TestHostProcess is one of the hosts, until its parent ends.
func TestHostProcess(t *testing.T) {
	name := os.Getenv(hostVariable)
	if name == "" {
		t.Skip("only a process of the test with three of them is a host")
	}
	ledger, err := redisledger.Open(redisledger.Config{Addrs: []string{os.Getenv(hostRedisVariable)}, Daemon: name}, redisledger.Local{})
	if err != nil {
		t.Fatal(err)
	}
	secondly, err := jobs.NewEvery(time.Second, 0)
	if err != nil {
		t.Fatal(err)
	}
	teller := &teller{slots: map[string]int64{}}
	runner, err := jobs.Open(jobs.Config{
		Jobs: []*jobs.Job{{
			Name: "trending", Credential: "youtube", Regions: regions.Ring{"US", "GB", "DE"}, Schedule: secondly,
			Command: []string{"/bin/true"}, Timeout: time.Minute, KillGrace: time.Second,
		}},
		Gate: teller, Launcher: teller, Observe: teller.observe, Tokens: &jobs.Tokens{}, Dir: os.Getenv(hostDirVariable), Now: time.Now,
		EndLeftover: func(context.Context, jobs.Identity, time.Duration) (bool, error) { return true, nil },
		Hosts:       ledger.Hosts(), Host: name,
	})
	if err != nil {
		t.Fatal(err)
	}
	runner.Start(t.Context())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var slot int64
		if _, err := fmt.Sscan(lines.Text(), &slot); err != nil {
			t.Fatal(err)
		}
		runner.Tick("trending", time.UnixMilli(slot).UTC())
	}
}

// A teller writes what a host does.
type teller struct {
	mu    sync.Mutex       // guards slots
	slots map[string]int64 // by run
}

func (o *teller) observe(event any) {
	switch e := event.(type) {
	case jobs.RunChanged:
		o.runChanged(e.Run)
	case jobs.Trouble:
		fmt.Fprintln(os.Stderr, e.Job, e.Err)
	}
}

func (o *teller) runChanged(r jobs.Run) {
	slot := r.Slot.UnixMilli()
	o.mu.Lock()
	o.slots[r.ID] = slot
	o.mu.Unlock()
	switch {
	case r.State == jobs.RunRunning:
		fmt.Println("began", slot, r.ID)
	case r.State == jobs.RunSkipped && r.Reason == jobs.Missed, r.Reason == jobs.Died:
		// What nobody ran while the dead one had it, and what the dead one ran.
	default:
		fmt.Println("over", slot, r.State)
	}
}

func (*teller) Peek(context.Context, string, map[string]quota.Units, bool) (quota.Decision, error) {
	return quota.Decision{}, nil
}

func (*teller) Cost(string, map[string]quota.Units) quota.Units { return 0 }

func (o *teller) Launch(_, _ context.Context, c jobs.Command, _ func(jobs.Line)) jobs.Exit {
	env := map[string]string{}
	for _, entry := range c.Env {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	o.mu.Lock()
	slot := o.slots[env["QUOTAD_RUN_ID"]]
	o.mu.Unlock()
	fmt.Println("pass", slot, env["QUOTAD_REGION"])
	if os.Getenv(stuckVariable) == fmt.Sprint(slot, " ", env["QUOTAD_REGION"]) {
		select {}
	}
	return jobs.Exit{}
}
