package scheduler

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"quotad/jobs"
	"quotad/jobs/process/processtest"
	"quotad/quota"
	"quotad/quota/seedtest"
	"quotad/regions"
)

func TestMain(m *testing.M) { os.Exit(processtest.InMemory(m.Run).Run()) }

// Nothing is missed silently: over some days in which the clock is changed, the daemon is away, the job is paused and
// defined anew, and passes take too long, each slot is a run, or was skipped with a reason, and is that once.
func TestWeeks(t *testing.T) {
	seedtest.SkipUnderRace(t)
	berlin := zone(t, "Europe/Berlin")
	days := time.Duration(seedtest.Long(t, 4)) * 24 * time.Hour // the clock changes on the third
	spring, autumn := time.Date(2000, time.March, 26, 1, 0, 0, 0, time.UTC), time.Date(2000, time.October, 29, 1, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		change time.Time
		line   string
		seed   uint64 // with these slots were once lost that came while the daemon was away before its first tick
	}{
		{spring, "30 2 * * *", 1795310062371588144}, {spring, "0 */2 * * 0,1", 1795310062371588144},
		{autumn, "*/30 * * * *", 1795309687911022344}, {autumn, "15 1,2,3 * * *", 1795309687911022344},
	} {
		t.Run(row.change.Month().String()+" "+row.line, func(t *testing.T) {
			t.Parallel()
			seed, dir := seedtest.Seed(t, row.seed), t.TempDir()
			schedule, err := ParseCron(row.line, berlin)
			must(t, err)
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(row.change) - 2*24*time.Hour)
				w := &week{t: t, dir: dir, random: rand.New(rand.NewPCG(seed, 0)), schedule: schedule}
				w.live(days)
			})
		})
	}
}

// A week is what one job lives through. Its passes take ten seconds, or too long.
type week struct {
	t        *testing.T
	dir      string
	random   *rand.Rand
	schedule jobs.Schedule
	slow     atomic.Bool

	runner *jobs.Runner
	ticks  *Scheduler
}

// live has something happen every few hours, and then counts what became of the slots.
func (w *week) live(length time.Duration) {
	w.t.Helper()
	job, began, end := w.job(), time.Now(), time.Now().Add(length)
	w.start(job)
	for time.Now().Before(end) {
		w.pass(time.Duration(w.random.Int64N(int64(6 * time.Hour))))
		switch w.random.IntN(5) {
		case 0: // away, for a moment or for a day
			w.stop()
			w.pass(time.Duration(w.random.ExpFloat64() * float64(3*time.Hour)))
			w.start(job)
		case 1:
			must(w.t, w.runner.Pause("job", "root", "", time.Duration(w.random.Int64N(int64(5*time.Hour)))))
		case 2:
			must(w.t, w.runner.Resume("job"))
		case 3:
			w.slow.Store(!w.slow.Load())
		case 4:
			job = w.job()
			must(w.t, w.runner.SetJobs([]*jobs.Job{job}))
			must(w.t, w.ticks.Set(job.Name, job.Schedule))
		}
	}
	must(w.t, w.runner.Resume("job"))
	w.pass(time.Until(w.schedule.Next(time.Now())) + time.Minute) // so that it is told what was missed until here
	w.count(began)
	w.stop()
}

// job is a job as somebody may define it.
func (w *week) job() *jobs.Job {
	return &jobs.Job{
		Name: "job", Credential: "youtube", Regions: regions.Ring{"US", "GB", "DE"}, Schedule: w.schedule, Stagger: jobs.EvenStagger,
		CatchUp: w.random.IntN(2) == 0, Command: []string{"/bin/fetch"}, Timeout: time.Hour,
	}
}

func (w *week) start(job *jobs.Job) {
	w.t.Helper()
	var err error
	w.runner, err = jobs.Open(jobs.Config{
		Jobs: []*jobs.Job{job}, Gate: w, Launcher: w, Tokens: &jobs.Tokens{}, Dir: w.dir, Now: time.Now,
		OnEvent: func(event any) {
			if e, ok := event.(jobs.Trouble); ok {
				w.t.Errorf("%s: %v", e.Job, e.Err)
			}
		},
	})
	must(w.t, err)
	w.ticks, err = New(w.runner.Tick)
	must(w.t, err)
	w.runner.Start(context.Background())
	must(w.t, w.ticks.Set(job.Name, job.Schedule))
	w.ticks.Start()
}

func (w *week) stop() {
	w.t.Helper()
	must(w.t, w.ticks.Stop())
	ask, cancel := context.WithCancel(context.Background())
	cancel()
	w.runner.Stop(ask, context.Background())
}

// pass lets time pass, and never ends at the very instant of a slot.
func (w *week) pass(d time.Duration) {
	time.Sleep(d.Truncate(time.Minute) + 17*time.Second)
	if now := time.Now(); now.Second() == 0 {
		time.Sleep(time.Second)
	}
	synctest.Wait()
}

// count compares the slots that there were with what became of them: each was run once, or is named as skipped.
func (w *week) count(began time.Time) {
	w.t.Helper()
	runs, err := w.runner.Runs("job", 100_000)
	must(w.t, err)
	ran, reasons, all := map[time.Time]bool{}, map[jobs.Reason]int{}, 0
	var skips []jobs.Run
	for _, run := range runs {
		if run.State == jobs.RunSkipped {
			skips = append(skips, run)
			continue
		}
		if ran[run.Slot] {
			w.t.Errorf("slot %v was run twice", run.Slot)
		}
		ran[run.Slot] = true
	}
	for slot := w.schedule.Next(began); !slot.After(time.Now()); slot = w.schedule.Next(slot) {
		all++
		i := slices.IndexFunc(skips, func(r jobs.Run) bool { return !slot.Before(r.Slot) && !slot.After(r.LastSlot) })
		if i >= 0 {
			reasons[skips[i].Reason]++
		} else if !ran[slot] {
			w.t.Errorf("slot %v came, and nothing became of it", slot)
		}
	}
	w.t.Logf("%d slots: %d runs, skipped %v", all, len(ran), reasons)
}

func (w *week) Peek(context.Context, string, quota.Calls, []quota.Calls, bool) (quota.Decision, error) {
	return quota.Decision{}, nil
}

func (w *week) Walk(context.Context, string, time.Time, func(quota.Entry) bool) error { return nil }

func (w *week) Launch(ctx, _ context.Context, _ jobs.Command, _ func(jobs.Line)) jobs.Exit {
	takes := 10 * time.Second
	if w.slow.Load() {
		takes = 50 * time.Minute
	}
	select {
	case <-time.After(takes):
		return jobs.Exit{}
	case <-ctx.Done():
		return jobs.Exit{Code: -1, Cause: context.Cause(ctx)}
	}
}
