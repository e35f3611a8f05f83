package jobs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"quotad/regions"
)

// A runLog is the file of a job's log, one record a line. Records are appended in the order of add,
// until the file is rewritten shorter: the runs that are kept, each on a line, and a snapshot. Any
// number of goroutines may read meanwhile.
type runLog struct {
	path string

	mu    sync.Mutex // guards what follows; nothing is waited for under it
	added []byte     // lines to be written

	writing   sync.Mutex // held while the file is written, and guards what follows
	size      int64
	since     int64  // bytes that follow the last snapshot
	unwritten []byte // lines that could not be written; they precede those that were added
	recent    []byte // lines for recall
}

const (
	// maxLog is the size at which a log is rewritten. Then it keeps maxRuns runs at most, none
	// that began longer than maxRunAge ago, and no more than half of maxLog.
	maxLog    = 8 << 20
	maxRuns   = 500
	maxRunAge = 90 * 24 * time.Hour
	// snapshotEvery is after how many bytes another snapshot is written: a start reads no further
	// back.
	snapshotEvery = 256 << 10
	// maxUnwritten bounds what is kept in memory while the disk is full.
	maxUnwritten = 1 << 20
)

// snapshotPrefix begins a line with a snapshot.
var snapshotPrefix = fmt.Appendf(nil, "\n{\"v\":%d,\"known\":", recordVersion)

// openRunLog returns the log in the file at path, which need not exist. A last line that was cut
// short is removed, or the next one would be appended to it. Nothing is read but the lines
// for recall: the last snapshot and what follows it.
func openRunLog(path string) (*runLog, error) {
	l := &runLog{path: path}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open the log of runs: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	for length := int64(2 * snapshotEvery); err == nil; length *= 8 {
		var data []byte
		start := max(0, info.Size()-length)
		data, err = readFrom(file, start)
		l.size = start + int64(len(data))
		known := bytes.LastIndex(data, snapshotPrefix)
		l.recent = data[known+1:]
		l.since = int64(len(l.recent))
		if start == 0 || known >= 0 {
			break
		}
	}
	if err == nil && l.size < info.Size() {
		err = file.Truncate(l.size)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot mend the log of runs: %w", err)
	}
	return l, nil
}

// readFrom returns the end of a file, without a last line that is not whole.
func readFrom(file *os.File, start int64) ([]byte, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, max(0, info.Size()-start))
	n, err := file.ReadAt(data, start)
	if n < len(data) && err != nil {
		return nil, err
	}
	return data[:bytes.LastIndexByte(data, '\n')+1], nil
}

// recall calls f once with the records of the log from the last snapshot on.
func (l *runLog) recall(f func(record)) (damaged int, err error) {
	data := l.recent
	l.recent = nil
	return l.each(data, f)
}

// add has the next flush write records.
func (l *runLog) add(list ...record) {
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

// write writes lines, after those that could not be written before. What a full disk has cut short
// is removed. The caller holds writing.
func (l *runLog) write(lines []byte, sync bool) error {
	lines = append(l.unwritten, lines...)
	if len(lines) == 0 && !sync {
		return nil
	}
	if err := l.tryToWrite(lines, sync); err != nil {
		if len(lines) <= maxUnwritten {
			l.unwritten = lines
		}
		return fmt.Errorf("cannot add to the log of runs: %w", err)
	}
	l.unwritten = nil
	return nil
}

func (l *runLog) tryToWrite(lines []byte, sync bool) error {
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(lines)
	if err == nil && sync {
		err = file.Sync()
	}
	if err != nil {
		return errors.Join(err, file.Truncate(l.size), file.Close())
	}
	if l.size == 0 && sync { // or the file itself could be lost
		err = regions.SyncDir(l.path)
	}
	l.size += int64(len(lines))
	l.since += int64(len(lines))
	return errors.Join(err, file.Close())
}

// keep appends a snapshot if many lines follow the last one, and rewrites the log if it has grown
// too long. Known returns the snapshot; nothing is added while mu is held.
func (l *runLog) keep(now time.Time, mu sync.Locker, known func() record) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.size < maxLog && l.since < snapshotEvery {
		return nil
	}
	mu.Lock()
	snapshot, before := encodeRecords(known()), l.take()
	mu.Unlock()
	if err := l.write(before, false); err != nil {
		return err
	}
	if l.size >= maxLog {
		return l.shorten(now, snapshot)
	}
	if l.since < 4*int64(len(snapshot)) {
		return nil
	}
	err := l.tryToWrite(snapshot, false)
	l.since = 0
	return err
}

func (l *runLog) shorten(now time.Time, known []byte) error {
	runs, err := l.latest(maxRuns)
	if err != nil {
		return err
	}
	lines := [][]byte{known}
	left := maxLog/2 - len(known)
	for _, run := range runs {
		line := encodeRecords(record{Past: &run})
		left -= len(line)
		if run.StartedAt.Before(now.Add(-maxRunAge)) || left < 0 && len(lines) > 1 {
			break
		}
		lines = append(lines, line)
	}
	slices.Reverse(lines)
	data := slices.Concat(lines...)
	if err := regions.WriteFile(l.path, data, 0o600); err != nil {
		return err
	}
	l.size, l.since = int64(len(data)), 0
	return nil
}

func (l *runLog) each(data []byte, f func(record)) (damaged int, err error) {
	if damaged, err = eachRecord(data, f); err != nil {
		err = fmt.Errorf("cannot understand %q (move the file away to start without a history of runs): %w", l.path, err)
	}
	return damaged, err
}

// latest returns the last n runs of the log, and skipped ticks between them, the latest in the file
// first. It reads no more of the file than it needs.
func (l *runLog) latest(n int) ([]Run, error) {
	file, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the log of runs: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	for length := int64(snapshotEvery); err == nil; length *= 4 {
		var data []byte
		start := max(0, info.Size()-length)
		if data, err = readFrom(file, start); err != nil {
			break
		}
		if start > 0 {
			_, data, _ = bytes.Cut(data, []byte{'\n'})
		}
		var h history
		if _, err := l.each(data, h.add); err != nil {
			return nil, err
		}
		if len(h.runs) > n || start == 0 {
			return h.latest(n), nil
		}
	}
	return nil, fmt.Errorf("cannot read the log of runs: %w", err)
}

// find returns a run of the log. It decodes only the lines that name it.
func (l *runLog) find(id string) (Run, bool, error) {
	data, err := os.ReadFile(l.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Run{}, false, fmt.Errorf("cannot read the log of runs: %w", err)
	}
	var lines []byte
	for line := range bytes.Lines(data) {
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
func (h *history) add(one record) {
	found := []*Run{one.Run, one.Past}
	if one.Known != nil {
		found = append(found, one.Known.Last)
	}
	for _, run := range found {
		if run == nil {
			continue
		}
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
