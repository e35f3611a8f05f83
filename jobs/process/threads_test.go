package process

import (
	"os"
	"testing"

	"quotad/jobs"
)

// threads returns how many this process has.
func threads(t *testing.T) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	must(t, err)
	return len(tasks)
}

// Where many wait for a network or a disk, they need no thread of ours each.
func TestCommandsTakeNoThreads(t *testing.T) {
	const many = 100
	before := threads(t)
	var running []*launch
	for range many {
		c := command()
		c.Args = []string{"/bin/sleep", "120"}
		running = append(running, begin(t, Launcher{}, c))
	}
	if more := threads(t) - before; more > many/4 {
		t.Errorf("%d threads more for %d commands", more, many)
	}
	for _, l := range running {
		l.stop(jobs.ErrShutdown)
	}
	for _, l := range running {
		l.end()
	}
}
