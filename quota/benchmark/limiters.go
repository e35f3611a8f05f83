package benchmark

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// The libraries that limit the clients of a handler, and the Redis client of two of them.
var limiterModules = []string{
	"github.com/ulule/limiter/v3@v3.11.2", redisRate, "github.com/go-chi/httprate@v0.16.1",
	"github.com/didip/tollbooth/v7@v7.0.2", "github.com/redis/go-redis/v9@v9.23.0",
}

//go:embed testdata/limiters.go
var limitersMain []byte

// Limiters is a program that serves a handler behind one of these libraries.
type Limiters struct{ path string }

// BuildLimiters builds the program. The error says why it cannot be had.
func BuildLimiters(tb testing.TB) (Limiters, error) {
	tb.Helper()
	path, err := buildPeer(shortDir(tb), limitersMain, limiterModules...)
	return Limiters{path}, err
}

// Start serves a handler that answers everything that a library lets through: "ulule" and
// "redis_rate" keep what they count in a Redis, "httprate" and "tollbooth" in the process,
// and "none" counts nothing. Clients differ in the form's field subject.
func (l Limiters) Start(tb testing.TB, kind string, redis *Process, limit int, window time.Duration) *Process {
	tb.Helper()
	socket := filepath.Join(shortDir(tb), "s")
	return Start(tb, socket, exec.Command(l.path, kind, socket, redis.Socket, strconv.Itoa(limit), window.String()))
}

// buildPeer builds a program of one file in a module of its own and returns its path.
func buildPeer(dir string, main []byte, modules ...string) (string, error) {
	if err := os.WriteFile(filepath.Join(dir, "main.go"), main, 0o600); err != nil {
		return "", err
	}
	for _, step := range [][]string{{"mod", "init", "peer"}, append([]string{"get"}, modules...), {"mod", "tidy"}, {"build", "-o", "peer"}} {
		if err := goTool(dir, nil, step...); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "peer"), nil
}
