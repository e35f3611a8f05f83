package main

import (
	"context"
	"errors"
)

// endPasses begins no further pass and gives those under way their time: to come
// to their own end, and then, asked to, to end. A hurry leaves nothing out, it
// leaves them no time.
func (d *daemon) endPasses() error {
	draining, cancel := context.WithTimeout(context.Background(), d.config.Passes.Drain)
	defer cancel()
	hurried := make(chan struct{})
	go func() {
		defer close(hurried)
		select {
		case <-d.hurry:
			cancel()
		case <-draining.Done():
		}
	}()
	err := d.runner.Drain(draining)
	cancel()
	<-hurried
	if err == nil {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		d.log.Info().Stringer("drain", d.config.Passes.Drain).Msg("asking the passes to end")
	}
	return d.runner.Stop(context.Background())
}
