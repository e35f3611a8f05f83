package jobs

import (
	"math"
	"slices"
	"strings"
	"sync"

	"quotad/regions"
)

// An OutputLine is a line that a pass of a run wrote.
type OutputLine struct {
	Region regions.Region `json:"region"`
	Stream string         `json:"stream"` // "stdout" or "stderr"
	Text   string         `json:"text"`
}

// maxOutput is how many bytes are kept of what the passes of a job's last run wrote.
const maxOutput = 64 << 10

// A runOutput is what the passes of a run wrote last. Any number of goroutines may use it.
type runOutput struct {
	mu      sync.Mutex // guards what follows
	lines   []OutputLine
	size    int
	written int // lines until now, those that are not kept included
}

// add keeps a line.
func (o *runOutput) add(region regions.Region, line Line) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, OutputLine{region, line.Stream, strings.Clone(line.Text)})
	o.size += o.lines[len(o.lines)-1].cost()
	o.written++
	for o.size > maxOutput && len(o.lines) > 1 {
		o.size -= o.lines[0].cost()
		o.lines = o.lines[1:]
	}
}

// cost is how much memory a line needs, also an empty one.
func (l OutputLine) cost() int { return len(l.Text) + 64 }

// after returns what is kept of the lines after the first n, and how many there are in all.
func (o *runOutput) after(n int) (lines []OutputLine, written int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	from := n - (o.written - len(o.lines))
	return slices.Clone(o.lines[min(max(0, from), len(o.lines)):]), o.written
}

// count is how many lines the run has written until now.
func (o *runOutput) count() int {
	_, written := o.after(math.MaxInt)
	return written
}

const (
	// maxTail and maxLineBytes bound what is kept of the output of a pass: its last lines, and the beginning of each.
	maxTail      = 4 << 10
	maxLineBytes = 1 << 10
)

// tail returns the last lines after the first n of the run, and the last one that was written to stderr and is not blank.
func (o *runOutput) tail(n int) (lines []string, said string) {
	all, _ := o.after(n)
	for _, line := range all {
		text := line.Text
		if len(text) > maxLineBytes {
			text = strings.ToValidUTF8(text[:maxLineBytes], "") + "…"
		}
		if lines = append(lines, text); line.Stream == "stderr" && strings.TrimSpace(text) != "" {
			said = text
		}
	}
	from, size := len(lines), 0
	for ; from > 0 && size+len(lines[from-1])+1 <= maxTail; from-- {
		size += len(lines[from-1]) + 1
	}
	return lines[from:], said
}
