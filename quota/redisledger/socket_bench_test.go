package redisledger_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"quotad/quota/benchmark"
	"quotad/quota/redisledger/redistest"
)

// floors are servers that answer as the daemon does and decide nothing.
var floors = map[string]func(t *testing.T, redisSocket string) http.Handler{
	"no-op":        noOp,
	"empty script": emptyScript,
}

const (
	floorVariable = "QUOTAD_CHILD_FLOOR"
	redisVariable = "QUOTAD_CHILD_REDIS"
)

// TestServeFloor is a server of the benchmarks, until it is killed.
func TestServeFloor(t *testing.T) {
	kind := os.Getenv(floorVariable)
	if kind == "" {
		t.Skip("only a process of the benchmarks serves")
	}
	handler := floors[kind](t, os.Getenv(redisVariable))
	listener, err := net.Listen("unix", os.Getenv(benchmark.SocketVariable))
	if err != nil {
		t.Fatal(err)
	}
	if err := http.Serve(listener, handler); !errors.Is(err, http.ErrServerClosed) {
		t.Fatal(err)
	}
}

func answerGranted(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Write([]byte(`{"granted":true}`))
}

func noOp(*testing.T, string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answerGranted(w) })
}

func emptyScript(t *testing.T, socket string) http.Handler {
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	script := redis.NewScript("return 1")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := script.Run(r.Context(), client, []string{"key"}).Err(); err != nil {
			t.Error(err)
		}
		answerGranted(w)
	})
}

func startRedis(tb testing.TB) *benchmark.Process {
	server := redistest.Start(tb)
	return &benchmark.Process{PID: server.Process.Pid, Socket: strings.TrimPrefix(server.Addr, "unix://")}
}

func floor(b *testing.B, name, kind string, redis *benchmark.Process) benchmark.Rival {
	server := benchmark.Again(b, "TestServeFloor", floorVariable+"="+kind, redisVariable+"="+redis.Socket)
	r := benchmark.Rival{Name: name, Servers: []*benchmark.Process{server}, Dial: func() (benchmark.Client, error) {
		return benchmark.HTTP(server.Socket, "/v1/acquire", "operation=videos.list", http.StatusOK)
	}}
	if kind == "empty script" {
		r.Servers = append(r.Servers, redis)
	}
	return r
}

// configuration is the daemon's: credentials c0, c1 … with a limit that is never
// reached. The deadline is one that a busy machine meets too.
func configuration(redis *benchmark.Process, credentials int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
[ledger]
backend = "redis"
deadline = "10s"
[ledger.redis]
addrs = ["unix://%s"]
key_prefix = "bench%d:"
`, redis.Socket, credentials)
	for n := range credentials {
		fmt.Fprintf(&b, `
[credentials.c%[1]d.limits.daily]
units = 1_000_000_000_000
window = "24h"
[credentials.c%[1]d.operations]
"search.list" = 100
"videos.list" = 1
`, n)
	}
	return b.String()
}

const spent = `
[credentials.spent.limits.daily]
units = 100
window = "24h"
[credentials.spent.operations]
"search.list" = 100
`

// acquire is a rival that acquires from the daemon. Of the credential "spent" nothing
// is left: the first client's first call took it.
func acquire(daemon, redis *benchmark.Process, name, credential, operation string) benchmark.Rival {
	var taken atomic.Bool
	form := "credential=" + credential + "&operation=" + operation
	return benchmark.Rival{Name: name, Servers: []*benchmark.Process{daemon, redis}, Dial: func() (benchmark.Client, error) {
		if credential != "spent" {
			return benchmark.HTTP(daemon.Socket, "/v1/acquire", form, http.StatusOK)
		}
		if taken.CompareAndSwap(false, true) {
			first, err := benchmark.HTTP(daemon.Socket, "/v1/acquire", form, http.StatusOK)
			if err != nil {
				return nil, err
			}
			defer first.Close()
			if err := first.Ask(); err != nil {
				return nil, err
			}
		}
		return benchmark.HTTP(daemon.Socket, "/v1/acquire", form, http.StatusTooManyRequests)
	}}
}

// perUnit is the common recipe: a sorted set with a member per unit, those that have
// left the window removed at every call; asked directly, without a daemon.
const perUnit = `
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_ms - 86400000)
if redis.call('ZCARD', KEYS[1]) + ARGV[1] > tonumber(ARGV[2]) then return 0 end
local call = redis.call('INCR', KEYS[2])
for unit = 1, ARGV[1] do redis.call('ZADD', KEYS[1], now_ms, call .. ':' .. unit) end
redis.call('PEXPIRE', KEYS[1], 86400000)
return 1`

func recipe(b *testing.B, redis *benchmark.Process, cost int) benchmark.Rival {
	sha, err := benchmark.Redis(redis.Socket, "SCRIPT", "LOAD", perUnit)
	if err != nil {
		b.Fatal(err)
	}
	return benchmark.Rival{
		Name: fmt.Sprintf("a member per unit, no daemon, cost %d", cost), Servers: []*benchmark.Process{redis}, Alone: true,
		Dial: func() (benchmark.Client, error) {
			return benchmark.RESP(redis.Socket, "EVALSHA", sha, "2", "units", "calls", strconv.Itoa(cost), "1000000000")
		},
	}
}

// BenchmarkSocket compares acquires over the socket with the floors beneath them and
// with peers on the same Redis. One iteration is the whole comparison:
//
//	go test -run - -bench Socket -benchtime 1x -v ./quota/redisledger
func BenchmarkSocket(b *testing.B) {
	redis := startRedis(b)
	table := benchmark.Table{
		Name: "socket", Command: "QUOTAD_BENCH_README=1 go test -run - -bench Socket -benchtime 1x -v ./quota/redisledger",
		Sources: benchmark.OfAcquire, Head: benchmark.Sides,
	}
	one := benchmark.Quotad(b, benchmark.BuildQuotad(b), configuration(redis, 1)+spent)
	const none, empty, ours = "no-op handler", "handler with an empty script", "acquire, cost 1"
	const hundred, denied, perUnit = "acquire, cost 100", "denied acquire", "a member per unit, no daemon, cost 100"
	rivals := []benchmark.Rival{
		floor(b, none, "no-op", redis),
		floor(b, empty, "empty script", redis),
		against(empty, acquire(one, redis, ours, "c0", "videos.list")),
		against(empty, acquire(one, redis, hundred, "c0", "search.list")),
		against(none, acquire(one, redis, denied, "spent", "search.list")),
		against(hundred, recipe(b, redis, 100)),
	}
	for _, peer := range []func(testing.TB, *benchmark.Process) (benchmark.Rival, error){benchmark.EnvoyRateLimit, benchmark.RedisRate} {
		r, err := peer(b, redis)
		if err != nil {
			b.Logf("a peer cannot be had: %v", err)
			continue
		}
		rivals = append(rivals, against(ours, r))
	}
	for b.Loop() {
		measured := benchmark.Compare(b, rivals)
		of := func(name string) benchmark.Result { // zero if the rival could not be had
			if r := measured[name]; r != nil {
				return *r
			}
			return benchmark.Result{}
		}
		envoy, rate := of(benchmark.Envoy), of(benchmark.RedisRateHandler)
		const one, many = "Redis, one client", "Redis, 64 clients: CPU of all servers"
		table.Rows = nil
		table.Beside(one, " µs", of(ours).P50, "a handler that runs an empty script", of(empty).P50)
		table.Beside(one, " µs", of(ours).P50, "a handler that asks redis_rate", rate.P50)
		table.Beside(one, " µs", of(ours).P50, "envoy/ratelimit", envoy.P50)
		table.Beside(one+", 100 units", " µs", of(hundred).P50, "a sorted set with a member per unit, called directly", of(perUnit).P50)
		table.Beside("denied, one client", " µs", of(denied).P50, "a handler that does nothing", of(none).P50)
		table.Beside(one+": context switches of quotad", "", of(ours).Switches, "a handler that runs an empty script", of(empty).Switches)
		table.Beside(one+": system calls of quotad, under strace", "", of(ours).Calls, "a handler that runs an empty script", of(empty).Calls)
		table.Beside(one+": those that do not park or wake a thread", "", of(ours).OwnCalls, "a handler that runs an empty script", of(empty).OwnCalls)
		table.Beside(many, " µs", of(ours).CPU, "a handler that runs an empty script", of(empty).CPU)
		table.Beside(many, " µs", of(ours).CPU, "a handler that asks redis_rate", rate.CPU)
		table.Beside(many, " µs", of(ours).CPU, "envoy/ratelimit", envoy.CPU)
		script, nothing := scriptTimes(b, redis, rivals[1], rivals[2])
		table.Beside(one+": the script inside Redis", " µs", script, "`return 1`, called as often", nothing)
		table.Write(b)
	}
}

// BenchmarkCredentials compares a daemon of 1,000 credentials with a daemon of one.
//
//	go test -run - -bench Credentials -benchtime 1x -v ./quota/redisledger
func BenchmarkCredentials(b *testing.B) {
	redis, path := startRedis(b), benchmark.BuildQuotad(b)
	var rivals []benchmark.Rival
	for _, n := range []int{1, 1000} {
		daemon := benchmark.Quotad(b, path, configuration(redis, n))
		rivals = append(rivals, acquire(daemon, redis, fmt.Sprintf("acquire, one of %d credentials", n), "c0", "videos.list"))
	}
	rivals[1].Floor = rivals[0].Name
	for b.Loop() {
		benchmark.Compare(b, rivals)
	}
}

func against(floor string, r benchmark.Rival) benchmark.Rival {
	r.Floor = floor
	return r
}

// scriptTimes returns what one call of the acquire script takes inside Redis, as Redis itself
// counts it, and what a script takes that does nothing, called by a handler, too: medians of three.
func scriptTimes(b *testing.B, redis *benchmark.Process, empty, ours benchmark.Rival) (script, nothing float64) {
	var scripts, nothings []float64
	for range 3 {
		nothings = append(nothings, scriptTime(b, redis, empty))
		scripts = append(scripts, scriptTime(b, redis, ours))
	}
	slices.Sort(scripts)
	slices.Sort(nothings)
	b.Logf("in redis     acquire script %.1f µs a call, return 1 for a handler %.1f µs: ×%.1f", scripts[1], nothings[1], scripts[1]/nothings[1])
	return scripts[1], nothings[1]
}

// scriptTime is usec_per_call of EVALSHA while a rival is asked by one client.
func scriptTime(b *testing.B, redis *benchmark.Process, r benchmark.Rival) float64 {
	client, err := r.Dial()
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	if _, err := benchmark.Redis(redis.Socket, "CONFIG", "RESETSTAT"); err != nil {
		b.Fatal(err)
	}
	for range 10_000 {
		if err := client.Ask(); err != nil {
			b.Fatal(err)
		}
	}
	info, err := benchmark.Redis(redis.Socket, "INFO", "commandstats")
	if err != nil {
		b.Fatal(err)
	}
	_, line, _ := strings.Cut(info, "cmdstat_evalsha:")
	_, line, _ = strings.Cut(line, "usec_per_call=")
	value, _, _ := strings.Cut(line, ",")
	usec, err := strconv.ParseFloat(value, 64)
	if err != nil {
		b.Fatalf("INFO commandstats: %v in %q", err, info)
	}
	return usec
}
