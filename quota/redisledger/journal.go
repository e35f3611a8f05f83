package redisledger

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"quotad/quota"
)

// A journal is this daemon's own record of what it wrote to the logs, and of what it granted
// while Redis was away. Its segments are only appended to; the newest one, by itself, tells
// all that a start needs to know: behind its version, a line, stands what those before it
// said, and then headEnd. Where a machine that lost its power has nothing of that end, the
// segments before are read too. Each other line stands alone:
//
//	m <credential> <epoch> <newest id> <units used per limit> <daemons that wrote>   what is known of a log
//	e <credential> <epoch> <id> <entry>                          an entry of it
//	o <credential> <id> <units settled to, or -> <entry>         an offline grant; a later line replaces it
//	b <credential> <id> <units settled to, or ->                 it is in the log as it was then
//	c <credential> <id> <entry>                                  a limit is closed, as an entry before this segment says
//
// What is written survives the daemon at once, and the machine where it was synced.
type journal struct {
	dir  string
	keep time.Duration

	mu       sync.Mutex // guards what follows; held over writes, never over a sync
	file     *os.File   // the newest segment
	size     int64
	segments []segment // oldest first
	summary
}

// segmentSize is where a segment ends and the next one begins.
const segmentSize = 8 << 20

// openJournal opens the journal in a directory, which it makes. Lines older than keep may
// be dropped.
func openJournal(dir string, keep time.Duration) (*journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the journal's directory: %w", err)
	}
	if old, _ := filepath.Glob(filepath.Join(dir, "journal-*.jsonl")); len(old) > 0 {
		return nil, fmt.Errorf("journal %q is of another version: move the file away to go on without what it knows", old[0])
	}
	segments, err := segmentsIn(dir)
	if err != nil {
		return nil, err
	}
	j := &journal{dir: dir, keep: keep, segments: segments, summary: newSummary()}
	return j, j.open()
}

// open takes in what the newest segment says, and those before it down to one with a whole
// head, and continues it. Where it has no such head, it begins another one.
func (j *journal) open() error {
	var said []string
	size, headed := 0, false
	for i := len(j.segments) - 1; i >= 0 && !headed; i-- {
		lines, err := j.segments[i].lines()
		if err != nil {
			return err
		}
		if i == len(j.segments)-1 {
			size = len(lines)
		}
		_, lines, _ = strings.Cut(lines, "\n")
		headed = strings.HasPrefix(lines, headEnd+"\n") || strings.Contains(lines, "\n"+headEnd+"\n")
		said = append(said, lines)
	}
	for _, lines := range slices.Backward(said) {
		for line := range strings.Lines(lines) {
			j.take(strings.TrimSuffix(line, "\n"))
		}
	}
	if len(said) != 1 || !headed {
		_, err := j.next()
		return err
	}
	file, err := j.segments[len(j.segments)-1].reopen(int64(size))
	if err != nil {
		return err
	}
	j.file, j.size = file, int64(size)
	return nil
}

// A logLine is an entry of a log as it stands there.
type logLine struct{ id, text string }

// log writes entries of a log.
func (j *journal) log(credential, epoch string, entries ...logLine) error {
	lines, ids := make([]byte, 0, 160*len(entries)), make([]quota.ID, len(entries))
	for i, e := range entries {
		var err error
		if ids[i], err = quota.ParseID(e.id); err != nil {
			return err
		}
		lines = append(append(append(lines, "e "...), credential...), ' ')
		lines = append(append(append(lines, epoch...), ' '), e.id...)
		lines = append(append(append(lines, ' '), e.text...), '\n')
	}
	_, err := j.append(lines, func() {
		for i, e := range entries {
			j.noteEntry(credential, epoch, ids[i], e.text)
		}
	})
	return err
}

// mark writes what is known of a log.
func (j *journal) mark(m mark) error {
	_, err := j.append([]byte(m.line()), func() { j.noteMark(m) })
	return err
}

// offline writes offline grants, and returns once the disk has them.
func (j *journal) offline(credential string, grants ...*offlineGrant) error {
	var lines bytes.Buffer
	for _, g := range grants {
		lines.WriteString(g.line(credential))
	}
	file, err := j.append(lines.Bytes(), func() {
		for _, g := range grants {
			j.noteOffline(credential, *g)
		}
	})
	if err != nil {
		return err
	}
	return sync1(file)
}

// replayed writes that offline grants are in the log, and returns once the disk has it.
func (j *journal) replayed(credential string, grants []offlineGrant) error {
	var lines bytes.Buffer
	for _, g := range grants {
		lines.WriteString(g.replayedLine(credential))
	}
	file, err := j.append(lines.Bytes(), func() {
		for _, g := range grants {
			j.noteReplayed(credential, g.id, g.settledTo)
		}
	})
	if err != nil {
		return err
	}
	return sync1(file)
}

// sync1 syncs a segment. One that has been closed was synced before.
func sync1(file *os.File) error {
	if err := file.Sync(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("cannot write the journal: %w", err)
	}
	return nil
}

// append writes lines with one call, and notes what they say. It returns the segment that
// has them.
func (j *journal) append(lines []byte, note func()) (*os.File, error) {
	file, ended, err := j.appendLocked(lines, note)
	if ended != nil {
		err = errors.Join(err, sync1(ended), ended.Close())
	}
	return file, err
}

func (j *journal) appendLocked(lines []byte, note func()) (file, ended *os.File, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.write(lines); err != nil {
		return nil, nil, err
	}
	note()
	file = j.file
	if j.size >= segmentSize {
		// The lines are written; a segment that cannot begin now begins after the next
		// ones, and what keeps it from that keeps them from being written.
		ended, _ = j.next()
	}
	return file, ended, nil
}

// write appends whole lines or nothing.
func (j *journal) write(content []byte) error {
	n, err := j.file.Write(content)
	if err == nil {
		j.size += int64(n)
		return nil
	}
	if n > 0 {
		err = errors.Join(err, j.file.Truncate(j.size))
	}
	return fmt.Errorf("cannot write the journal: %w", err)
}

// next begins a segment with all that a start needs to know, and drops those that are older
// than anything kept. It returns the segment that has ended, to be closed.
func (j *journal) next() (ended *os.File, err error) {
	path, file, size, err := beginSegment(j.dir, j.head(time.Now().Add(-j.keep).UnixMilli()))
	if err != nil {
		return nil, err
	}
	ended, j.file, j.size, j.segments = j.file, file, size, append(j.segments, path)
	for len(j.segments) > 1 && j.segments[0].older(j.keep) {
		if os.Remove(string(j.segments[0])) != nil {
			break
		}
		j.segments = j.segments[1:]
	}
	return ended, nil
}

// known returns what is known of a credential's log, and what was granted offline.
func (j *journal) known(credential string) (mark, []*offlineGrant) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var grants []*offlineGrant
	for _, g := range j.grants[credential] {
		grants = append(grants, &g)
	}
	slices.SortFunc(grants, func(a, b *offlineGrant) int { return a.id.Compare(b.id) })
	m := j.marks[credential]
	m.used, m.daemons = maps.Clone(m.used), maps.Clone(m.daemons)
	return m, grants
}

// closings returns which limits of a credential are closed, as far as this daemon said so.
func (j *journal) closings(credential string) map[string]quota.Closed {
	j.mu.Lock()
	defer j.mu.Unlock()
	closed := make(map[string]quota.Closed)
	for limit, c := range j.closed[credential] {
		closed[limit] = c.closed
	}
	return closed
}

// closingEntries returns the entries that closed them.
func (j *journal) closingEntries(credential string) (entries []closing) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range j.closed[credential] {
		entries = append(entries, c)
	}
	return entries
}

// unreadable is how many lines could not be read.
func (j *journal) unreadable() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.broken
}

// Close closes the journal.
func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(j.file.Sync(), j.file.Close())
}

// entries hands over every entry of a credential's log since a time, also what was granted
// offline, as far as this daemon knows it. It does not hold the journal up.
func (j *journal) entries(credential string, since time.Time, take func(id, text string) error) error {
	j.mu.Lock()
	segments := slices.Clone(j.segments)
	j.mu.Unlock()
	for i, s := range segments {
		// Names tell when a segment began by this host's clock, which may not be the log's.
		if i+1 < len(segments) && segments[i+1].begun().Before(since.Add(-time.Hour)) {
			continue
		}
		if err := s.entries(credential, since, take); err != nil {
			return err
		}
	}
	return nil
}
