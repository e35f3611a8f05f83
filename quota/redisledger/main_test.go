package redisledger

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"quotad/jobs/process/processtest"
	"quotad/quota/ledgertest"
)

// hanging is the time after which a test hangs, and is not only slow.
const hanging = 3 * time.Minute

func TestMain(m *testing.M) {
	// Mostly they wait for Redis and for quiet periods, which takes no CPU.
	flag.Set("test.parallel", strconv.Itoa(8*runtime.GOMAXPROCS(0)))
	os.Exit(processtest.Tests(m.Run).Run())
}

var must = ledgertest.Must
