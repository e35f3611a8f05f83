package benchmark

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"quotad/quota/redisledger/redistest"
)

func processOf(server *redistest.Server) *Process {
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

// BenchmarkSocket compares acquires over the socket with the floors beneath them and with peers on the same Redis. One
// iteration is the whole comparison:
//
//	go test -run - -bench Socket -benchtime 1x -v
func BenchmarkSocket(b *testing.B) {
	redis := processOf(redistest.Start(b))
	daemon := Quotad(b, BuildQuotad(b), configuration(redis))
	const none, empty, ours = "a handler that does nothing", "a handler that runs an empty script", "acquire"
	rivals := []Rival{
		served(b, none, "none", redis),
		served(b, empty, "script", redis),
		against(empty, acquire(daemon, redis, ours, "full", "videos.list")),
		against(none, acquire(daemon, redis, "a denied acquire", "spent", "search.list")),
		against(ours, served(b, "a handler that asks redis_rate", "redis_rate", redis, unitsVariable+"=1000000000", windowVariable+"=24h")),
	}
	if envoy, err := EnvoyRateLimit(b, redis); err != nil {
		b.Logf("envoy/ratelimit cannot be had: %v", err)
	} else {
		rivals = append(rivals, against(ours, envoy))
	}
	for b.Loop() {
		Compare(b, rivals)
	}
}

func against(floor string, r Rival) Rival {
	r.Floor = floor
	return r
}
