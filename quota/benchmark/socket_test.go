package benchmark

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"quotad/quota/redisledger/redistest"
)

// configuration is the daemon's: a credential whose limit is never reached, and one that is spent by its first call. The
// deadline is one that a busy machine meets too.
const configuration = `
ledger = { backend = "redis", deadline = "10s", redis.addrs = ["unix://%s"] }
[credentials.full]
limits.daily = { units = 1_000_000_000_000, window = "24h" }
operations = { "videos.list" = 1 }
[credentials.spent]
limits.daily = { units = 1, window = "24h" }
operations = { "videos.list" = 1 }
`

// BenchmarkSocket compares acquires over the socket with the floors beneath them and with peers on the same Redis. One
// iteration is the whole comparison:
//
//	go test -run - -bench Socket -benchtime 1x -v
func BenchmarkSocket(b *testing.B) {
	server := redistest.Start(b)
	redis := &Process{PID: server.Process.Pid, Socket: strings.TrimPrefix(server.Addr, "unix://")}
	daemon := Quotad(b, fmt.Sprintf(configuration, redis.Socket))
	served := func(name, kind, floor string) Rival {
		server := Serve(b, kind, redis)
		return Rival{name, func() (Client, error) { return HTTP(server.Socket, "/", "subject=one", http.StatusOK) },
			[]*Process{server, redis}, floor}
	}
	acquire := func(name, credential string, status int, floor string) Rival {
		form := "operation=videos.list&credential=" + credential
		return Rival{name, func() (Client, error) { return HTTP(daemon.Socket, "/v1/acquire", form, status) },
			[]*Process{daemon, redis}, floor}
	}
	first, err := acquire("", "spent", http.StatusOK, "").Dial()
	if err == nil {
		err = first.Ask()
	}
	if err != nil {
		b.Fatal(err)
	}
	const none, empty, ours = "a handler that does nothing", "a handler that runs an empty script", "acquire"
	rivals := []Rival{
		served(none, "none", ""),
		served(empty, "script", ""),
		acquire(ours, "full", http.StatusOK, empty),
		acquire("a denied acquire", "spent", http.StatusTooManyRequests, none),
		served("a handler that asks redis_rate", "redis_rate", ours),
	}
	if envoy, err := EnvoyRateLimit(b, redis); err != nil {
		b.Logf("envoy/ratelimit cannot be had: %v", err)
	} else {
		envoy.Floor = ours
		rivals = append(rivals, envoy)
	}
	for b.Loop() {
		Compare(b, rivals)
	}
}
