package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"quotad/quota/api"
	"quotad/quota/redisledger/redistest"
)

const withRedis = `
[ledger]
backend = "redis"
redis.addrs = [%q]
deadline = "5s" # a busy machine does not pass for an outage
[credentials.api]
limits.daily.units = 100
operations.list = 1
[jobs.fetch]
credential = "api"
regions = ["one"]
cron = "$FAR * * *"
run_at_start = true
expects.list = 1
command = ["quotactl", "acquire", "list"]
`

// A daemon starts without its Redis, refuses meanwhile and says why, and decides
// as soon as Redis is there.
func TestRedisComesLater(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	daemon, client := startWith(t, fmt.Sprintf(withRedis, server.Addr))
	if d, err := spend(client); !errors.Is(err, api.ErrLedgerUnavailable) {
		t.Errorf("without Redis an acquire is answered %+v, %v", d, err)
	}
	server.Run(t)
	daemon.logs(t, "^ledger up$")
	var d api.Decision
	eventually(t, func() (granted bool) { // a new log is quiet for two seconds
		var err error
		d, err = spend(client)
		return err == nil
	})
	if !d.Granted || d.Remaining < 98 { // the job runs once the ledger says on which host
		t.Errorf("with Redis an acquire is answered %+v", d)
	}
}

func spend(client *api.Client) (api.Decision, error) {
	return client.Acquire(context.Background(), api.AcquireRequest{Credential: "api", Operation: "list"})
}

// onRedis returns the lines of [ledger] for a Redis that is always there: with a deadline
// that a busy machine does not pass.
func onRedis(addr string) string {
	return fmt.Sprintf("backend = \"redis\"\nredis.addrs = [%q]\ndeadline = \"5s\"", addr)
}
