package redisledger_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/redisledger"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/slidinglog"
	"quotad/regions"
)

// What a host is told in its environment, when this test binary is one.
const (
	hostVariable      = "QUOTAD_TEST_HOST"
	hostDirVariable   = "QUOTAD_TEST_HOST_DIR"
	hostRedisVariable = "QUOTAD_TEST_HOST_REDIS"
	stuckVariable     = "QUOTAD_TEST_HOST_STUCK" // the slot and region of a pass that never ends
	heldVariable      = "QUOTAD_TEST_HOST_HELD"  // the slot and region of a pass that lasts until thawFile is there
	thawVariable      = "QUOTAD_TEST_HOST_THAW"  // the path of that file
	nowVariable       = "QUOTAD_TEST_HOST_NOW"   // what its clock shows until the first tick
)

// Three daemons on one Redis tick many slots of one job; one of them is frozen in the
// middle of a run until the others have gone on for some slots, and one is killed in the
// middle of another run. Each slot is begun once, what those two leave over of their slots
// is all that is not run, and the next slot begins there. Slots come as fast as they are
// run, and the hosts' clocks show the last one. QUOTAD_TEST_FREEZE is for how long at
// least the one is frozen, and has a thousand slots played.
func TestThreeProcessesShareSlots(t *testing.T) {
	t.Parallel()
	slots := 60
	longer, err := time.ParseDuration(os.Getenv("QUOTAD_TEST_FREEZE"))
	if err == nil {
		slots = 1000
	}
	frozen, thawed, deadly, back := slots/5, slots*2/5, slots/2, slots*3/4
	server := redistest.Start(t)
	first := time.Now().Truncate(time.Second).Add(-2 * time.Duration(slots) * time.Second)
	slot := func(n int) int64 { return first.Add(time.Duration(n) * time.Second).UnixMilli() }

	p := &processHosts{
		t: t, addr: server.Addr, events: make(chan event), hosts: map[string]*hostProcess{}, now: slot(0) - 500,
		held: fmt.Sprintf("%d GB", slot(frozen)), stuck: fmt.Sprintf("%d DE", slot(deadly)), thawFile: filepath.Join(t.TempDir(), "thaw"),
		passes: map[int64][]string{}, began: map[string]int{}, starved: map[int64]bool{},
	}
	for _, name := range []string{"a", "b", "c"} {
		p.start(name, t.TempDir())
	}
	for n := range slots {
		switch n {
		case thawed:
			time.Sleep(longer)
			p.thaw(slot(frozen))
		case back:
			p.start("d", p.deadDir) // the killed one, again
		}
		p.tick(slot(n))
	}
	ring := []string{"US", "GB", "DE"}
	for n := range slots {
		want := ring
		switch {
		case n == frozen:
			want = []string{"US", "GB"} // where it was when it was frozen
		case n > frozen && n < deadly:
			want = []string{"GB", "DE", "US"}
		case n == deadly:
			want = []string{"GB", "DE"} // where it was when it was killed
		case n > deadly:
			want = []string{"DE", "US", "GB"}
		}
		got := p.passes[slot(n)]
		if p.starved[slot(n)] {
			want = nil
		}
		if n == frozen && len(got) == 3 && got[2] == "DE" {
			got = got[:2] // it went on before it heard that the job is another's by now
		}
		if !slices.Equal(got, want) {
			t.Errorf("slot %d: got the passes %q, want %q", n, got, want)
		}
	}
	if len(p.starved) > slots/10 {
		t.Errorf("%d slots found the job locked for too long", len(p.starved))
	}
	t.Logf("slots by host: %v; starved: %d", p.began, len(p.starved))
}

// ProcessHosts are some hosts, as processes, and what they did.
type processHosts struct {
	t    *testing.T
	addr string

	// The slots and regions of two passes: during one its host is frozen, during the
	// other it is killed.
	held, stuck string
	thawFile    string // ends the first

	events  chan event
	hosts   map[string]*hostProcess
	deadDir string       // of the host that was killed
	frozen  *hostProcess // nil if none is

	now     int64              // what the hosts' clocks show
	passes  map[int64][]string // by slot, the regions in the order in which they were begun
	began   map[string]int     // how many runs a host has begun
	starved map[int64]bool     // the slots that were skipped because a host was slow to give the lock back
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
	detail string // the run, the region, or the state of the run and its reason
}

func (p *processHosts) start(name, dir string) {
	p.t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHostProcess$")
	cmd.Env = append(os.Environ(), hostVariable+"="+name, hostDirVariable+"="+dir, hostRedisVariable+"="+p.addr, stuckVariable+"="+p.stuck,
		heldVariable+"="+p.held, thawVariable+"="+p.thawFile,
		fmt.Sprintf("%s=%d", nowVariable, p.now))
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
func (p *processHosts) read(name string, stdout io.Reader, over <-chan struct{}) {
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
	select {
	case p.events <- event{host: name, what: "ended"}:
	case <-over:
	}
}

// tick has all hosts tick a slot, and waits until one of them has run it, or was
// frozen or killed over it.
func (p *processHosts) tick(slot int64) {
	p.t.Helper()
	p.now = slot
	for name, h := range p.hosts {
		if _, err := fmt.Fprintln(h.stdin, slot); err != nil {
			p.t.Fatalf("host %s: %v", name, err)
		}
	}
	p.await(slot)
}

// await waits until a slot is over.
func (p *processHosts) await(slot int64) {
	p.t.Helper()
	late := time.NewTimer(3 * time.Minute)
	defer late.Stop()
	for {
		select {
		case e := <-p.events:
			if p.note(e) && e.slot == slot {
				return
			}
		case <-late.C:
			p.t.Fatalf("nobody runs slot %d; until now: %v", slot, p.passes[slot])
		}
	}
}

// note tells whether an event is the end of a slot.
func (p *processHosts) note(e event) bool {
	switch e.what {
	case "began":
		p.began[e.host]++
	case "pass":
		p.passes[e.slot] = append(p.passes[e.slot], e.detail)
		switch fmt.Sprint(e.slot, " ", e.detail) {
		case p.held:
			p.freeze(e.host)
			return true
		case p.stuck:
			p.kill(e.host)
			return true
		}
	case "over":
		switch isHeld := strings.HasPrefix(p.held, fmt.Sprint(e.slot, " ")); {
		case isHeld || e.detail == string(jobs.RunDone):
		case e.detail == "skipped:overlap":
			p.starved[e.slot] = true
		default:
			p.t.Errorf("slot %d: %s on host %s", e.slot, e.detail, e.host)
		}
		return true
	case "ended":
		if p.hosts[e.host] != nil { // it was not killed here
			p.t.Fatalf("host %s has ended", e.host)
		}
	}
	return false
}

func (p *processHosts) freeze(name string) {
	p.frozen = p.hosts[name]
	if err := p.frozen.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		p.t.Fatal(err)
	}
}

// thaw has the frozen host go on, until it knows that its run is over.
func (p *processHosts) thaw(slot int64) {
	p.t.Helper()
	if err := os.WriteFile(p.thawFile, nil, 0o600); err != nil {
		p.t.Fatal(err)
	}
	if err := p.frozen.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		p.t.Fatal(err)
	}
	p.await(slot)
}

func (p *processHosts) kill(name string) {
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
	ledger, err := redisledger.OpenStore(redisledger.Config{Addrs: []string{os.Getenv(hostRedisVariable)}})
	if err != nil {
		t.Fatal(err)
	}
	secondly, err := jobs.NewEvery(time.Second, 0)
	if err != nil {
		t.Fatal(err)
	}
	reporter := &reporter{store: ledger, slots: map[string]int64{}}
	start, err := strconv.ParseInt(os.Getenv(nowVariable), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	var now atomic.Int64
	now.Store(start)
	runner, err := jobs.Open(jobs.Config{
		Jobs: []*jobs.Job{{
			Name: "trending", Credential: "youtube", Regions: regions.Ring{"US", "GB", "DE"}, Schedule: secondly,
			Command: []string{"/bin/true"}, Timeout: time.Minute, KillGrace: time.Second, CatchUp: true,
		}},
		Gate: reporter, Launcher: reporter, OnEvent: reporter.observe, Tokens: &jobs.Tokens{}, Dir: os.Getenv(hostDirVariable),
		Now:         func() time.Time { return time.UnixMilli(now.Load()) },
		EndLeftover: func(context.Context, jobs.Identity, time.Duration) (bool, error) { return true, nil },
		Store:       ledger, Host: name,
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
		now.Store(slot)
		runner.Tick("trending", time.UnixMilli(slot).UTC())
	}
}

// A reporter writes what a host does.
type reporter struct {
	store slidinglog.Store

	mu    sync.Mutex       // guards slots
	slots map[string]int64 // by run
}

func (o *reporter) observe(event any) {
	switch e := event.(type) {
	case jobs.RunChanged:
		o.runChanged(e.Run)
	case jobs.Trouble:
		fmt.Fprintln(os.Stderr, e.Job, e.Err)
	}
}

func (o *reporter) runChanged(r jobs.Run) {
	slot := r.Slot.UnixMilli()
	o.mu.Lock()
	o.slots[r.ID] = slot
	o.mu.Unlock()
	switch {
	case r.State == jobs.RunRunning:
		fmt.Println("began", slot, r.ID)
	case r.State == jobs.RunSkipped && r.Reason == jobs.Missed, r.Reason == jobs.Died:
		// What nobody ran while the dead one had it, and what the dead one ran.
	case r.State == jobs.RunSkipped && r.Reason == jobs.LedgerUnavailable:
		// Redis was slow to answer: it is asked again, until somebody has the slot.
	case r.State == jobs.RunSkipped:
		fmt.Printf("over %d %s:%s\n", r.LastSlot.UnixMilli(), r.State, r.Reason)
	default:
		fmt.Println("over", slot, r.State)
	}
}

// awaitTold waits until the other hosts know how the first pass of a run has ended.
func (o *reporter) awaitTold(run string) {
	for {
		at := slidinglog.Position{}
		for more := true; more; {
			out := o.store.Append(context.Background(), []slidinglog.Call{{Credential: "job:trending", At: at, Keep: time.Hour}})[0]
			for _, placed := range out.Tail {
				for line := range strings.Lines(string(placed.Body)) { // others may stand in the same record
					if strings.Contains(line, run) && strings.Contains(line, `"outcome":"ok"`) {
						return
					}
				}
				at = slidinglog.Position{ID: placed.At, Tag: slidinglog.Tag(placed.Body)}
			}
			more = out.More
		}
		time.Sleep(time.Millisecond)
	}
}

func (*reporter) Peek(context.Context, string, quota.Calls, []quota.Calls, bool) (quota.Decision, error) {
	return quota.Decision{}, nil
}

func (*reporter) Spent(context.Context, string, string, time.Time) (map[string]quota.Spent, error) {
	return nil, nil
}

func (*reporter) Cost(string, quota.Calls) quota.Units { return 0 }

func (o *reporter) Launch(_, _ context.Context, c jobs.Command, _ func(jobs.Line)) jobs.Exit {
	env := map[string]string{}
	for _, entry := range c.Env {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	o.mu.Lock()
	slot := o.slots[env["QUOTAD_RUN_ID"]]
	o.mu.Unlock()
	pass := fmt.Sprint(slot, " ", env["QUOTAD_REGION"])
	isHeld, isStuck := pass == os.Getenv(heldVariable), pass == os.Getenv(stuckVariable)
	if isHeld || isStuck {
		o.awaitTold(env["QUOTAD_RUN_ID"])
	}
	fmt.Println("pass", pass)
	if isStuck {
		select {}
	}
	for isHeld {
		_, err := os.Stat(os.Getenv(thawVariable))
		isHeld = err != nil
		time.Sleep(time.Millisecond)
	}
	return jobs.Exit{}
}
