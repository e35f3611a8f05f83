package scheduler

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/seedtest"
	"quotad/regions"
)

// Nothing is missed silently: over some days in which the clock is changed, the daemon is away, jobs are paused and
// defined anew, passes take too long and the ledger cannot be reached, each slot is a run, or a tick that was skipped
// with a reason, and is that once. A run goes through its ring from the beginning, as far as it comes.
func TestWeeks(t *testing.T) {
	seedtest.SkipUnderRace(t)
	berlin, err := time.LoadLocation("Europe/Berlin")
	must(t, err)
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
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(row.change) - 2*24*time.Hour)
				w := &week{t: t, dir: dir, random: rand.New(rand.NewPCG(seed, 0)), chance: rand.New(rand.NewPCG(seed, 1)), zone: berlin}
				w.live(row.line, days)
			})
		})
	}
}

// A week is what one job lives through.
type week struct {
	t      *testing.T
	dir    string
	random *rand.Rand
	zone   *time.Location

	runner *jobs.Runner
	ticks  *Scheduler

	mu     sync.Mutex // guards what follows
	chance *rand.Rand // of a pass to fail
	away   bool       // the ledger cannot be reached
	slow   bool       // passes take longer than they should
}

// live begins with the schedule of a line, has something happen every few hours, and then counts.
func (w *week) live(line string, length time.Duration) {
	w.t.Helper()
	job := w.job(line)
	began, end := time.Now(), time.Now().Add(length)
	w.start(job)
	var want []time.Time
	for time.Now().Before(end) {
		w.pass(time.Duration(w.random.Int64N(int64(6 * time.Hour))))
		switch w.random.IntN(6) {
		case 0: // away, for a moment or for a day
			w.stop()
			w.pass(time.Duration(w.random.ExpFloat64() * float64(3*time.Hour)))
			w.start(job)
		case 1:
			must(w.t, w.runner.Pause("job", "root", "", time.Duration(w.random.Int64N(int64(5*time.Hour)))))
		case 2:
			must(w.t, w.runner.Resume("job"))
		case 3:
			w.set(&w.away, w.random.IntN(2) == 0)
		case 4:
			w.set(&w.slow, w.random.IntN(2) == 0)
		case 5: // another definition: what has come until now was the old one's
			want, began = append(want, slotsOf(job, began)...), time.Now()
			job = w.job(line)
			must(w.t, w.runner.SetJobs([]*jobs.Job{job}))
			must(w.t, w.ticks.Set(job.Name, job.Schedule))
		}
	}
	must(w.t, w.runner.Resume("job"))
	last := job.Schedule.Next(time.Now()) // so that it is told what was missed until here
	w.pass(time.Until(last) + time.Minute)
	w.count(append(want, slotsOf(job, began)...))
	w.stop()
}

// job is a job as somebody may define it, whose slots are those of a line.
func (w *week) job(line string) *jobs.Job {
	schedule, err := ParseCron(line, w.zone)
	must(w.t, err)
	return &jobs.Job{
		Name: "job", Credential: "youtube", Regions: regions.Ring{"US", "GB", "DE"}, Schedule: schedule, Stagger: jobs.EvenStagger,
		CatchUp: w.random.IntN(2) == 0, Expects: map[string]quota.Units{"list": 1},
		MaxWait: time.Duration(w.random.IntN(2)) * time.Minute,
		Command: []string{"/bin/fetch"}, Timeout: time.Hour,
	}
}

func (w *week) start(job *jobs.Job) {
	w.t.Helper()
	var err error
	w.runner, err = jobs.Open(jobs.Config{
		Jobs: []*jobs.Job{job}, Gate: w, Launcher: w, Tokens: &jobs.Tokens{}, OnEvent: w.observe, Dir: w.dir,
		Now: time.Now,
	})
	must(w.t, err)
	w.ticks, err = New(w.runner.Tick)
	must(w.t, err)
	w.runner.Start(context.Background())
	must(w.t, w.ticks.Set(job.Name, job.Schedule))
	w.ticks.Start()
}

func (w *week) observe(event any) {
	if e, ok := event.(jobs.Trouble); ok {
		w.t.Errorf("%s: %v", e.Job, e.Err)
	}
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

func (w *week) set(what *bool, to bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*what = to
}

// slotsOf returns those of a job since an instant.
func slotsOf(job *jobs.Job, since time.Time) (list []time.Time) {
	for slot := job.Schedule.Next(since); !slot.After(time.Now()); slot = job.Schedule.Next(slot) {
		list = append(list, slot)
	}
	return list
}

// count compares the slots that there were with what became of them: each was run once, or is named as skipped.
func (w *week) count(slots []time.Time) {
	w.t.Helper()
	runs, err := w.runner.Runs("job", 100_000)
	must(w.t, err)
	ran, reasons := map[time.Time]bool{}, map[jobs.Reason]int{}
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
		begun := map[regions.Region]bool{} // of two that begin at once, either may be the first
		for _, p := range run.Passes {
			begun[p.Region] = true
		}
		for i, region := range run.Ring {
			if want := i < len(run.Passes); begun[region] != want || len(begun) != len(run.Passes) {
				w.t.Errorf("run %s over %v has the passes %+v", run.ID, run.Ring, run.Passes)
			}
		}
	}
	for _, slot := range slots {
		i := slices.IndexFunc(skips, func(r jobs.Run) bool { return !slot.Before(r.Slot) && !slot.After(r.LastSlot) })
		if i >= 0 {
			reasons[skips[i].Reason]++
		} else if !ran[slot] {
			w.t.Errorf("slot %v came, and nothing became of it", slot)
		}
	}
	w.t.Logf("%d slots: %d runs, skipped %v", len(slots), len(ran), reasons)
}

func (w *week) Peek(context.Context, string, quota.Calls, []quota.Calls, bool) (quota.Decision, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away {
		return quota.Decision{}, quota.ErrUnavailable
	}
	return quota.Decision{}, nil
}

func (w *week) Spent(context.Context, string, string, time.Time) (map[string]quota.Spent, error) {
	return nil, nil
}

func (w *week) Launch(ctx, _ context.Context, _ jobs.Command, _ func(jobs.Line)) jobs.Exit {
	w.mu.Lock()
	takes, code := 10*time.Second, w.chance.IntN(8)/7
	if w.slow {
		takes = 50 * time.Minute
	}
	w.mu.Unlock()
	select {
	case <-time.After(takes):
		return jobs.Exit{Code: code}
	case <-ctx.Done():
		return jobs.Exit{Code: -1, Cause: context.Cause(ctx)}
	}
}
