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
}

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(line) > keptBytes {
		line = strings.ToValidUTF8(line[:keptBytes], "") + "…"
	}
	t.ring[t.count%keptLines] = strings.Clone(line)
	t.count++
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
