package redisledger

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/redisledger/redistest"
)

// clientDaemonVariable has this test binary be a daemon of TestClientsOfThreeProcesses: it
// is the address of Redis.
const clientDaemonVariable = "QUOTAD_CHILD_DAEMON"

// midnightMs is when a UTC day begins.
const midnightMs = 1_800_057_600_000

// minutely gives each subject twenty units a minute.
func minutely(algorithm clientlimit.Algorithm) *clientlimit.Clients {
	return &clientlimit.Clients{
		Name: string(algorithm), Algorithm: algorithm,
		Limits: []quota.Limit{{Name: "minute", Units: 20, Window: quota.Sliding(time.Minute)}},
	}
}

// Three processes ask for the same subjects at once, while minutes pass and a day ends, with which
// the keys of subjects change. Together they are granted what one daemon would have granted, and by
// the log never more than the limit in any minute.
func TestClientsOfThreeProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do(t, "SET", "clock", fmt.Sprint(midnightMs-150_000))
	var mu sync.Mutex // guards grants
	grants := map[string][]clientGrant{}
	var daemons sync.WaitGroup
	for range 3 {
		daemons.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestClientDaemon$")
			cmd.Env = append(os.Environ(), clientDaemonVariable+"="+server.Addr)
			text, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("a daemon: %v\n%s", err, text)
			}
			mu.Lock()
			defer mu.Unlock()
			for line := range strings.Lines(string(text)) {
				var of, subject string
				var g clientGrant
				if n, _ := fmt.Sscanf(line, "grant %s %s %d %d", &of, &subject, &g.ms, &g.units); n == 4 {
					of += " " + subject
					grants[of] = append(grants[of], g)
				}
			}
		})
	}
	daemons.Wait()
	for _, algorithm := range algorithms {
		for _, subject := range []string{"alice", "bob"} {
			granted := grants[string(algorithm)+" "+subject]
			slices.SortFunc(granted, func(a, b clientGrant) int { return int(a.ms - b.ms) })
			if minutes := (granted[len(granted)-1].ms - granted[0].ms) / 60_000; minutes < 5 || granted[0].ms >= midnightMs || granted[len(granted)-1].ms < midnightMs+60_000 {
				t.Fatalf("only %d minutes have passed, and no day", minutes)
			}
			checkGrants(t, minutely(algorithm), granted)
		}
	}
}

type clientGrant struct {
	ms    int64
	units quota.Units
}

func checkGrants(t *testing.T, c *clientlimit.Clients, granted []clientGrant) {
	t.Helper()
	var record []byte
	for i, g := range granted {
		after, _, d := c.Decide(record, g.ms, g.units)
		if !d.Granted() {
			t.Fatalf("%s: the daemons granted %+v, one would not have: %+v", c.Algorithm, g, d)
		}
		record = after
		sum := quota.Units(0)
		for n := i; n >= 0 && granted[n].ms > g.ms-60_000; n-- {
			sum += granted[n].units
		}
		if c.Algorithm == clientlimit.Log && sum > c.Limits[0].Units {
			t.Fatalf("%d units were granted in the minute before %d", sum, g.ms)
		}
	}
	t.Logf("%s: %d grants", c.Algorithm, len(granted))
}

// TestClientDaemon is one of the daemons.
func TestClientDaemon(t *testing.T) {
	addr := os.Getenv(clientDaemonVariable)
	if addr == "" {
		t.Skip("only a process of the test with three of them is a daemon")
	}
	l := clientLedger(t, addr)
	name := fmt.Sprint(os.Getpid())
	daemon := clientlimit.NewService(clientlimit.Config{Deadline: hanging, Host: clientlimit.Host{ID: func() string { return name }, Label: name}})
	if err := daemon.SetClients(l, []*clientlimit.Clients{minutely(clientlimit.Log), minutely(clientlimit.Counter)}); err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	for n := range 4 {
		random := rand.New(rand.NewPCG(1, uint64(n)))
		callers.Go(func() {
			for range 100 {
				if err := l.current().IncrBy(t.Context(), "clock", random.Int64N(1000)).Err(); err != nil {
					t.Error(err)
				}
				for _, algorithm := range algorithms {
					asks := []clientlimit.Request{{Subject: "alice", Count: 1}, {Subject: "bob", Count: quota.Units(1 + random.IntN(3))}}
					for i, d := range daemon.Acquire(t.Context(), string(algorithm), asks...) {
						if d.Err != nil {
							t.Error(d.Err)
						}
						if d.Granted() {
							fmt.Printf("grant %s %s %d %d\n", algorithm, asks[i].Subject, d.Now.UnixMilli(), d.Units)
						}
					}
				}
			}
		})
	}
	callers.Wait()
}
