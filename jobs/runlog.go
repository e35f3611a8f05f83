package jobs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"quotad/regions"
)

// A runLog is the file of a job's log on this host, one record a line. Records are appended, until
// the file is rewritten shorter: the runs that are kept, each on a line, and a snapshot. One
// goroutine at a time may append; any number may read meanwhile.
type runLog struct {
	path      string
	size      int64
	since     int64  // bytes that follow the last snapshot
	unwritten []byte // lines that could not be appended; they precede the next
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
// for recall.
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
	for length, known := int64(2*snapshotEvery), -1; err == nil && known < 0; length *= 8 {
		start := max(0, info.Size()-length)
		data := make([]byte, info.Size()-start)
		_, err = file.ReadAt(data, start)
		data = data[:bytes.LastIndexByte(data, '\n')+1]
		l.size = start + int64(len(data))
		known = bytes.LastIndex(data, snapshotPrefix)
		l.since = int64(len(data) - max(0, known))
		if l.recent = data; start == 0 {
			break
		}
		_, l.recent, _ = bytes.Cut(data, []byte{'\n'})
	}
	if err == nil && l.size < info.Size() {
		err = file.Truncate(l.size)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot mend the log of runs: %w", err)
	}
	return l, nil
}

// recall calls f once with the records of the log from the last snapshot on, and some before it.
func (l *runLog) recall(f func(record)) (damaged int, err error) {
	data := l.recent
	l.recent = nil
	return l.each(data, f)
}

// append appends records. If they are to be synced, they are on disk on return, and so
// are all before them.
func (l *runLog) append(sync bool, list ...record) error {
	lines, err := encodeRecords(list)
	return errors.Join(err, l.write(lines, sync))
}

// write appends lines at once, after those that could not be written before. What a full disk
// has cut short is removed.
func (l *runLog) write(lines []byte, sync bool) error {
	lines = slices.Concat(l.unwritten, lines)
	if len(lines) == 0 {
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

// isLong returns whether keep may have something to do.
func (l *runLog) isLong() bool { return l.size >= maxLog || l.since >= snapshotEvery }

// keep appends a snapshot, in lines, if many others follow the last one, and rewrites the log if it
// has grown too long. No run is under way.
func (l *runLog) keep(now time.Time, known []byte) error {
	if l.size >= maxLog {
		return l.shorten(now, known)
	}
	if l.since < max(snapshotEvery, 4*int64(len(known))) {
		return nil
	}
	err := l.write(known, false)
	l.since = 0
	return err
}

func (l *runLog) shorten(now time.Time, known []byte) error {
	runs, err := l.read()
	if err != nil {
		return err
	}
	lines := [][]byte{known}
	left := maxLog/2 - len(known)
	for _, run := range slices.Backward(runs) {
		line, err := encodeRecords([]record{{Past: &run}})
		if err != nil {
			return err
		}
		left -= len(line)
		if len(lines) > maxRuns || run.StartedAt.Before(now.Add(-maxRunAge)) || left < 0 && len(lines) > 1 {
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

// read returns the runs of the log, and the skipped ticks between them, in the order
// in which they began.
func (l *runLog) read() ([]Run, error) {
	data, err := os.ReadFile(l.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read the log of runs: %w", err)
	}
	var runs []*Run
	at := map[string]*Run{}
	_, err = l.each(data, func(one record) { runs = addRecord(runs, at, one) })
	list := make([]Run, len(runs))
	for i, run := range runs {
		list[i] = *run
	}
	return list, err
}

// addRecord adds what a record says to the runs that are known.
func addRecord(runs []*Run, at map[string]*Run, one record) []*Run {
	found := []*Run{one.Run, one.Past}
	if one.Known != nil {
		found = append(found, one.Known.Last)
	}
	for _, run := range found {
		if run == nil {
			continue
		}
		known := at[run.ID]
		switch {
		case known == nil:
			runs = append(runs, run)
			at[run.ID] = run
		case run.State == RunSkipped || run.State != RunRunning && known.State == RunRunning || len(run.Passes) > len(known.Passes):
			*known = *run // it is complete
		}
	}
	if run := at[one.ID]; run != nil {
		run.apply(one)
	}
	return runs
}

// apply applies what a record says of the run.
func (r *Run) apply(one record) {
	switch {
	case one.Pass != nil:
		r.put(*one.Pass)
	case one.End != nil:
		one.End.of(r)
	}
}
