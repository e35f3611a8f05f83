package main

import (
	"context"
	"time"

	"quotad/jobs"
	"quotad/quota/api"
	"quotad/quota/outage"
)

const (
	// calm is the least time between two lines.
	calm = time.Second
	// stale is how old a line may be although nothing happened: units come back
	// by themselves.
	stale = time.Minute
)

// A herald tells the service manager in one line how the daemon is, soon after
// that has changed.
type herald struct {
	line func(context.Context) string
	tell func(line string)
	news chan struct{} // holds one if something has happened
}

var _ watcher = (*herald)(nil)

func newHerald(line func(context.Context) string, tell func(string)) *herald {
	return &herald{line: line, tell: tell, news: make(chan struct{}, 1)}
}

// stir has a line told soon. It returns at once.
func (h *herald) stir() {
	select {
	case h.news <- struct{}{}:
	default:
	}
}

// run tells a line whenever it has become another one, until ctx ends.
func (h *herald) run(ctx context.Context) {
	told := ""
	for ctx.Err() == nil {
		if line := h.line(ctx); line != told && ctx.Err() == nil {
			h.tell(line)
			told = line
		}
		lull(ctx, calm, nil)
		lull(ctx, stale, h.news)
	}
}

// lull waits until something has happened, or for a while at most.
func lull(ctx context.Context, while time.Duration, news <-chan struct{}) {
	timer := time.NewTimer(while)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-news:
	case <-ctx.Done():
	}
}

// RunChanged implements jobs.Observer.
func (h *herald) RunChanged(jobs.Run) { h.stir() }

// PassChanged implements jobs.Observer.
func (h *herald) PassChanged(jobs.Run, jobs.Pass) { h.stir() }

// Output implements jobs.Observer.
func (*herald) Output(string, string, jobs.Pass, jobs.Line) {}

// Trouble implements jobs.Observer.
func (*herald) Trouble(string, error) {}

func (*herald) decided(api.Event) {} // what is left is told with the pass, or after a minute

func (h *herald) outage(outage.Event) { h.stir() }
