package redisledger_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
)

// A campaign lets three hosts with their clients work on one Redis, and does to
// it, and to them, what may happen.
type campaign struct {
	*testing.T
	dir     string
	clients int
	seed    uint64
	rand    *rand.Rand       // draws the strikes
	clock   *redistest.Clock // nil where it cannot be stepped
	server  *redistest.Server
	proxies []*redistest.Proxy
	hosts   []*campaignHost
	stepped []time.Time // when the clock was
	ahead   time.Duration
	struck  map[string]int
}

// strikes are what may happen.
var strikes = []struct {
	name   string
	strike func(*campaign)
}{
	{"Redis is killed", (*campaign).killRedis},
	{"Redis is frozen", (*campaign).freezeRedis},
	{"a host is killed", (*campaign).killHost},
	{"Redis is flushed", func(c *campaign) { c.server.Order(c, "FLUSHALL") }},
	{"Redis is flushed while a host is frozen", (*campaign).flushWithoutAHost},
	{"an older copy of Redis' data is put back", (*campaign).putBackACopy},
	{"a new host joins", (*campaign).join},
	{"the scripts are flushed", func(c *campaign) { c.server.Order(c, "SCRIPT FLUSH") }},
	{"the clock steps on", (*campaign).stepOn},
	{"the clock steps back for a while", (*campaign).stepBack},
}

// It lasts as many seconds as seedtest.Long says; a short one has few clients.
func TestCampaign(t *testing.T) {
	seedtest.SkipUnderRace(t)
	if testing.Short() {
		t.Skip("it takes its time")
	}
	t.Parallel()
	c := &campaign{T: t, clients: 8, struck: make(map[string]int)}
	const short = 6
	length := seedtest.Long(t, short)
	if length > short {
		c.clients = 32
	}
	c.begin(seedtest.Seed(t, 1))
	for _, name := range []string{"a", "b", "c"} {
		c.hosts = append(c.hosts, c.newHost(name))
	}
	c.rage(time.Duration(length) * time.Second)
	for _, h := range c.hosts {
		h.end()
	}
	c.check()
}

func (c *campaign) begin(seed uint64) {
	c.seed, c.rand = seed, rand.New(rand.NewPCG(seed, 0))
	var err error
	if c.dir, err = os.MkdirTemp("", "campaign"); err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { os.RemoveAll(c.dir) })
	c.clock = redistest.NewClock(c)
	c.server = redistest.StartOn(c, c.clock, "--appendonly", "yes", "--appendfsync", "always")
}

// rage strikes again and again, each kind as often as the others, and ends in
// peace.
func (c *campaign) rage(length time.Duration) {
	c.lose(true)
	for end := time.Now().Add(length); time.Now().Before(end); {
		for _, i := range c.rand.Perm(len(strikes)) {
			c.pass(time.Duration(100+c.rand.IntN(400)) * time.Millisecond)
			c.struck[strikes[i].name]++
			strikes[i].strike(c)
		}
	}
	c.lose(false)
}

// lose has the proxies lose some calls and answers from now on, or none.
func (c *campaign) lose(some bool) {
	for _, p := range c.proxies {
		choose := func([]string) redistest.Fault { return redistest.Pass }
		if some {
			choose = loseSome(rand.New(rand.NewPCG(c.rand.Uint64(), 1)))
		}
		p.Disturb(choose)
		p.Release()
	}
}

// pass lets time pass.
func (c *campaign) pass(d time.Duration) { <-time.After(d) }

// loseSome disturbs one script call of twenty.
func loseSome(draw *rand.Rand) func(command []string) redistest.Fault {
	faults := []redistest.Fault{redistest.Swallow, redistest.CutAfter, redistest.CutBefore}
	var mu sync.Mutex // guards draw
	return func(command []string) redistest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if !redistest.IsScript(command) || draw.IntN(20) > 0 {
			return redistest.Pass
		}
		return faults[draw.IntN(len(faults))]
	}
}

func (c *campaign) killRedis() {
	c.server.Kill()
	c.pass(time.Duration(c.rand.IntN(400)) * time.Millisecond)
	c.server.Run(c)
}

func (c *campaign) freezeRedis() {
	if err := c.server.Freeze(); err != nil {
		c.Fatal(err)
	}
	c.pass(time.Duration(c.rand.IntN(1000)) * time.Millisecond)
	if err := c.server.Thaw(); err != nil {
		c.Fatal(err)
	}
}

// flushWithoutAHost flushes Redis while one host can put nothing back, for longer than the log is quiet. The others
// have mirrored what that one wrote.
func (c *campaign) flushWithoutAHost() {
	process := c.hosts[c.rand.IntN(len(c.hosts))].command.Process
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		c.Fatal(err)
	}
	c.lose(false)
	c.pass(3 * time.Second)
	c.server.Order(c, "FLUSHALL")
	c.pass(time.Second + time.Duration(c.rand.Int64N(int64(3*time.Second))))
	c.lose(true)
	if err := process.Signal(syscall.SIGCONT); err != nil {
		c.Fatal(err)
	}
}

// copied replaces a log by an older copy of it, on another server: what declare.lua does there.
const copied = `
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('RESTORE', KEYS[1], 0, ARGV[1])
redis.call('RESTORE', KEYS[2], 0, ARGV[2])
local now = redis.call('TIME')
redis.call('HSET', KEYS[2], 'server', 'another', 'epoch', ARGV[3], 'quiet', string.format('%.0f', (now[1] + 2) * 1e6 + now[2]))`

// putBackACopy has Redis fall back by some tenths of a second.
func (c *campaign) putBackACopy() {
	for _, name := range []string{"spent", "loose"} {
		keys := []string{"quotad:{" + name + "}:entries", "quotad:{" + name + "}:state"}
		entries, ok := c.server.Do(c, "DUMP", keys[0]).(string)
		state, found := c.server.Do(c, "DUMP", keys[1]).(string)
		c.pass(time.Duration(c.rand.IntN(300)) * time.Millisecond)
		if ok && found {
			c.server.Do(c, "EVAL", copied, "2", keys[0], keys[1], entries, state, fmt.Sprint("copy", c.rand.Uint64()))
		}
	}
}

// join starts another host, at most twice.
func (c *campaign) join() {
	if n := len(c.hosts); n < 5 {
		c.hosts = append(c.hosts, c.newHost(string(rune('a'+n))))
	}
}

func (c *campaign) killHost() {
	h := c.hosts[c.rand.IntN(len(c.hosts))]
	h.kill()
	h.start()
}

func (c *campaign) step(by time.Duration) {
	if c.clock != nil {
		c.stepped = append(c.stepped, time.Now())
		c.clock.Step(c, by)
		c.stepped = append(c.stepped, time.Now())
	}
}

// stepOn sets the clock forward, but not by so much in all that an entry leaves the log.
func (c *campaign) stepOn() {
	by := time.Duration(1+c.rand.IntN(5)) * time.Hour
	if c.ahead += by; c.ahead < 20*time.Hour {
		c.step(by)
	}
}

// stepBack sets the clock back, and right again: as long as it is behind, it
// stands still for the ledger, and nothing would come back.
func (c *campaign) stepBack() {
	by := time.Duration(1+c.rand.IntN(5)) * time.Hour
	c.step(-by)
	c.pass(500 * time.Millisecond)
	c.step(by)
}

// A campaignHost is a host's process. When it is killed, another one takes over
// its journal.
type campaignHost struct {
	c     *campaign
	name  string
	dir   string
	addr  string
	boots int

	command *exec.Cmd
	stdin   io.WriteCloser
	said    chan string // "ready"
	output  chan string // all that it printed, once it has ended
}

func (c *campaign) newHost(name string) *campaignHost {
	c.Helper()
	proxy := redistest.NewProxy(c, c.server)
	c.proxies = append(c.proxies, proxy)
	h := &campaignHost{c: c, name: name, dir: filepath.Join(c.dir, name), addr: proxy.Addr}
	if err := os.Mkdir(h.dir, 0o700); err != nil {
		c.Fatal(err)
	}
	c.Cleanup(h.kill)
	h.start()
	return h
}

// start returns once the host's clients ask.
func (h *campaignHost) start() {
	h.c.Helper()
	h.command = exec.Command(os.Args[0], "-test.run=^TestCampaignHost$", "-test.v", "-test.timeout=0")
	h.command.Env = append(os.Environ(), campaignNameVariable+"="+h.name, campaignBootVariable+"="+strconv.Itoa(h.boots),
		campaignFolderVariable+"="+h.dir, campaignAddrVariable+"="+h.addr, campaignClientsVariable+"="+strconv.Itoa(h.c.clients),
		campaignSeedVariable+"="+strconv.FormatUint(h.c.seed, 10))
	stdin, err1 := h.command.StdinPipe()
	stdout, err2 := h.command.StdoutPipe()
	if err1 != nil || err2 != nil {
		h.c.Fatal(err1, err2)
	}
	h.command.Stderr = h.command.Stdout
	if err := h.command.Start(); err != nil {
		h.c.Fatal(err)
	}
	h.boots++
	h.stdin, h.said, h.output = stdin, make(chan string, 1), make(chan string, 1)
	go h.read(stdout)
	h.await()
}

// await waits until the host says that it is ready.
func (h *campaignHost) await() {
	h.c.Helper()
	select {
	case <-h.said:
	case output := <-h.output:
		h.c.Fatalf("host %s has ended:\n%s", h.name, output)
	}
}

// read reads all that the host prints.
func (h *campaignHost) read(stdout io.Reader) {
	var all strings.Builder
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if line := lines.Text(); line == "ready" {
			h.said <- line
		}
		fmt.Fprintln(&all, lines.Text())
	}
	h.output <- all.String()
}

// end lets the host finish, and expects it to end well.
func (h *campaignHost) end() {
	h.c.Helper()
	h.stdin.Close()
	output := <-h.output
	if err := h.command.Wait(); err != nil {
		h.c.Errorf("host %s: %v\n%s", h.name, err, output)
	}
	h.command = nil
}

// kill ends the host at once, as a crash would.
func (h *campaignHost) kill() {
	if h.command == nil {
		return
	}
	h.command.Process.Kill()
	<-h.output
	h.command.Wait()
	h.command = nil
}
