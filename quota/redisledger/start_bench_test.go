package redisledger_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quotad/quota/benchmark"
	"quotad/quota/redisledger"
)

// BenchmarkStart tells how long the daemon takes to be ready, with a journal of a million grants
// and without one, what it uses when it is idle, and how long a log of a million grants takes to
// be put back:
//
//	go test -run - -bench Start -benchtime 1x -v ./quota/redisledger
func BenchmarkStart(b *testing.B) {
	path := benchmark.BuildQuotad(b)
	for b.Loop() {
		for _, n := range []int{0, 1_000_000} {
			startWith(b, path, n)
		}
	}
}

func startWith(b *testing.B, path string, n int) {
	redis := startRedis(b)
	state, err := os.MkdirTemp("", "start")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(state) })
	if n > 0 {
		redisledger.WriteJournal(b, filepath.Join(state, "journal"), "c0", n, time.Now())
	}
	begun := time.Now()
	daemon := benchmark.QuotadIn(b, path, state, strings.Replace(configuration(redis, 1), `deadline = "10s"`, "", 1))
	ready := time.Since(begun)
	for answers(b, daemon, "/readyz") != http.StatusOK {
		time.Sleep(10 * time.Millisecond)
	}
	b.Logf("%9d journaled grants: ready in %v, decides in %v", n, ready.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond))
	length, err := benchmark.Redis(redis.Socket, "XLEN", "bench1:{c0}:log")
	if err != nil || length != fmt.Sprint(n) {
		b.Fatalf("the log has %s entries, %v; want %d", length, err, n)
	}
	peak, now := memory(b, daemon.PID, "VmHWM"), memory(b, daemon.PID, "VmRSS")
	before, err1 := benchmark.CPU(daemon.PID)
	const idle = 20 * time.Second
	time.Sleep(idle)
	after, err2 := benchmark.CPU(daemon.PID)
	if err1 != nil || err2 != nil {
		b.Fatal(err1, err2)
	}
	b.Logf("%9d journaled grants: %s in memory, %s at most, %s after %v; %.2f %% of a CPU while idle",
		n, now, peak, memory(b, daemon.PID, "VmRSS"), idle, 100*float64(after-before)/float64(idle))
}

// memory reads a line of a process' status.
func memory(b *testing.B, pid int, name string) string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, line, _ := strings.Cut(string(status), name+":")
	line, _, _ = strings.Cut(line, "\n")
	return strings.TrimSpace(line)
}

// answers returns the status with which the daemon answers a path.
func answers(b *testing.B, daemon *benchmark.Process, path string) int {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", daemon.Socket) },
	}}
	answer, err := client.Get("http://quotad" + path)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode
}
