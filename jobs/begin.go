package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"quotad/regions"
)

// A runRequest asks for one run of a job.
type runRequest struct {
	id      string // for which the job is locked
	trigger Trigger
	by      string
	slot    time.Time
	claim   *slotClaim       // by which the run takes the slot; nil: it takes none
	regions []regions.Region // empty: the ring's turn, beginning at the cursor
	set     []Variable
	lock    time.Duration // for which the job is locked at a time
}

// A lockRequest asks for a job's lock.
type lockRequest struct {
	holder   string
	length   time.Duration
	patience time.Duration // for so long somebody else may have it
	slot     time.Time     // whose run it is for; zero: for no slot's
}

// beginLocked begins a run for which it locks the job, so that no other host runs it
// meanwhile. Who is patient waits as long as the job may still be locked by a host that
// has died.
func (r *Runner) beginLocked(ctx context.Context, j *jobControl, request runRequest, patient bool) (Run, error) {
	request.lock = lockTime(j.current().Schedule, r.now())
	lock := lockRequest{holder: request.id, length: request.lock}
	if patient && r.shared {
		lock.patience = request.lock + request.lock/4
	}
	if request.claim != nil {
		lock.slot = request.slot
	}
	err := r.lock(ctx, j, lock)
	if err == nil {
		var run Run
		if run, err = r.beginUnder(ctx, j, request); err == nil {
			return run, nil
		}
		// That the lock cannot be given back is no trouble: it ends by itself.
		_, _ = r.append(context.Background(), j, request.id, 0, nil, nil)
	}
	return Run{}, fmt.Errorf("job %q: %w", j.name, err)
}

// beginUnder begins a run under the lock.
func (r *Runner) beginUnder(ctx context.Context, j *jobControl, request runRequest) (Run, error) {
	if err := r.refresh(ctx, j); err != nil { // whoever held it before has moved the cursor
		return Run{}, err
	}
	if request.trigger != Manual && j.paused(r.now()) {
		return Run{}, errPaused
	}
	e, planned, err := r.plan(j, request)
	if err != nil {
		return Run{}, err
	}
	if request.claim != nil {
		if err := request.claim.begin(ctx, planned); err != nil {
			return Run{}, err
		}
	}
	run, err := e.begin(planned, request)
	if err != nil && request.claim != nil { // the others have been told that it begins
		planned.end(r.now(), err)
		lines, _ := encodeLines([]record{endedRecord(&planned)})
		_, _ = r.append(context.Background(), j, request.id, 0, nil, lines)
	}
	return run, err
}

// lock locks a job for a holder, and waits with some patience until nobody else has
// it. A host whose own run is under way does not ask before that is over: it could not
// begin another one, even if it has lost the lock. The errors are errTaken, ErrUnderWay, ErrStopping and the hosts'.
func (r *Runner) lock(ctx context.Context, j *jobControl, l lockRequest) error {
	waiting, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	if e := j.underWay(); e != nil && !areOver(waiting, []*executor{e}) {
		if ctx.Err() != nil {
			return ErrStopping
		}
		return fmt.Errorf("%w: %s", ErrUnderWay, e.id)
	}
	watched := ""
	for pause := l.length / 128; ; pause = min(2*pause, l.length/8) {
		left, lapsed, taken, err := r.askForLock(ctx, j, l, watched)
		switch {
		case err != nil:
			return err
		case taken:
			return errTaken
		case lapsed != "":
			if watched = lapsed; !sleep(ctx, watchTime(l.length)) {
				return ErrStopping
			}
			continue
		case left == 0:
			return nil
		}
		if sleep(waiting, min(left, pause)) {
			continue
		}
		if ctx.Err() != nil {
			return ErrStopping
		}
		return r.inTheWay(ctx, j)
	}
}

// inTheWay says whose run holds a job, as far as that has been told.
func (r *Runner) inTheWay(ctx context.Context, j *jobControl) error {
	_, _ = r.load(ctx, j) // a host that cannot be reached is not named
	j.mu.Lock()
	defer j.mu.Unlock()
	switch run := findRun(j.shared.runs, j.shared.holder); {
	case run == nil:
		return fmt.Errorf("%w, or about to begin", ErrUnderWay)
	case run.Host != r.config.Host:
		return fmt.Errorf("%w on host %s: %s", ErrUnderWay, run.Host, run.ID)
	default:
		return fmt.Errorf("%w: %s", ErrUnderWay, run.ID)
	}
}

func (r *Runner) askForLock(ctx context.Context, j *jobControl, l lockRequest, watched string) (left time.Duration, lapsed string, taken bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, hostsTime)
	defer cancel()
	return r.config.Hosts.Lock(ctx, j.name, l.holder, l.length, watched, l.slot)
}

// plan returns the executor of a run for which the job is locked, and the run as it
// will begin. Nobody knows of them yet.
func (r *Runner) plan(j *jobControl, request runRequest) (*executor, Run, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.executor != nil {
		return nil, Run{}, fmt.Errorf("%w: %s", ErrUnderWay, j.executor.id)
	}
	e := &executor{runner: r, state: j, job: j.job, id: request.id, slot: request.slot, set: request.set, done: make(chan struct{})}
	e.publisher = newPublisher(e, request.lock)
	e.budget.most = e.job.UnitsPerRun
	e.places = make(chan struct{}, max(1, e.job.Parallel))
	e.ring = e.job.Regions.From(j.file.Cursor)
	if len(request.regions) > 0 {
		e.ring = slices.Clone(request.regions)
	}
	if request.trigger != Manual { // whoever asks for a run waits for it
		e.stagger = e.job.stagger(request.slot, len(e.ring))
	}
	return e, Run{
		ID: e.id, Job: j.name, Trigger: request.trigger, By: request.by, Host: r.config.Host, Slot: request.slot,
		StartedAt: r.now(), State: RunRunning, Ring: e.ring, Chosen: len(request.regions) > 0,
		UnitsPerRun: e.job.UnitsPerRun, Retry: e.job.Retry, Set: request.set,
	}, nil
}

// begin begins the run as planned, which goes on after begin has returned its record.
func (e *executor) begin(planned Run, request runRequest) (Run, error) {
	ask, end := context.WithCancelCause(context.Background())
	force, kill := context.WithCancelCause(context.Background())
	launching, halt := context.WithCancelCause(ask)
	e.halt, e.end, e.kill = halt, end, kill
	run, err := e.prepare(planned)
	if err != nil {
		end(nil)
		kill(nil)
		return Run{}, err
	}
	if request.claim == nil { // or it was told with the claim
		e.publisher.tell(begunRecord(&run))
	}
	e.runner.config.Observe(RunChanged{Run: run})
	e.runner.background.Go(e.publisher.keep)
	go e.loop(launching, ask, force)
	return run, nil
}

// prepare makes e the job's executor and the run its last one, and writes down that it
// begins.
func (e *executor) prepare(planned Run) (Run, error) {
	e.state.writing.Lock()
	defer e.state.writing.Unlock()
	run, skips, err := e.take(planned)
	if err != nil {
		return Run{}, err
	}
	list := []record{begunRecord(&run)}
	if skips != nil {
		list = slices.Insert(list, 0, begunRecord(skips))
	}
	e.runner.trouble(e.job.Name, e.state.log.append(false, list...))
	return run, nil
}

// take does what prepare says as far as readers see it, and returns as well the ticks
// that were skipped before the run.
func (e *executor) take(planned Run) (run Run, skips *Run, err error) {
	j := e.state
	j.mu.Lock()
	defer j.mu.Unlock()
	if e.runner.isStopping() {
		return Run{}, nil, ErrStopping
	}
	if j.executor != nil { // it was not when the run was planned
		return Run{}, nil, fmt.Errorf("%w: %s", ErrUnderWay, j.executor.id)
	}
	skips = j.file.Skips
	j.last, j.executor, j.file.Skips, j.shared.untold = &planned, e, nil, e.id
	return planned.clone(), skips, nil
}
