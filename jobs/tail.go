package jobs

import (
	"strings"
	"sync"
)

const (
	// keptLines and keptBytes bound what is kept of a pass's output, its last
	// lines, and of each of them its beginning.
	keptLines = 10
	keptBytes = 256
)

// A tail keeps the last lines of a pass's output. Any number of goroutines may use it.
type tail struct {
	mu    sync.Mutex // guards what follows
	ring  [keptLines]string
	count int
	said  string // the last line that was written to stderr, unless it was blank
}

func (t *tail) add(written Line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := written.Text
	if len(line) > keptBytes {
		line = strings.ToValidUTF8(line[:keptBytes], "") + "…"
	}
	t.ring[t.count%keptLines] = strings.Clone(line)
	t.count++
	if written.Stream == "stderr" && strings.TrimSpace(line) != "" {
		t.said = t.ring[(t.count-1)%keptLines]
	}
}

// lastWord returns the last line of stderr, empty if there was none.
func (t *tail) lastWord() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.said
}

// lines returns what is kept, the oldest first.
func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := make([]string, 0, min(t.count, keptLines))
	for i := t.count - cap(kept); i < t.count; i++ {
		kept = append(kept, t.ring[i%keptLines])
	}
	return kept
}
