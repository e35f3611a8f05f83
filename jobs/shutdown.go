package jobs

import "context"

// Drain begins no further run or pass and waits until those under way are over,
// or ctx ends; the passes run on then, and Stop ends them.
func (r *Runner) Drain(ctx context.Context) error {
	return r.close(ctx, func(w *walk) { w.halt(ErrShutdown) })
}

// Stop begins no further run, ends the passes under way and waits until they
// are over and recorded, or ctx ends. Regions whose pass was interrupted keep
// their turn. A pass has its job's KillGrace to end.
func (r *Runner) Stop(ctx context.Context) error {
	return r.close(ctx, func(w *walk) { w.end(ErrShutdown) })
}

func (r *Runner) close(ctx context.Context, tell func(*walk)) error {
	r.beginNoMore()
	walks := r.underWay()
	for _, w := range walks {
		tell(w)
	}
	for _, w := range walks {
		select {
		case <-w.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	r.contests.Wait() // those that wait have been told, and no question takes long
	return nil
}

func (r *Runner) beginNoMore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopping {
		r.stopping = true
		close(r.stopped)
	}
}
