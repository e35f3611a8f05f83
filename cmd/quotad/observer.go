package main

import (
	"context"
	"sync"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/upstream"
)

// Silences take in passes that said by their exit code that the budget was gone, though
// nothing was denied here and they told of no answer: the upstream said so, and nobody
// kept how.
type silences struct {
	observer  *upstream.Observer
	emit      func(event any)
	observing sync.WaitGroup
}

// silenceTime is how long taking one in may last.
const silenceTime = 10 * time.Second

// record is a sink of events.
func (s *silences) record(event any) {
	ended, ok := event.(jobs.PassChanged)
	if !ok {
		return
	}
	run, pass := ended.Run, ended.Pass
	if pass.Outcome != jobs.Exhausted || pass.Denied || !pass.RetryAt.IsZero() || pass.Last == "" {
		return
	}
	s.observing.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), silenceTime)
		defer cancel()
		_, err := s.observer.Observe(ctx, upstream.Observation{
			Grant: pass.Last, Silent: true,
			Caller: quota.Caller{Job: run.Job, Region: string(pass.Region), Run: run.ID, UID: -1},
		})
		if err != nil {
			s.emit(jobs.Trouble{Job: run.Job, Err: err})
		}
	})
}
