package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"quotad/regions"
)

// BenchmarkPassOfALongRun measures what a pass costs in a run of 3,000 items beside one of 10: processor time, memory
// that is allocated, and bytes in the log. The processes are played.
func BenchmarkPassOfALongRun(b *testing.B) {
	const long, short = 3000, 10
	long3000, short10 := newPassCost(b, long), newPassCost(b, short)
	for b.Loop() { // in turns, so that a busy machine is unkind to both
		for range long / short {
			short10.run(b)
		}
		long3000.run(b)
	}
	b.ReportMetric(0, "ns/op")
	for _, c := range []*passCost{short10, long3000} {
		name := fmt.Sprintf("-of-%d", len(c.bed.jobs[0].job.Regions))
		b.ReportMetric(c.cpu/c.passes, "µs"+name)
		b.ReportMetric(c.heap/c.passes, "alloc"+name)
		b.ReportMetric(c.disk/c.passes, "logged"+name)
	}
	ratio := func(of func(*passCost) float64) float64 { return of(long3000) / of(short10) }
	b.ReportMetric(ratio(func(c *passCost) float64 { return c.cpu / c.passes }), "µs-ratio")
	b.ReportMetric(ratio(func(c *passCost) float64 { return c.heap / c.passes }), "alloc-ratio")
	b.ReportMetric(ratio(func(c *passCost) float64 { return c.disk / c.passes }), "logged-ratio")
}

// A passCost is what passes of a job cost together.
type passCost struct {
	bed                     *bed
	passes, cpu, heap, disk float64 // cpu in µs
}

func newPassCost(b *testing.B, n int) *passCost {
	job := &Job{
		Name: "trending", Credential: "youtube", Schedule: Unscheduled{}, Command: []string{"/bin/fetch"},
		Timeout: time.Minute,
	}
	for i := range n {
		job.Regions = append(job.Regions, regions.Region(fmt.Sprintf("r%04d", i)))
	}
	c := &passCost{bed: newBed(b, filepath.Join(b.TempDir(), "jobs"), job)}
	b.Cleanup(c.bed.stop)
	return c
}

// run adds what a run costs.
func (c *passCost) run(b *testing.B) {
	c.bed.forget()
	cpu, heap, disk := c.costs(b)
	run, err := c.bed.Run("trending", "root")
	if err != nil {
		b.Fatal(err)
	}
	if e := c.bed.executorOf(run.ID); e != nil {
		<-e.done
	}
	cpu2, heap2, disk2 := c.costs(b)
	c.passes += float64(len(run.Ring))
	c.cpu, c.heap, c.disk = c.cpu+cpu2-cpu, c.heap+heap2-heap, c.disk+max(0, disk2-disk)
}

func (c *passCost) costs(b *testing.B) (cpu, heap, disk float64) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	if info, err := os.Stat(filepath.Join(c.bed.dir, "trending.runs")); err == nil {
		disk = float64(info.Size())
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1000, float64(memory.TotalAlloc), disk
}
