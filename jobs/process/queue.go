package process

import (
	"fmt"
	"sync"
	"time"

	"quotad/jobs"
)

const (
	// maxLines and maxBytes bound what the queue holds.
	maxLines = 1000
	maxBytes = 1 << 20

	// burst is how many lines are emitted at once, and lineInterval the time between
	// two lines after that. A line counts once more for each KiB it is long. The
	// journal by default takes 10,000 lines in 30 s from a whole service.
	burst        = 2000
	lineInterval = 5 * time.Millisecond
)

// A queue emits lines, one at a time and at a bounded rate, and never keeps the writer
// waiting. A full queue drops its oldest lines and emits their number in their place:
// what a command writes last says most about its end.
type queue struct {
	emit   func(jobs.Line)
	ready  chan struct{} // holds one if a line waits
	closed chan struct{}

	mu      sync.Mutex // guards what follows
	waiting []jobs.Line
	bytes   int            // of waiting
	dropped map[string]int // stream → lines dropped before those waiting
}

func newQueue(emit func(jobs.Line)) *queue {
	return &queue{emit: emit, ready: make(chan struct{}, 1), closed: make(chan struct{}), dropped: map[string]int{}}
}

// push adds a line.
func (q *queue) push(line jobs.Line) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, line)
	q.bytes += len(line.Text)
	for len(q.waiting) > maxLines || q.bytes > maxBytes {
		oldest := q.waiting[0]
		q.dropped[oldest.Stream]++
		q.bytes -= len(oldest.Text)
		q.waiting[0] = jobs.Line{} // or its text would live as long as the array
		q.waiting = q.waiting[1:]
	}
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// close makes run emit what still waits, without a bound on the rate, and end.
func (q *queue) close() { close(q.closed) }

// run emits lines until the queue is closed and empty.
func (q *queue) run() {
	var m limiter
	for over := false; !over; {
		select {
		case <-q.ready:
		case <-q.closed:
			over = true
		}
		for _, line := range q.take() {
			q.pause(m.add(time.Now(), 1+len(line.Text)>>10))
			q.emit(line)
		}
	}
}

// take returns all lines that wait, in the order in which they were written.
func (q *queue) take() (batch []jobs.Line) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for stream, n := range q.dropped {
		batch = append(batch, jobs.Line{
			Stream:  stream,
			Text:    fmt.Sprintf("(dropped here, because the command writes faster than lines are handed on: %d)", n),
			Cut:     true,
			Dropped: n,
		})
	}
	batch = append(batch, q.waiting...)
	clear(q.dropped)
	q.waiting, q.bytes = nil, 0
	return batch
}

// pause waits for a time, or until the queue is closed.
func (q *queue) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-q.closed:
	case <-time.After(d):
	}
}

// A limiter keeps lines at their rate. The zero value has its whole burst left.
type limiter struct {
	due time.Time // when all that was added would have been emitted, without a burst
}

// add counts lines at a time and returns how long to wait first.
func (m *limiter) add(now time.Time, lines int) time.Duration {
	if m.due.Before(now) {
		m.due = now
	}
	m.due = m.due.Add(time.Duration(lines) * lineInterval)
	return max(0, m.due.Sub(now)-burst*lineInterval)
}
