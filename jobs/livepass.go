package jobs

import (
	"strings"
	"sync"

	"quotad/regions"
)

// A livePass is a pass under way on this host.
type livePass struct {
	token string
	tail  tail
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

// show completes a copy of the executor's run by what its passes under way have done
// until now. The caller holds the job's mu.
func (e *executor) show(run *Run) {
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
		p.Units, p.Calls, p.Tail = spent.Units, spent.Calls, live.tail.lines()
		if p.Process != nil {
			p.PID = p.Process.PID
		}
	}
}

const (
	// maxTailLines and maxLineBytes bound what is kept of a pass's output: its last lines, and the
	// beginning of each.
	maxTailLines = 10
	maxLineBytes = 256
)

// A tail keeps the last lines of a pass's output. Any number of goroutines may use it.
type tail struct {
	mu    sync.Mutex // guards what follows
	ring  [maxTailLines]string
	count int
	said  string // the last line that was written to stderr, unless it was blank
}

func (t *tail) add(written Line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := written.Text
	if len(line) > maxLineBytes {
		line = strings.ToValidUTF8(line[:maxLineBytes], "") + "…"
	}
	t.ring[t.count%maxTailLines] = strings.Clone(line)
	t.count++
	if written.Stream == "stderr" && strings.TrimSpace(line) != "" {
		t.said = t.ring[(t.count-1)%maxTailLines]
	}
}

// lastStderr returns the last line of stderr, empty if there was none.
func (t *tail) lastStderr() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.said
}

// lines returns what is kept, the oldest first.
func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := make([]string, 0, min(t.count, maxTailLines))
	for i := t.count - cap(kept); i < t.count; i++ {
		kept = append(kept, t.ring[i%maxTailLines])
	}
	return kept
}
