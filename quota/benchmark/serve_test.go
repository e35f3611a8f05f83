package benchmark

import (
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// What a server is told by its environment.
const (
	socketVariable = "QUOTAD_CHILD_SOCKET"
	kindVariable   = "QUOTAD_CHILD_KIND"
	redisVariable  = "QUOTAD_CHILD_REDIS" // a socket
)

// TestServe is a server of the benchmarks, until it is killed: a handler that first does what its kind asks of Redis.
func TestServe(t *testing.T) {
	kind := os.Getenv(kindVariable)
	if kind == "" {
		t.Skip("only a process of the benchmarks serves")
	}
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: os.Getenv(redisVariable)})
	script, rate := redis.NewScript("return 1"), redis_rate.NewLimiter(client)
	handle := func(w http.ResponseWriter, r *http.Request) {
		granted, err := true, error(nil)
		switch subject := r.FormValue("subject"); kind {
		case "script":
			err = script.Run(r.Context(), client, []string{"key"}).Err()
		case "redis_rate":
			var answer *redis_rate.Result
			answer, err = rate.Allow(r.Context(), subject, redis_rate.Limit{Rate: 1e9, Burst: 1e9, Period: 24 * time.Hour})
			granted = err == nil && answer.Allowed > 0
		}
		if err != nil || !granted {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		io.WriteString(w, "hello\n")
	}
	listener, err := net.Listen("unix", os.Getenv(socketVariable))
	if err != nil {
		t.Fatal(err)
	}
	t.Fatal(http.Serve(listener, http.HandlerFunc(handle)))
}
