package benchmark

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/clientlimit"
	"quotad/quota/middleware"
	"quotad/quota/redisledger"
)

// What a server is told by its environment.
const (
	socketVariable = "QUOTAD_CHILD_SOCKET"
	kindVariable   = "QUOTAD_CHILD_KIND"
	redisVariable  = "QUOTAD_CHILD_REDIS"  // a socket
	daemonVariable = "QUOTAD_CHILD_DAEMON" // a socket
	unitsVariable  = "QUOTAD_CHILD_UNITS"
	windowVariable = "QUOTAD_CHILD_WINDOW"
)

// TestServe is a server of the benchmarks, until it is killed: a handler behind a limit, by the form's field subject.
func TestServe(t *testing.T) {
	if os.Getenv(kindVariable) == "" {
		t.Skip("only a process of the benchmarks serves")
	}
	units, _ := strconv.Atoi(os.Getenv(unitsVariable))
	window, _ := time.ParseDuration(os.Getenv(windowVariable))
	handler, err := limited(os.Getenv(kindVariable), units, window)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", os.Getenv(socketVariable))
	if err != nil {
		t.Fatal(err)
	}
	t.Fatal(http.Serve(listener, handler))
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello\n") })

func subject(r *http.Request) string { return r.FormValue("subject") }

// limited returns a handler behind a limit of a kind.
func limited(kind string, units int, window time.Duration) (http.Handler, error) {
	redisSocket := os.Getenv(redisVariable)
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: redisSocket})
	name, algorithm, _ := strings.Cut(kind, " ")
	switch name {
	case "none":
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			subject(r)
			hello(w, r)
		}), nil
	case "script":
		script := redis.NewScript("return 1")
		return decides(func(r *http.Request) (bool, error) {
			return true, script.Run(r.Context(), client, []string{"key"}).Err()
		}), nil
	case "redis_rate":
		rate, limit := redis_rate.NewLimiter(client), redis_rate.Limit{Rate: units, Burst: units, Period: window}
		return decides(func(r *http.Request) (bool, error) {
			answer, err := rate.Allow(r.Context(), subject(r), limit)
			return err == nil && answer.Allowed > 0, err
		}), nil
	}
	var decider middleware.Limiter = &api.Client{Socket: os.Getenv(daemonVariable)}
	if name == "alone" {
		config := redisledger.Config{Addrs: []string{"unix://" + redisSocket}, KeyPrefix: "alone:", Deadline: 10 * time.Second}
		alone, err := redisledger.OpenClients(config, "", &clientlimit.Clients{Name: algorithm, Algorithm: clientlimit.Algorithm(algorithm),
			Limits: []quota.Limit{{Name: "default", Units: quota.Units(units), Window: quota.Sliding(window)}}})
		if err != nil {
			return nil, fmt.Errorf("open clients: %w", err)
		}
		decider = alone
	}
	return middleware.Handler(decider, hello, middleware.Options{Clients: algorithm, Identify: []middleware.Identify{subject},
		FailClosed: true, Timeout: time.Minute}), nil // what is not decided would not be measured
}

// decides returns a handler that answers what a decider lets through.
func decides(decide func(r *http.Request) (bool, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch granted, err := decide(r); {
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case !granted:
			http.Error(w, "too many", http.StatusTooManyRequests)
		default:
			hello(w, r)
		}
	})
}
