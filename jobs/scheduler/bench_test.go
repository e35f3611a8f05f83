package scheduler

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"quotad/jobs"
	"quotad/jobs/process"
	"quotad/quota"
	"quotad/regions"
)

// Ten thousand passes an hour, each a process that ends at once: how long after
// its slot a process has started, beside the floor, the same processes started
// by bare timers. Run it with -benchtime 300x or more for a p99.
func BenchmarkTenThousandPassesAnHour(b *testing.B) {
	b.Run("timers", func(b *testing.B) { bench(b, bareTimers) })
	b.Run("quotad", func(b *testing.B) { bench(b, wholeScheduler) })
}

const (
	benchJobs   = 28 // each every ten seconds: 10,080 an hour
	benchPeriod = 10 * time.Second
)

// delays gathers how late each process started, until there are enough.
type delays struct {
	mu   sync.Mutex // guards list
	list []time.Duration
	want int
	done chan struct{} // closed when there are enough
}

func (d *delays) add(late time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.list) == d.want {
		return
	}
	if d.list = append(d.list, late); len(d.list) == d.want {
		close(d.done)
	}
}

// bench runs until b.N processes have started, and reports how late they were
// and what that took.
func bench(b *testing.B, start func(b *testing.B, d *delays) (stop func())) {
	d := &delays{want: b.N, done: make(chan struct{})}
	began, busy := time.Now(), cpu(b)
	stop := start(b, d)
	<-d.done
	took, used := time.Since(began), cpu(b)-busy
	stop()
	slices.Sort(d.list)
	b.ReportMetric(0, "ns/op") // the schedule says how long it takes
	b.ReportMetric(float64(d.list[len(d.list)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(d.list[len(d.list)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(100*used.Seconds()/took.Seconds(), "cpu-%")
	b.ReportMetric(residentMB(b), "rss-MB")
}

func bareTimers(b *testing.B, d *delays) func() {
	var running sync.WaitGroup
	now := time.Now()
	for i := range b.N {
		due := now.Add(time.Duration(i) * benchPeriod / benchJobs)
		running.Add(1)
		time.AfterFunc(time.Until(due), func() {
			defer running.Done()
			cmd := exec.Command("/bin/true")
			if err := cmd.Start(); err != nil {
				b.Error(err)
				return
			}
			d.add(time.Since(due))
			if err := cmd.Wait(); err != nil {
				b.Error(err)
			}
		})
	}
	return running.Wait
}

func wholeScheduler(b *testing.B, d *delays) func() {
	stopwatch := &stopwatch{b: b, delays: d}
	runner, err := jobs.Open(jobs.Config{
		Jobs: benchedJobs(b), Gate: stopwatch, Launcher: stopwatch, Tokens: new(jobs.Tokens), OnEvent: stopwatch.observe, Dir: b.TempDir(),
		EndLeftover: process.EndLeftover, Now: time.Now,
	})
	if err != nil {
		b.Fatal(err)
	}
	s, err := New(runner.Tick, stopwatch.trouble)
	if err != nil {
		b.Fatal(err)
	}
	for _, job := range benchedJobs(b) {
		if err := s.Set(job.Name, job.Schedule); err != nil {
			b.Fatal(err)
		}
	}
	runner.Start(context.Background())
	s.Start()
	return func() {
		if err := s.Stop(); err != nil {
			b.Error(err)
		}
		runner.Stop(context.Background(), context.Background())
	}
}

func benchedJobs(b *testing.B) []*jobs.Job {
	b.Helper()
	var list []*jobs.Job
	for i := range benchJobs {
		schedule, err := jobs.NewEvery(benchPeriod, time.Duration(i)*benchPeriod/benchJobs)
		if err != nil {
			b.Fatal(err)
		}
		list = append(list, &jobs.Job{
			Name: fmt.Sprintf("job-%d", i), Credential: "none", Regions: regions.Ring{"US"}, Schedule: schedule,
			Command: []string{"/bin/true"}, Timeout: time.Minute, KillGrace: time.Second,
		})
	}
	return list
}

// A stopwatch launches processes and notes how long after their slot they began.
type stopwatch struct {
	b        *testing.B
	delays   *delays
	launcher process.Launcher
	slots    sync.Map // run id → slot
}

func (s *stopwatch) Launch(ask, force context.Context, c jobs.Command, output func(jobs.Line)) jobs.Exit {
	started := c.Started
	c.Started = func(id jobs.Identity) {
		s.delays.add(time.Since(s.slotOf(c)))
		started(id)
	}
	return s.launcher.Launch(ask, force, c, output)
}

func (*stopwatch) Peek(context.Context, string, quota.Calls, []quota.Calls, bool) (quota.Decision, error) {
	return quota.Decision{}, nil
}

func (*stopwatch) Cost(string, quota.Calls) quota.Units { return 0 }

func (*stopwatch) Spent(context.Context, string, string, time.Time) (map[string]quota.Spent, error) {
	return nil, nil
}

func (s *stopwatch) slotOf(c jobs.Command) time.Time {
	for _, entry := range c.Env {
		if id, ok := strings.CutPrefix(entry, "QUOTAD_RUN_ID="); ok {
			slot, _ := s.slots.Load(id)
			return slot.(time.Time)
		}
	}
	s.b.Error("a pass without a run")
	return time.Now()
}

func (s *stopwatch) observe(event any) {
	switch e := event.(type) {
	case jobs.RunChanged:
		if e.Run.State == jobs.RunRunning {
			s.slots.Store(e.Run.ID, e.Run.Slot)
			return
		}
		s.slots.Delete(e.Run.ID)
	case jobs.PassChanged:
		if e.Pass.Outcome.Failure() {
			s.b.Errorf("a pass failed: %s", e.Pass.Detail)
		}
	case jobs.Trouble:
		s.trouble(e.Job, e.Err)
	}
}

func (s *stopwatch) trouble(job string, err error) { s.b.Errorf("%s: %v", job, err) }

// cpu is the time that this process has computed for so far.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func residentMB(b *testing.B) float64 {
	b.Helper()
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	var size, resident int
	if _, err := fmt.Sscan(string(statm), &size, &resident); err != nil {
		b.Fatal(err)
	}
	return float64(resident*os.Getpagesize()) / (1 << 20)
}
