package jobs

import "strings"

const (
	// keptLines and keptBytes bound what is kept of a pass's output, its last
	// lines, and of each of them its beginning.
	keptLines = 10
	keptBytes = 256
)

// A tail keeps the last lines of a pass's output.
type tail struct {
	ring  [keptLines]string
	count int
}

func (t *tail) add(line string) {
	if len(line) > keptBytes {
		line = strings.ToValidUTF8(line[:keptBytes], "") + "…"
	}
	t.ring[t.count%keptLines] = strings.Clone(line)
	t.count++
}

// lines returns what is kept, the oldest first.
func (t *tail) lines() []string {
	kept := make([]string, 0, min(t.count, keptLines))
	for i := t.count - cap(kept); i < t.count; i++ {
		kept = append(kept, t.ring[i%keptLines])
	}
	return kept
}
