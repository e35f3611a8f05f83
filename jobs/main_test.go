package jobs

import (
	"os"
	"testing"

	"quotad/jobs/process/processtest"
)

func TestMain(m *testing.M) { os.Exit(processtest.InMemory(m.Run).Run()) }
