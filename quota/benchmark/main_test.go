package benchmark

//ci:norace

import (
	"os"
	"testing"

	"quotad/jobs/process/processtest"
)

func TestMain(m *testing.M) { os.Exit(processtest.Tests(m.Run).Run()) }
