package jobs

import (
	"slices"
	"strings"
	"sync"
)

// A livePass is a pass under way on this host. Any number of goroutines may use it.
type livePass struct {
	token  string
	mu     sync.Mutex // guards what follows
	lines  []string   // the last ones of its output
	stderr string     // the last line that was written to stderr, unless it was blank
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
