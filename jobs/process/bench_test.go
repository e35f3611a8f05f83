package process

import (
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"quotad/jobs"
)

// BenchmarkLaunch measures what a launch costs beyond the process itself. The
// floor is os/exec alone: two pipes, a session, and no care for what is left.
func BenchmarkLaunch(b *testing.B) {
	truth, err := Resolve("true", b.TempDir(), "")
	if err != nil {
		b.Fatal(err)
	}
	c := jobs.Command{
		Args:      []string{truth},
		Env:       []string{"QUOTAD_RUN_ID=bench", "QUOTAD_REGION=US"},
		Timeout:   time.Minute,
		KillGrace: time.Second,
	}
	b.Run("group", func(b *testing.B) { compare(b, c, Launcher{}) })
	b.Run("cgroup", func(b *testing.B) { compare(b, c, Launcher{Cgroups: cgroupRoot(b)}) })
}

// BenchmarkFlood measures how long a command takes that writes 100,000 lines.
// The floor reads them all and forgets them.
func BenchmarkFlood(b *testing.B) { compare(b, command("flood", "100000"), Launcher{}) }

// compare runs a command by os/exec and by the launcher, turn and turn about, so
// that a busy machine is unkind to both, and reports the medians.
func compare(b *testing.B, c jobs.Command, l Launcher) {
	var floor, ours []time.Duration
	for b.Loop() {
		began := time.Now()
		cmd := exec.CommandContext(b.Context(), c.Args[0], c.Args[1:]...)
		cmd.Env = c.Env
		cmd.Stdout, cmd.Stderr = pipeOnly{}, pipeOnly{}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		between := time.Now()
		if exit := l.Launch(b.Context(), b.Context(), c, func(jobs.Line) {}); exit.Err != nil || exit.Code != 0 {
			b.Fatalf("got %+v", exit)
		}
		floor = append(floor, between.Sub(began))
		ours = append(ours, time.Since(between))
	}
	slices.Sort(floor)
	slices.Sort(ours)
	middle := len(floor) / 2
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(floor[middle].Microseconds()), "floor-µs")
	b.ReportMetric(float64(ours[middle].Microseconds()), "launch-µs")
	b.ReportMetric(float64(ours[middle])/float64(floor[middle]), "launch/floor")
}

// A pipeOnly forgets what is written, and nothing else, so that os/exec makes a
// pipe for it.
type pipeOnly struct{}

func (pipeOnly) Write(p []byte) (int, error) { return len(p), nil }
