package jobs

import (
	"context"
	"sync"
	"time"

	"quotad/regions"
)

// A walk is a run under way: it goes around the ring and launches a pass at each
// region, until the ring is through or something stops it.
type walk struct {
	runner  *Runner
	desk    *desk
	job     *Job // as it was when the run began
	id      string
	slot    time.Time
	ring    regions.Ring
	stagger time.Duration
	turns   bool // the run takes the ring's turn and moves the cursor; otherwise somebody chose its regions

	lease *lease // nil if no other host runs the job

	run     *Run // guarded by desk.mu
	unfiled *Run // guarded by desk.mu: the skipped ticks before the run, until they are in the history

	places chan struct{}           // one for each pass that may be under way
	halt   context.CancelCauseFunc // launches nothing more
	end    context.CancelCauseFunc // launches nothing more, and ends the passes under way
	done   chan struct{}           // closed when the run is over and recorded
}

// around launches a pass at each region of the ring, each at its time and only
// if the gate lets it, and returns when the last of them is over. The passes
// live as long as ctx, and launching, a part of ctx, is as long as more may
// begin.
func (w *walk) around(ctx, launching context.Context) {
	var passes sync.WaitGroup
	for i, region := range w.ring {
		if !waitUntil(launching, regions.Start(w.slot, w.stagger, i), w.runner.now()) || !w.enter(launching) {
			break
		}
		if !w.admit(launching, region) {
			w.leave()
			break
		}
		passes.Go(func() {
			defer w.leave()
			w.pass(ctx, region)
		})
	}
	passes.Wait()
	w.lease.stop()
	w.finish(context.Cause(launching))
	w.lease.end()
	w.end(nil)
	close(w.done)
}

// waitUntil waits from now until start, and tells whether ctx let it.
func waitUntil(ctx context.Context, start, now time.Time) bool {
	return sleep(ctx, start.Sub(now))
}

// sleep waits, if there is anything to wait for, and tells whether ctx let it.
func sleep(ctx context.Context, wait time.Duration) bool {
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// enter waits for a place among the passes of the run, and then for one among
// those of all jobs, and tells whether ctx let it. Who waits holds no units.
func (w *walk) enter(ctx context.Context) bool {
	if !take(ctx, w.places) {
		return false
	}
	if !take(ctx, w.runner.places) {
		<-w.places
		return false
	}
	return true
}

func (w *walk) leave() {
	if w.runner.places != nil {
		<-w.runner.places
	}
	<-w.places
}

// take takes one of the places, of which there is no end if places is nil.
func take(ctx context.Context, places chan struct{}) bool {
	if places == nil {
		return ctx.Err() == nil
	}
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	if ctx.Err() != nil { // both at once: the place came with the end of the last pass, and so did the stop
		<-places
		return false
	}
	return true
}

// admit asks the gate whether a pass can be afforded. If it cannot, or nobody
// can tell, the pass is recorded as skipped and the run stops: waiting for units
// is what the next tick is for.
func (w *walk) admit(ctx context.Context, region regions.Region) bool {
	if len(w.job.Expects) == 0 {
		return true
	}
	d, err := w.runner.config.Gate.Peek(ctx, w.job.Credential, w.job.Expects)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		w.skip(region, &stop{reason: LedgerUnavailable, detail: err.Error()})
	case !d.Granted():
		w.skip(region, refusal(d))
	default:
		return true
	}
	return false
}

// finish records how the run ended: cause is why it launched nothing more, nil
// if nothing was in its way.
func (w *walk) finish(cause error) {
	d := w.desk
	d.mu.Lock()
	w.run.EndedAt = w.runner.now()
	w.run.State = RunDone
	if !w.run.through() {
		w.run.endEarly(cause)
	}
	d.walk = nil
	if w.lease != nil {
		d.shared.rest = w.id
	}
	err := d.keep(w.unfiled, w.run)
	run := w.run.clone()
	d.mu.Unlock()
	w.runner.trouble(d.name, err)
	w.runner.config.Observer.RunChanged(run)
}
