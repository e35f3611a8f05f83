package redistest

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A Clock is the time of a Redis process, which tests can set as an operator, or
// a virtual machine that slept, would: Redis' own TIME and expiry go by it.
type Clock struct {
	library, offset string // paths
	now             time.Duration
}

// stepping is preloaded into redis-server. It shifts the wall clock by the number
// of microseconds in a file, which it keeps mapped.
const stepping = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *offset_us;

__attribute__((constructor)) static void map_offset(void) {
	int file = open(getenv("CLOCK_OFFSET"), O_RDONLY);
	void *mapped = mmap(0, sizeof *offset_us, PROT_READ, MAP_SHARED, file, 0);
	if (mapped != MAP_FAILED) offset_us = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
	int failed = syscall(SYS_clock_gettime, clock, at);
	if (failed || clock != CLOCK_REALTIME || !offset_us) return failed;
	long long ns = at->tv_sec * 1000000000LL + at->tv_nsec + *offset_us * 1000;
	at->tv_sec = ns / 1000000000;
	at->tv_nsec = ns % 1000000000;
	return 0;
}

int gettimeofday(struct timeval *at, void *zone) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	at->tv_sec = now.tv_sec;
	at->tv_usec = now.tv_nsec / 1000;
	return 0;
}
`

// NewClock returns a clock that shows the host's time, or nil where no C compiler
// can make it.
func NewClock(tb testing.TB) *Clock {
	tb.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		tb.Log("the clock is not stepped: there is no C compiler")
		return nil
	}
	dir := tb.TempDir()
	source := filepath.Join(dir, "clock.c")
	c := &Clock{library: filepath.Join(dir, "clock.so"), offset: filepath.Join(dir, "offset")}
	if err := os.WriteFile(source, []byte(stepping), 0o600); err != nil {
		tb.Fatal(err)
	}
	if output, err := exec.Command(compiler, "-shared", "-fPIC", "-O", "-o", c.library, source).CombinedOutput(); err != nil {
		tb.Logf("the clock is not stepped: %s: %v\n%s", compiler, err, output)
		return nil
	}
	c.Step(tb, 0)
	return c
}

// Step moves the clock, forwards or back.
func (c *Clock) Step(tb testing.TB, by time.Duration) {
	tb.Helper()
	c.now += by
	file, err := os.OpenFile(c.offset, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	// One write of eight bytes: a reader sees all of it or nothing.
	if _, err := file.Write(binary.NativeEndian.AppendUint64(nil, uint64(c.now.Microseconds()))); err != nil {
		tb.Fatal(err)
	}
}

func (c *Clock) env() []string {
	return []string{"LD_PRELOAD=" + c.library, "CLOCK_OFFSET=" + c.offset}
}

// StartOn is Start on a clock, which may be nil.
func StartOn(tb testing.TB, clock *Clock, args ...string) *Server {
	tb.Helper()
	need(tb)
	s := prepare(tb, "--save", "", "--appendonly", "no", "--port", "0")
	s.args = append(s.args, args...)
	if clock != nil {
		s.env = clock.env()
	}
	s.Run(tb)
	return s
}
