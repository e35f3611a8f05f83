package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// A runLog is a job's log, one record a line. Records are appended in the order of add to the file at path. Once
// that is long it is renamed, and replaces the part of the log before it: the log is two files at most.
// Any number of goroutines may read meanwhile.
type runLog struct {
	path string

	mu    sync.Mutex // guards what follows; nothing is waited for under it
	added []byte     // lines to be written
	why   string     // the last write failed; empty: it did not

	writing sync.Mutex // held while the file is written, and guards what follows
	size    int64      // of the file at path
	since   int64      // bytes that follow the last snapshot
}

const (
	// maxLog is from which size on the file of a log is renamed, before the next snapshot; older is
	// the end of its name then.
	maxLog = 8 << 20
	older  = ".1"
	// maxRunAge is how long ago a run that is shown may have begun.
	maxRunAge = 90 * 24 * time.Hour
	// snapshotEvery is after how many bytes another snapshot is written: a start reads no further
	// back.
	snapshotEvery = 256 << 10
	// maxUnwritten bounds what is kept in memory while the disk is full.
	maxUnwritten = 1 << 20
)

// snapshotPrefix begins a line with a snapshot.
var snapshotPrefix = fmt.Appendf(nil, "\n{\"v\":%d,\"known\":", recordVersion)

// logPath returns the path of the log of a job.
func logPath(dir, job string) string { return filepath.Join(dir, job+logEnding) }

const logEnding = ".runs"

// openRunLog returns the log at path, which need not exist, and the last snapshot in it with the lines that
// follow: nothing else is read. A last line that was cut short is removed, or the next one would be
// appended to it.
func openRunLog(path string) (l *runLog, recent []byte, err error) {
	l = &runLog{path: path}
	known, whole := -1, false
	for length := int64(2 * snapshotEvery); err == nil && known < 0 && !whole; length *= 8 {
		recent, l.size, whole, err = l.end(length)
		known = bytes.LastIndex(recent, snapshotPrefix)
	}
	recent = recent[known+1:]
	l.since = int64(len(recent))
	if err == nil {
		if err = os.Truncate(path, l.size); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open the log of runs: %w", err)
	}
	return l, recent, nil
}

// end returns the last lines of the log, of about a length, whether they are all, and the size of
// the file at path without a last line that is not whole.
func (l *runLog) end(length int64) (lines []byte, size int64, whole bool, err error) {
	lines, start, err := readEnd(l.path, length)
	size = start + int64(len(lines))
	if err == nil && start == 0 {
		var before []byte
		before, start, err = readEnd(l.path+older, max(0, length-size))
		lines = append(before, lines...)
	}
	return lines, size, start == 0, err
}

// readEnd returns the whole lines among the last bytes of a file, and where they start. There are none in a file that
// does not exist.
func readEnd(path string, length int64) (lines []byte, start int64, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, 0, err
	}
	start = max(0, info.Size()-length)
	lines = make([]byte, info.Size()-start)
	if n, err := file.ReadAt(lines, start); n < len(lines) {
		return nil, 0, err
	}
	if start > 0 {
		first := bytes.IndexByte(lines, '\n') + 1
		lines, start = lines[first:], start+int64(first)
	}
	return lines[:bytes.LastIndexByte(lines, '\n')+1], start, nil
}

// add has the next flush write records.
func (l *runLog) add(list ...logRecord) {
	lines := encodeRecords(list...) // they point to what may change
	l.mu.Lock()
	defer l.mu.Unlock()
	l.added = append(l.added, lines...)
}

// flush writes what was added until now. If that is to be synced, it is on disk on return, and so is
// all before it.
func (l *runLog) flush(sync bool) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	return l.write(l.take(), sync)
}

// take returns the lines that were added.
func (l *runLog) take() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.added
	l.added = nil
	return lines
}

// write writes lines. Those that cannot be written come before what is added next, and what a full
// disk has cut short is removed. The caller holds writing.
func (l *runLog) write(lines []byte, sync bool) error {
	if len(lines) == 0 && !sync {
		return nil
	}
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		_, err = file.Write(lines)
		if err == nil && sync {
			err = file.Sync()
		}
		if err != nil {
			err = errors.Join(err, file.Truncate(l.size))
		}
		err = errors.Join(err, file.Close())
	}
	if err == nil && l.size == 0 && sync { // or the file itself could be lost
		err = syncDir(l.path)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		if len(lines)+len(l.added) <= maxUnwritten {
			l.added = append(lines, l.added...)
		}
		err = fmt.Errorf("cannot add to the log of runs: %w", err)
		l.why = err.Error()
		return err
	}
	l.size += int64(len(lines))
	l.since += int64(len(lines))
	l.why = ""
	return nil
}

// lost returns why the last records could not be written; empty: they could.
func (l *runLog) lost() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

// syncDir makes the name of a file durable, which a sync of the file does not (fsync(2)).
func syncDir(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// keep appends a snapshot if many lines follow the last one, and renames a file that has grown too
// long before. Known returns the snapshot; nothing is added while mu is held.
func (l *runLog) keep(mu sync.Locker, known func() logRecord) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.since < snapshotEvery {
		return nil
	}
	mu.Lock()
	snapshot, before := encodeRecords(known()), l.take()
	mu.Unlock()
	if err := l.write(before, false); err != nil {
		return err
	}
	if l.since < 4*int64(len(snapshot)) {
		return nil
	}
	if l.size >= maxLog {
		if err := os.Rename(l.path, l.path+older); err != nil {
			return fmt.Errorf("cannot shorten the log of runs: %w", err)
		}
		l.size = 0
	}
	err := l.write(snapshot, l.size == 0)
	l.since = 0
	return err
}

// CheckLog returns why the log of a job in a directory cannot be understood. It changes nothing, and need not be alone
// with the log, which need not exist.
func CheckLog(dir, job string) error {
	l := &runLog{path: logPath(dir, job)}
	recent, _, _, err := l.end(2 * snapshotEvery)
	if err == nil {
		_, err = l.each(recent, func(logRecord) {})
	}
	return err
}

// each calls f with the record of each whole line. A damaged line is left out: the others are as good without
// it. A line of another version is an error.
func (l *runLog) each(lines []byte, f func(logRecord)) (damaged int, err error) {
	for line := range bytes.Lines(lines) {
		if !bytes.HasSuffix(line, []byte{'\n'}) {
			break // it is being written
		}
		one := logRecord{Version: -1}
		switch err := json.Unmarshal(line, &one); {
		case one.Version != recordVersion && one.Version >= 0:
			return damaged, fmt.Errorf("cannot understand %q: a record has version %d, this quotad knows %d: another version of quotad wrote it: "+
				"install that version again, or move the file away: the job then begins without its runs, pause and bookmarks", l.path, one.Version, recordVersion)
		case err != nil || one.Version < 0:
			damaged++
		default:
			f(one)
		}
	}
	return damaged, nil
}

// latest returns the last n runs of the log, and skipped ticks between them, the latest in the file
// first. It reads no more of the log than it needs.
func (l *runLog) latest(n int) ([]Run, error) {
	for length := int64(snapshotEvery); ; length *= 4 {
		lines, _, whole, err := l.end(length)
		if err != nil {
			return nil, fmt.Errorf("cannot read the log of runs: %w", err)
		}
		var h history
		if _, err := l.each(lines, h.add); err != nil {
			return nil, err
		}
		if len(h.runs) > n || whole {
			return h.latest(n), nil
		}
	}
}

// find returns a run of the log. It decodes only the lines that name it.
func (l *runLog) find(id string) (Run, bool, error) {
	all, _, _, err := l.end(math.MaxInt64)
	if err != nil {
		return Run{}, false, fmt.Errorf("cannot read the log of runs: %w", err)
	}
	var lines []byte
	for line := range bytes.Lines(all) {
		if bytes.Contains(line, []byte(id)) {
			lines = append(lines, line...)
		}
	}
	var h history
	_, err = l.each(lines, h.add)
	if run := h.at[id]; run != nil && err == nil {
		return *run, true, nil
	}
	return Run{}, false, err
}

// A history is the runs of some records, in the order in which they began.
type history struct {
	runs []*Run
	at   map[string]*Run
}

// add adds what a record says.
func (h *history) add(one logRecord) {
	run := one.Run
	if one.Known != nil {
		run = one.Known.Last
	}
	if run != nil {
		known := h.at[run.ID]
		switch {
		case known == nil:
			h.runs = append(h.runs, run)
			if h.at == nil {
				h.at = map[string]*Run{}
			}
			h.at[run.ID] = run
		case run.State == RunSkipped || run.State != RunRunning && known.State == RunRunning || len(run.Passes) > len(known.Passes):
			*known = *run // it is complete
		}
	}
	if run := h.at[one.ID]; run != nil {
		run.apply(one)
	}
}

// latest returns the last n runs, the latest first.
func (h *history) latest(n int) []Run {
	var list []Run
	for _, run := range slices.Backward(h.runs) {
		if len(list) == n {
			break
		}
		list = append(list, *run)
	}
	return list
}
