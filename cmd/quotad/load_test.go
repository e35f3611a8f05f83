package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quotad/quota/api"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
)

// LoadCounts are how much of everything there is at once.
type loadCounts struct {
	connections int // held open, each asking now and then
	clients     int // hammering
	slow        int // reading a byte at a time
	halfOpen    int // that never finish their request
	abrupt      int // hanging up instead of reading the answer
	lasts       time.Duration
}

// loadLevel is a short one, or all of it with QUOTAD_TEST_LONG=1.
func loadLevel(t *testing.T) loadCounts {
	if seedtest.Long(t, 0) > 0 {
		return loadCounts{connections: 100, clients: 64, slow: 32, halfOpen: 32, abrupt: 8, lasts: 10 * time.Second}
	}
	return loadCounts{connections: 200, clients: 16, slow: 8, halfOpen: 16, abrupt: 4, lasts: 400 * time.Millisecond}
}

const underLoad = `
[ledger]
%s
[credentials.many]
limits.daily.units = 1_000_000_000
operations.list = 1
[credentials.few]
limits.daily.units = 100
operations.list = 1
[credentials.abrupt]
limits.daily.units = 1_000_000_000
operations.list = 1
`

// TestLoad has everything at once that clients do to a daemon, and holds that each
// that listens gets the right answer, that the books are right, and that nothing
// of it stays. The rates are reported beside those of a handler that does nothing.
func TestLoad(t *testing.T) {
	t.Parallel()
	l := loadLevel(t)
	t.Run("embedded", func(t *testing.T) { testLoad(t, l, `backend = "embedded"`, 0) })
	t.Run("redis", func(t *testing.T) {
		// Its client keeps what connections it has once needed.
		const pool = 20
		testLoad(t, l, onRedis(redistest.Start(t).Addr), pool)
	})
}

func testLoad(t *testing.T, l loadCounts, ledger string, keeps int) {
	daemon, client := startWith(t, fmt.Sprintf(underLoad, ledger))
	floor := newLoadClients(noop(t))
	t.Logf("no-op handler:     %v", floor.hammer(l.clients, l.lasts/2, floor.ask))
	s := newLoadClients(client.Socket)
	pid := daemon.cmd.Process.Pid
	before := resourcesOf(t, pid)
	t.Logf("quotad:            %v", s.hammer(l.clients, l.lasts/2, s.acquire))
	end := s.begin(t, l)
	t.Logf("quotad under load: %v", s.hammer(l.clients, l.lasts, s.acquire))
	during := resourcesOf(t, pid)
	end()
	eventually(t, func() bool { return resourcesOf(t, pid).descriptors <= before.descriptors+keeps })
	t.Logf("before %v; during %v; after %v", before, during, resourcesOf(t, pid))
	if during.descriptors < l.connections {
		t.Errorf("only %d descriptors were open under load", during.descriptors)
	}
	if most := 256 << 10; during.memory > most && !hasRaceDetector() {
		t.Errorf("%d KiB of memory were resident under load, more than %d", during.memory, most)
	}
	s.checkAnswers(t)
	s.checkBooks(t, client)
}

// LoadClients are what is done to a daemon, and what came of it.
type loadClients struct {
	socket string
	client *api.Client

	many, few atomic.Int64 // granted by the credentials of these names
	abrupt    atomic.Int64 // asked for by who hung up

	mu    sync.Mutex // guards wrong
	wrong []string
}

func newLoadClients(socket string) *loadClients {
	return &loadClients{socket: socket, client: &api.Client{Socket: socket}}
}

func (s *loadClients) complain(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// ask is one call of a handler that does nothing.
func (s *loadClients) ask(int) {
	if _, err := s.client.Acquire(context.Background(), api.AcquireRequest{Credential: "many", Operation: "list"}); err != nil {
		s.complain("no-op: %v", err)
	}
}

// acquire is the i-th call of a client: most are granted, some are denied and a
// few are not understood.
func (s *loadClients) acquire(i int) {
	r := api.AcquireRequest{Credential: "many", Operation: "list"}
	switch i % 10 {
	case 3, 6:
		r.Credential = "few"
	case 9:
		r.Operation = "no-such"
	}
	d, err := s.client.Acquire(context.Background(), r)
	switch {
	case !isAnswer(err):
		s.complain("%+v: %v", r, err)
	case d.Granted && r.Operation == "list" && r.Credential == "many":
		s.many.Add(1)
	case d.Granted && r.Operation == "list":
		s.few.Add(1)
	case d.Reason == "limit_exceeded" && r.Credential == "few" && d.RetryAfterMs > 0:
	case d.Reason == "unknown_operation" && r.Operation == "no-such":
	default:
		s.complain("%+v: %+v", r, d)
	}
}

// hammer has clients ask as often as they can.
func (s *loadClients) hammer(clients int, lasts time.Duration, ask func(int)) rate {
	ctx, cancel := context.WithTimeout(context.Background(), lasts)
	defer cancel()
	all := make([][]time.Duration, clients)
	begun := time.Now()
	var hammering sync.WaitGroup
	for c := range all {
		hammering.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				at := time.Now()
				ask(i)
				all[c] = append(all[c], time.Since(at))
			}
		})
	}
	hammering.Wait()
	return rateOf(all, time.Since(begun))
}

func (s *loadClients) checkAnswers(t *testing.T) {
	t.Helper()
	for i, wrong := range s.wrong {
		if i == 10 {
			t.Errorf("and %d more", len(s.wrong)-i)
			break
		}
		t.Error("a wrong answer: ", wrong)
	}
}

// checkBooks holds the ledger against what clients were told. Who hangs up is not
// told, and so may have been granted or not.
func (s *loadClients) checkBooks(t *testing.T, client *api.Client) {
	t.Helper()
	status, err := client.Status(context.Background())
	must(t, err)
	used := map[string]int64{}
	for _, c := range status.Credentials {
		used[c.Name] = c.Limits[0].Used
	}
	if many := s.many.Load(); used["many"] != many || many == 0 {
		t.Errorf("%d units are debited, %d were granted", used["many"], many)
	}
	if few := s.few.Load(); used["few"] != few || few > 100 {
		t.Errorf("%d units are debited, %d were granted, of 100", used["few"], few)
	}
	if used["abrupt"] > s.abrupt.Load() {
		t.Errorf("%d units are debited for %d calls that hung up", used["abrupt"], s.abrupt.Load())
	}
	t.Logf("%d and %d of 100 granted, no wrong answer; %d hung up, %d of these debited",
		used["many"], used["few"], s.abrupt.Load(), used["abrupt"])
}

// Resources are what a process holds.
type resources struct {
	descriptors int
	memory      int // resident, in KiB
}

func (s resources) String() string {
	return fmt.Sprintf("%d descriptors, %d MiB", s.descriptors, s.memory>>10)
}

func resourcesOf(t *testing.T, pid int) resources {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("root alone can count the descriptors of quotad")
	}
	descriptors, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "fd"))
	must(t, err)
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	must(t, err)
	_, resident, _ := strings.Cut(string(status), "VmRSS:")
	memory, err := strconv.Atoi(strings.Fields(resident)[0])
	must(t, err)
	return resources{descriptors: len(descriptors), memory: memory}
}
