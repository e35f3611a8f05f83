package slidinglog

import (
	"os"
	"runtime/debug"
	"testing"

	"quotad/jobs/process/processtest"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // most of what they allocate is gone at once
	os.Exit(processtest.InMemory(m.Run).Run())
}
