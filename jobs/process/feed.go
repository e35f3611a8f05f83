package process

import (
	"fmt"
	"sync"
	"time"

	"quotad/jobs"
)

const (
	// roomLines and roomBytes bound what waits to be handed on.
	roomLines = 1000
	roomBytes = 1 << 20

	// burst is how many lines may come at any speed, and pace the time between
	// two lines after that. A line counts once more for each KiB it is long.
	// The journal by default takes 10,000 lines in 30 s from a whole service.
	burst = 2000
	pace  = 5 * time.Millisecond
)

// A feed hands lines on, one at a time, at a bounded pace, and never keeps the
// writer waiting. When there is no more room the oldest lines are dropped, and
// how many they were is said in their place: what a command writes last says
// most about its end.
type feed struct {
	hand   func(jobs.Line)
	closed chan struct{}

	mu      sync.Mutex // guards what follows
	ready   sync.Cond  // something follows, or the feed is closed
	over    bool
	waiting []jobs.Line
	bytes   int            // of waiting
	dropped map[string]int // stream → lines dropped before those waiting
}

func newFeed(hand func(jobs.Line)) *feed {
	f := &feed{hand: hand, closed: make(chan struct{}), dropped: map[string]int{}}
	f.ready.L = &f.mu
	return f
}

// push adds a line.
func (f *feed) push(line jobs.Line) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append(f.waiting, line)
	f.bytes += len(line.Text)
	for len(f.waiting) > roomLines || f.bytes > roomBytes {
		oldest := f.waiting[0]
		f.dropped[oldest.Stream]++
		f.bytes -= len(oldest.Text)
		f.waiting[0] = jobs.Line{} // or its text would live as long as the array
		f.waiting = f.waiting[1:]
	}
	f.ready.Signal()
}

// close lets run hand on what still waits, without any pace, and end.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	close(f.closed)
	f.ready.Signal()
}

// run hands lines on until the feed is closed and empty.
func (f *feed) run() {
	var m meter
	for batch := f.take(); len(batch) > 0; batch = f.take() {
		for _, line := range batch {
			f.rest(m.add(time.Now(), 1+len(line.Text)>>10))
			f.hand(line)
		}
	}
}

// take waits for lines and returns all that wait: taken together, those that are
// handed on follow each other as they were written. It returns none when the
// feed is closed.
func (f *feed) take() []jobs.Line {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.waiting) == 0 && !f.over {
		f.ready.Wait()
	}
	var batch []jobs.Line
	for stream, n := range f.dropped {
		batch = append(batch, jobs.Line{
			Stream:  stream,
			Text:    fmt.Sprintf("(dropped here, because the command writes faster than lines are handed on: %d)", n),
			Cut:     true,
			Dropped: n,
		})
	}
	batch = append(batch, f.waiting...)
	clear(f.dropped)
	f.waiting, f.bytes = nil, 0
	return batch
}

// rest waits for a time, or until the feed is closed.
func (f *feed) rest(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-f.closed:
	case <-time.After(d):
	}
}

// A meter tells how long to wait to keep the pace. The zero value has its whole
// burst before it.
type meter struct {
	due time.Time // when what has been counted would have been handed on at the pace
}

// add counts lines at a time and returns how long to wait first.
func (m *meter) add(now time.Time, lines int) time.Duration {
	if m.due.Before(now) {
		m.due = now
	}
	m.due = m.due.Add(time.Duration(lines) * pace)
	return max(0, m.due.Sub(now)-burst*pace)
}
