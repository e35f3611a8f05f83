package benchmark

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Versions of the peers, which are built by the Go tool in a temporary directory and
// never become part of this module.
const (
	rateLimitService = "github.com/envoyproxy/ratelimit/src/service_cmd@latest"
	redisRate        = "github.com/go-redis/redis_rate/v10@v10.0.1"
)

// The names of the peers.
const (
	Envoy            = "envoy/ratelimit, gRPC"
	RedisRateHandler = "a handler that asks redis_rate"
)

// EnvoyRateLimit runs envoy's rate limit service on a Redis at a Unix socket, with
// one limit that is never reached, and returns a rival that calls it by gRPC over a
// Unix socket. The error says why it cannot be had.
func EnvoyRateLimit(tb testing.TB, redis *Process) (Rival, error) {
	tb.Helper()
	dir := shortDir(tb)
	if err := goTool(dir, []string{"GOBIN=" + dir}, "install", rateLimitService); err != nil {
		return Rival{}, err
	}
	limits := filepath.Join(dir, "ratelimit", "config")
	if err := os.MkdirAll(limits, 0o700); err != nil {
		return Rival{}, err
	}
	config := "domain: bench\ndescriptors:\n  - key: credential\n    value: youtube\n    rate_limit:\n      unit: day\n      requests_per_unit: 4000000000\n"
	if err := os.WriteFile(filepath.Join(limits, "bench.yaml"), []byte(config), 0o600); err != nil {
		return Rival{}, err
	}
	socket := filepath.Join(dir, "s")
	command := exec.Command(filepath.Join(dir, "service_cmd"))
	command.Dir = dir
	command.Env = append(os.Environ(),
		"USE_STATSD=false", "DISABLE_STATS=true", "LOG_LEVEL=error", "REDIS_SOCKET_TYPE=unix", "REDIS_URL="+redis.Socket,
		"RUNTIME_ROOT="+dir, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false",
		"HOST=127.0.0.1", "PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=0", "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0",
		"GRPC_UDS="+socket)
	server := Start(tb, socket, command)
	message := field(1, []byte("bench"))
	message = append(message, field(2, field(1, append(field(1, []byte("credential")), field(2, []byte("youtube"))...)))...)
	dial := func() (Client, error) {
		const granted = "\x08\x01" // overall_code: OK
		return GRPC(socket, "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", message, []byte(granted))
	}
	return Rival{Name: Envoy, Dial: dial, Servers: []*Process{server, redis}}, nil
}

// field is a protobuf field of bytes, shorter than 128.
func field(number byte, value []byte) []byte {
	return append([]byte{number<<3 | 2, byte(len(value))}, value...)
}

// RedisRate runs a handler that asks go-redis/redis_rate on a Redis at a Unix socket.
// The error says why it cannot be had.
func RedisRate(tb testing.TB, redis *Process) (Rival, error) {
	tb.Helper()
	dir := shortDir(tb)
	path, err := buildPeer(dir, []byte(redisRateMain), redisRate, "github.com/redis/go-redis/v9@v9.23.0")
	if err != nil {
		return Rival{}, err
	}
	socket := filepath.Join(dir, "s")
	server := Start(tb, socket, exec.Command(path, socket, redis.Socket))
	dial := func() (Client, error) { return HTTP(socket, "/", "operation=videos.list", 200) }
	return Rival{Name: RedisRateHandler, Dial: dial, Servers: []*Process{server, redis}}, nil
}

const redisRateMain = `package main

import (
	"net"
	"net/http"
	"os"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

func main() {
	limiter := redis_rate.NewLimiter(redis.NewClient(&redis.Options{Network: "unix", Addr: os.Args[2]}))
	daily := redis_rate.Limit{Rate: 1 << 40, Burst: 1 << 40, Period: 24 * time.Hour}
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil {
		panic(err)
	}
	panic(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := limiter.AllowN(r.Context(), r.FormValue("operation"), daily, 1)
		if err != nil || answer.Allowed == 0 {
			http.Error(w, "not allowed", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(` + "`" + `{"granted":true}` + "`" + `))
	})))
}
`

func goTool(dir string, environment []string, arguments ...string) error {
	command := exec.Command("go", arguments...)
	command.Dir = dir
	command.Env = append(os.Environ(), append(environment, "GOFLAGS=-mod=mod", "GOWORK=off")...)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w: %.300s", arguments[0], err, out)
	}
	return nil
}
