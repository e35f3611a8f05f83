package redisledger_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/boltledger"
	"quotad/quota/outage"
	"quotad/quota/redisledger"
	"quotad/quota/redisledger/redistest"
)

// What the benchmarks over the socket compare are processes: this test binary,
// as the client, and itself again as each of these servers. They are what the
// daemon is as far as acquire is concerned, and the floors beneath it.
var servers = map[string]func(t *testing.T, dir, redis string) http.Handler{
	"no-op":        noOp,
	"empty script": emptyScript,
	"redis":        redisServer,
	"synced write": syncedWrite,
	"embedded":     embeddedServer,
}

const (
	serveVariable = "QUOTAD_BENCH_SERVE"
	dirVariable   = "QUOTAD_BENCH_DIR"
	redisVariable = "QUOTAD_BENCH_REDIS"
)

// TestServe is a server of the benchmarks, until it is told to end.
func TestServe(t *testing.T) {
	kind := os.Getenv(serveVariable)
	if kind == "" {
		t.Skip("only a process of the benchmarks serves")
	}
	dir := os.Getenv(dirVariable)
	handler := servers[kind](t, dir, os.Getenv(redisVariable))
	listener, err := api.Listen(filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	if ours, ok := handler.(*api.Server); ok {
		if err := ours.Serve(listener); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		t.Fatal(err)
	}
}

func answerGranted(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Write([]byte(`{"granted":true}`))
}

func noOp(*testing.T, string, string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answerGranted(w) })
}

func emptyScript(t *testing.T, _, addr string) http.Handler {
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: addr[len("unix://"):]})
	script := redis.NewScript("return 1")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := script.Run(r.Context(), client, []string{"key"}).Err(); err != nil {
			t.Error(err)
		}
		answerGranted(w)
	})
}

// synced is one small commit of the embedded ledger's file, without a decision.
func syncedWrite(t *testing.T, dir, _ string) http.Handler {
	ledger := openEmbedded(t, dir)
	c := *bench()
	var mu sync.Mutex
	n := 0
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		n++
		mu.Unlock()
		if _, err := ledger.Adjust(context.Background(), &c, quota.Adjustment{Limit: "daily", Units: 1}); err != nil {
			t.Error(err)
		}
		answerGranted(w)
	})
}

func embeddedServer(t *testing.T, dir, _ string) http.Handler {
	return daemonOn(t, openEmbedded(t, dir))
}

func openEmbedded(t *testing.T, dir string) quota.Ledger {
	ledger, err := boltledger.Open(boltledger.Config{Path: filepath.Join(dir, "ledger.db")})
	if err != nil {
		t.Fatal(err)
	}
	return ledger
}

func redisServer(t *testing.T, dir, addr string) http.Handler {
	shared, err := redisledger.Open(redisledger.Config{Addrs: []string{addr}, Daemon: "bench"})
	if err != nil {
		t.Fatal(err)
	}
	journal, err := outage.OpenJournal(filepath.Join(dir, "journal"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := outage.Open(outage.Config{Ledger: shared, Journal: journal, Daemon: "bench", Deadline: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := ledger.SetCredentials([]*quota.Credential{bench()}, nil); err != nil {
		t.Fatal(err)
	}
	return daemonOn(t, ledger)
}

func daemonOn(t *testing.T, ledger quota.Ledger) http.Handler {
	keeper, err := quota.NewKeeper(ledger, []*quota.Credential{bench()}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	server, err := api.NewServer(api.Config{Keeper: keeper, Version: "bench"})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func bench() *quota.Credential {
	day := quota.Sliding(24 * time.Hour)
	return &quota.Credential{
		Name: "youtube",
		Limits: []quota.Limit{
			{Name: "daily", Units: quota.MaxUnits, Window: day},
			{Name: "little", Units: 100, Window: day, Only: []string{"full"}},
		},
		Operations: map[string]quota.Cost{"search.list": {Every: 100}, "videos.list": {Every: 1}, "full": {Every: 100}},
	}
}

// serve starts a server as a process of its own, and returns its socket.
func serve(b *testing.B, kind, redis string) string {
	b.Helper()
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		b.Fatal(err)
	}
	command := exec.Command(os.Args[0], "-test.run=^TestServe$", "-test.timeout=0")
	command.Env = append(os.Environ(), serveVariable+"="+kind, dirVariable+"="+dir, redisVariable+"="+redis)
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		command.Process.Signal(syscall.SIGKILL)
		command.Wait()
		os.RemoveAll(dir)
	})
	socket := filepath.Join(dir, "s")
	for deadline := time.Now().Add(20 * time.Second); ; {
		if conn, err := net.Dial("unix", socket); err == nil {
			conn.Close()
			return socket
		}
		if time.Now().After(deadline) {
			b.Fatalf("server %q does not answer", kind)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A rival is something that is measured.
type rival struct {
	name string
	ask  func() error
}

// over asks a server to acquire an operation.
func over(b *testing.B, name, kind, redis, operation string) rival {
	client := &api.Client{Socket: serve(b, kind, redis)}
	r := rival{name, func() error {
		_, err := client.Acquire(context.Background(), api.AcquireRequest{Credential: "youtube", Operation: operation, RequestID: ""})
		return err
	}}
	return r
}

// BenchmarkSocket prints what DESIGN.md §7 promises of acquire over the socket:
// medians of rounds in which every rival has its turn, so that a machine that
// grows slower does so for all. Run it with -benchtime=1x.
func BenchmarkSocket(b *testing.B) {
	server := redistest.Start(b)
	if !server.Real {
		b.Skip("needs a real redis-server")
	}
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: server.Addr[len("unix://"):]})
	defer client.Close()
	rivals := []rival{
		over(b, "no-op handler", "no-op", "", "videos.list"),
		over(b, "handler with an empty script", "empty script", server.Addr, "videos.list"),
		over(b, "acquire, redis, cost 1", "redis", server.Addr, "videos.list"),
		over(b, "acquire, redis, cost 100", "redis", redistest.Start(b).Addr, "search.list"),
		over(b, "denied acquire", "redis", redistest.Start(b).Addr, "full"),
		{"a member per unit, no daemon, cost 100", perUnit(client, 100)},
		over(b, "handler with a synced write", "synced write", "", "videos.list"),
		over(b, "acquire, embedded", "embedded", "", "videos.list"),
	}
	for b.Loop() {
		b.StopTimer()
		latencies(b, rivals)
		rates(b, rivals)
		b.StartTimer()
	}
}

// perUnit is the common recipe: a sorted set with one member per unit, called
// directly.
func perUnit(client *redis.Client, cost int) func() error {
	script := redis.NewScript(`
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ms - 86400000)
if redis.call('ZCARD', KEYS[1]) + ARGV[1] > tonumber(ARGV[2]) then return 0 end
for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1], ms, ARGV[3] .. ':' .. i) end
redis.call('PEXPIRE', KEYS[1], 86400000)
return 1`)
	n := 0
	return func() error {
		n++
		return script.Run(context.Background(), client, []string{"units"}, cost, "1000000000", strconv.Itoa(n)).Err()
	}
}

const rounds, perRound = 30, 200

// latencies measures one client.
func latencies(b *testing.B, rivals []rival) {
	took := make([][]time.Duration, len(rivals))
	for range rounds {
		for i, r := range rivals {
			for range perRound / slowness(r) {
				begun := time.Now()
				if err := r.ask(); err != nil {
					b.Fatalf("%s: %v", r.name, err)
				}
				took[i] = append(took[i], time.Since(begun))
			}
		}
	}
	for i, r := range rivals {
		slices.Sort(took[i])
		b.Logf("1 client    %-42s p50 %8.1f µs  p99 %8.1f µs", r.name, micros(took[i], 50), micros(took[i], 99))
	}
}

// slowness has what waits for a disk asked less often.
func slowness(r rival) int {
	if r.name == "acquire, embedded" || r.name == "handler with a synced write" {
		return 10
	}
	return 1
}

func micros(sorted []time.Duration, percent int) float64 {
	return float64(sorted[len(sorted)*percent/100].Nanoseconds()) / 1000
}

// rates measures 64 clients.
func rates(b *testing.B, rivals []rival) {
	const clients, parts, part = 64, 5, 400 * time.Millisecond
	counts := make([][]float64, len(rivals))
	for range parts {
		for i, r := range rivals {
			if r.name == "a member per unit, no daemon, cost 100" {
				continue // not written for several callers
			}
			counts[i] = append(counts[i], float64(hammer(b, r, clients, part))/part.Seconds())
		}
	}
	for i, r := range rivals {
		if len(counts[i]) > 0 {
			slices.Sort(counts[i])
			b.Logf("64 clients  %-42s median %8.0f /s", r.name, counts[i][len(counts[i])/2])
		}
	}
}

func hammer(b *testing.B, r rival, clients int, d time.Duration) int64 {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex // guards total
	total := int64(0)
	for range clients {
		wg.Go(func() {
			n := int64(0)
			for ctx.Err() == nil {
				if err := r.ask(); err != nil {
					b.Errorf("%s: %v", r.name, err)
					return
				}
				n++
			}
			mu.Lock()
			total += n
			mu.Unlock()
		})
	}
	wg.Wait()
	return total
}
