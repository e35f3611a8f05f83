package benchmark

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// EnvoyRateLimit runs envoy's rate limit service on a Redis at a Unix socket, with one limit that is never reached, and
// returns a rival that calls it by gRPC over a Unix socket. The error says why it cannot be had.
func EnvoyRateLimit(tb testing.TB, redis *Process) (Rival, error) {
	tb.Helper()
	dir := shortDir(tb)
	install := exec.Command("go", "install", "github.com/envoyproxy/ratelimit/src/service_cmd@latest")
	install.Dir, install.Env = dir, append(os.Environ(), "GOBIN="+dir, "GOWORK=off")
	if out, err := install.CombinedOutput(); err != nil {
		return Rival{}, fmt.Errorf("go install: %w: %.300s", err, out)
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
	message := field(1, "bench") + field(2, field(1, field(1, "credential")+field(2, "youtube")))
	dial := func() (Client, error) {
		const granted = "\x08\x01" // overall_code: OK
		return GRPC(socket, "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", message, granted)
	}
	return Rival{Name: "envoy/ratelimit, gRPC", Dial: dial, Servers: []*Process{server, redis}}, nil
}

// field is a protobuf field of bytes, shorter than 128.
func field(number byte, value string) string {
	return string([]byte{number<<3 | 2, byte(len(value))}) + value
}
