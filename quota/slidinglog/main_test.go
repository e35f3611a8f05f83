package slidinglog

import (
	"flag"
	"os"
	"runtime/debug"
	"syscall"
	"testing"

	"quotad/jobs/process/processtest"
)

// Tests keep their files in memory if there is room: what a kill leaves is the same there. Benchmarks measure the disk.
func TestMain(m *testing.M) {
	flag.Parse()
	const memory, room = "/dev/shm", 1 << 28
	var disk syscall.Statfs_t
	if flag.Lookup("test.bench").Value.String() == "" && os.Getenv("TMPDIR") == "" &&
		syscall.Statfs(memory, &disk) == nil && disk.Bavail*uint64(disk.Bsize) >= room {
		os.Setenv("TMPDIR", memory)
	}
	debug.SetGCPercent(400) // most of what they allocate is gone at once
	os.Exit(processtest.Tests(m.Run).Run())
}
