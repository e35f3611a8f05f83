package benchmark

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"quotad/quota/redisledger/redistest"
)

func startRedis(tb testing.TB) *Process {
	server := redistest.Start(tb)
	return &Process{PID: server.Process.Pid, Socket: strings.TrimPrefix(server.Addr, "unix://")}
}

// configuration is the daemon's: a credential whose limit is never reached, and one that is spent. The deadline is one
// that a busy machine meets too.
func configuration(redis *Process) string {
	return fmt.Sprintf(`
[ledger]
backend = "redis"
deadline = "10s"
redis.addrs = ["unix://%s"]
[credentials.full]
limits.daily = { units = 1_000_000_000_000, window = "24h" }
operations = { "search.list" = 100, "videos.list" = 1 }
[credentials.spent]
limits.daily = { units = 100, window = "24h" }
operations = { "search.list" = 100 }
`, redis.Socket)
}

// served is a rival that a server of TestServe answers.
func served(b *testing.B, name, kind string, redis *Process, environment ...string) Rival {
	server := Serve(b, kind, append(environment, redisVariable+"="+redis.Socket)...)
	r := Rival{Name: name, Servers: []*Process{server}, Dial: func() (Client, error) {
		return HTTP(server.Socket, "/", "subject=one", http.StatusOK)
	}}
	if kind != "none" {
		r.Servers = append(r.Servers, redis)
	}
	return r
}

// acquire is a rival that acquires from the daemon. Of the credential "spent" the first client's first call takes all.
func acquire(daemon, redis *Process, name, credential, operation string) Rival {
	var taken atomic.Bool
	form := "credential=" + credential + "&operation=" + operation
	return Rival{Name: name, Servers: []*Process{daemon, redis}, Dial: func() (Client, error) {
		if credential != "spent" {
			return HTTP(daemon.Socket, "/v1/acquire", form, http.StatusOK)
		}
		if taken.CompareAndSwap(false, true) {
			first, err := HTTP(daemon.Socket, "/v1/acquire", form, http.StatusOK)
			if err != nil {
				return nil, err
			}
			defer first.Close()
			if err := first.Ask(); err != nil {
				return nil, err
			}
		}
		return HTTP(daemon.Socket, "/v1/acquire", form, http.StatusTooManyRequests)
	}}
}

// perUnit is the common recipe: a sorted set with a member per unit, those that have left the window removed at every
// call; asked directly, without a daemon.
const perUnit = `
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_ms - 86400000)
if redis.call('ZCARD', KEYS[1]) + ARGV[1] > tonumber(ARGV[2]) then return 0 end
local call = redis.call('INCR', KEYS[2])
for unit = 1, ARGV[1] do redis.call('ZADD', KEYS[1], now_ms, call .. ':' .. unit) end
redis.call('PEXPIRE', KEYS[1], 86400000)
return 1`

func recipe(b *testing.B, redis *Process, name string) Rival {
	sha, err := Redis(redis.Socket, "SCRIPT", "LOAD", perUnit)
	if err != nil {
		b.Fatal(err)
	}
	return Rival{Name: name, Servers: []*Process{redis}, Alone: true, Dial: func() (Client, error) {
		return RESP(redis.Socket, "EVALSHA", sha, "2", "units", "calls", "100", "1000000000")
	}}
}

// BenchmarkSocket compares acquires over the socket with the floors beneath them and with peers on the same Redis. One
// iteration is the whole comparison:
//
//	go test -run - -bench Socket -benchtime 1x -v
func BenchmarkSocket(b *testing.B) {
	redis := startRedis(b)
	daemon := Quotad(b, BuildQuotad(b), configuration(redis))
	const none, empty, ours = "a handler that does nothing", "a handler that runs an empty script", "acquire"
	const hundred, denied, units = "acquire, 100 units", "a denied acquire", "a sorted set with a member per unit, called directly"
	rivals := []Rival{
		served(b, none, "none", redis),
		served(b, empty, "script", redis),
		against(empty, acquire(daemon, redis, ours, "full", "videos.list")),
		against(empty, acquire(daemon, redis, hundred, "full", "search.list")),
		against(none, acquire(daemon, redis, denied, "spent", "search.list")),
		against(hundred, recipe(b, redis, units)),
		against(ours, served(b, "a handler that asks redis_rate", "redis_rate", redis, unitsVariable+"=1000000000", windowVariable+"=24h")),
	}
	if envoy, err := EnvoyRateLimit(b, redis); err != nil {
		b.Logf("envoy/ratelimit cannot be had: %v", err)
	} else {
		rivals = append(rivals, against(ours, envoy))
	}
	for b.Loop() {
		Compare(b, rivals)
		script, nothing := scriptTimes(b, redis, rivals[1], rivals[2])
		b.Logf("in redis     acquire script %.1f µs a call, return 1 for a handler %.1f µs: ×%.1f", script, nothing, script/nothing)
	}
}

func against(floor string, r Rival) Rival {
	r.Floor = floor
	return r
}

// scriptTimes returns what one call of the acquire script takes inside Redis, as Redis itself counts it, and what a
// script takes that does nothing, called by a handler, too: medians of three.
func scriptTimes(b *testing.B, redis *Process, empty, ours Rival) (script, nothing float64) {
	var scripts, nothings []float64
	for range 3 {
		nothings = append(nothings, scriptTime(b, redis, empty))
		scripts = append(scripts, scriptTime(b, redis, ours))
	}
	slices.Sort(scripts)
	slices.Sort(nothings)
	return scripts[1], nothings[1]
}

// scriptTime is usec_per_call of EVALSHA while a rival is asked by one client.
func scriptTime(b *testing.B, redis *Process, r Rival) float64 {
	client, err := r.Dial()
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	if _, err := Redis(redis.Socket, "CONFIG", "RESETSTAT"); err != nil {
		b.Fatal(err)
	}
	for range 10_000 {
		if err := client.Ask(); err != nil {
			b.Fatal(err)
		}
	}
	info, err := Redis(redis.Socket, "INFO", "commandstats")
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
