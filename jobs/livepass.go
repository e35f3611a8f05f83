package jobs

import (
	"slices"
	"strings"
	"sync"

	"quotad/regions"
)

// A livePass is a pass under way on this host. Any number of goroutines may use it.
type livePass struct {
	token  string
	mu     sync.Mutex // guards what follows
	lines  []string   // the last ones of its output
	stderr string     // the last line that was written to stderr, unless it was blank
}

type passName struct {
	region  regions.Region
	attempt int
}

func nameOf(p Pass) passName { return passName{p.Region, p.Attempt} }

// goLive records that a pass is under way, or with nil that it is over.
func (e *executor) goLive(p Pass, live *livePass) {
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	if live == nil {
		delete(e.live, nameOf(p))
	} else {
		e.live[nameOf(p)] = live
	}
}

// show returns a copy of the executor's run with what its passes under way have done until now; nil
// of no executor. The caller holds the job's mu.
func (e *executor) show() *Run {
	if e == nil {
		return nil
	}
	run := e.run.copy()
	if pause := e.pacing.pause; pause.Until.After(e.runner.now()) {
		run.Waits = &pause
	}
	for i := range run.Passes {
		p := &run.Passes[i]
		live := e.live[nameOf(*p)]
		if live == nil || p.Outcome != Running {
			continue
		}
		spent := e.runner.config.Tokens.spent(live.token)
		p.Units, p.Calls, p.Tail = spent.Units, spent.Calls, live.tail()
		if p.Process != nil {
			p.PID = p.Process.PID
		}
	}
	return run
}

const (
	// maxTailLines and maxLineBytes bound what is kept of a pass's output: its last lines, and the
	// beginning of each.
	maxTailLines = 10
	maxLineBytes = 256
)

// add keeps a line of output.
func (l *livePass) add(written Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := written.Text
	if len(line) > maxLineBytes {
		line = strings.ToValidUTF8(line[:maxLineBytes], "") + "…"
	}
	l.lines = append(l.lines[max(0, len(l.lines)-maxTailLines+1):], strings.Clone(line))
	if written.Stream == "stderr" && strings.TrimSpace(line) != "" {
		l.stderr = l.lines[len(l.lines)-1]
	}
}

// tail returns the last lines of output, the oldest first.
func (l *livePass) tail() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}
