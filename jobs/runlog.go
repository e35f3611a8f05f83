package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"quotad/regions"
)

// A runLog is the file of what happened to the runs of a job on this host, one record
// a line: a run begun, a pass started, a pass ended, a run ended. It is appended to
// only, until it is rewritten shorter, with one line for each run. One goroutine at a
// time may append; any number may read meanwhile.
type runLog struct {
	path      string
	size      int64
	unwritten []byte // lines that could not be added; they go ahead of the next
}

// A record is a line of the log, and what other hosts are told of a run.
type record struct {
	Version int     `json:"v"`
	Run     *Run    `json:"run,omitempty"`  // as it begins; or a whole run that is over
	ID      string  `json:"id,omitempty"`   // of the run that what follows belongs to
	Pass    *Pass   `json:"pass,omitempty"` // what is known of it from here on
	End     *ending `json:"end,omitempty"`
}

// An ending is what is known of a run once it is over.
type ending struct {
	At      time.Time `json:"at"`
	State   RunState  `json:"state"`
	Reason  Reason    `json:"reason,omitempty"`
	Detail  string    `json:"detail,omitempty"`
	RetryAt time.Time `json:"retry_at,omitzero"`
}

// recordVersion is that of the lines and of the state file. Those of other versions
// are refused.
const recordVersion = 1

func begunRecord(r *Run) record           { return record{Version: recordVersion, Run: r} }
func passRecord(id string, p Pass) record { return record{Version: recordVersion, ID: id, Pass: &p} }
func endedRecord(r *Run) record {
	return record{Version: recordVersion, ID: r.ID, End: &ending{r.EndedAt, r.State, r.Reason, r.Detail, r.RetryAt}}
}

// records returns those from which a run can be put together again.
func (r *Run) records() []record {
	begun := r.clone()
	begun.Passes, begun.EndedAt, begun.State, begun.Reason, begun.Detail, begun.RetryAt = nil, time.Time{}, RunRunning, "", "", time.Time{}
	list := []record{begunRecord(&begun)}
	for _, p := range r.Passes {
		list = append(list, passRecord(r.ID, p))
	}
	if r.State != RunRunning {
		list = append(list, endedRecord(r))
	}
	return list
}

// outline returns the record without what only the run's own host has a use for.
func (c record) outline() record {
	if c.Pass != nil {
		p := *c.Pass
		p.Tail, p.Process = nil, nil
		c.Pass = &p
	}
	return c
}

const (
	// maxLog is the size at which a log is rewritten. Then it keeps keptRuns runs at
	// most, none that began longer than keptFor ago, and no more than half of maxLog.
	maxLog   = 8 << 20
	keptRuns = 500
	keptFor  = 90 * 24 * time.Hour
	// maxUnwritten bounds what is kept in memory while the disk takes nothing.
	maxUnwritten = 1 << 20
)

// openRunLog returns the log in the file at path, which need not exist. A last line
// that was cut short is removed, or the next one would be written onto its end.
func openRunLog(path string) (*runLog, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return &runLog{path: path}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open the log of runs: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot open the log of runs: %w", err)
	}
	size, err := endOfLines(file, info.Size())
	if err == nil && size < info.Size() {
		err = file.Truncate(size)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot mend the log of runs: %w", err)
	}
	return &runLog{path: path, size: size}, nil
}

// endOfLines returns where the last newline of a file ends, looking back from its end.
func endOfLines(file io.ReaderAt, size int64) (int64, error) {
	buffer := make([]byte, 64<<10)
	for end := size; end > 0; {
		start := max(0, end-int64(len(buffer)))
		part := buffer[:end-start]
		if _, err := file.ReadAt(part, start); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			return start + int64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}

// append adds records. If they are to be synced, they are on disk on return, and so
// are all before them.
func (l *runLog) append(sync bool, list ...record) error {
	var lines bytes.Buffer
	encode := json.NewEncoder(&lines)
	for _, one := range list {
		if err := encode.Encode(one); err != nil {
			return fmt.Errorf("cannot encode what became of run %s: %w", one.ID, err)
		}
	}
	if err := l.write(lines.Bytes(), sync); err != nil {
		return fmt.Errorf("cannot add to the log of runs: %w", err)
	}
	return nil
}

// write writes lines in one go, those that could not be written before among them. What
// a full disk has cut short is removed.
func (l *runLog) write(lines []byte, sync bool) error {
	lines = slices.Concat(l.unwritten, lines)
	if err := l.tryToWrite(lines, sync); err != nil {
		if len(lines) <= maxUnwritten {
			l.unwritten = lines
		}
		return err
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
	l.size += int64(len(lines))
	return file.Close()
}

// shorten rewrites the log if it has grown too long. No run is under way.
func (l *runLog) shorten(now time.Time) error {
	if l.size < maxLog {
		return nil
	}
	runs, err := l.read()
	if err != nil {
		return err
	}
	var lines [][]byte
	left := maxLog / 2
	for _, run := range slices.Backward(runs) {
		line, err := json.Marshal(begunRecord(&run))
		if err != nil {
			return fmt.Errorf("cannot encode run %s: %w", run.ID, err)
		}
		left -= len(line) + 1
		if len(lines) == keptRuns || run.StartedAt.Before(now.Add(-keptFor)) || left < 0 && len(lines) > 0 {
			break
		}
		lines = append(lines, append(line, '\n'))
	}
	slices.Reverse(lines)
	data := slices.Concat(lines...)
	if err := regions.WriteFile(l.path, data); err != nil {
		return err
	}
	l.size = int64(len(data))
	return nil
}

// read returns the runs of the log, and the skipped ticks between them, in the order
// in which they began.
func (l *runLog) read() ([]Run, error) {
	data, err := os.ReadFile(l.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read the log of runs: %w", err)
	}
	return l.runsOf(data)
}

// last returns the last run of the log, or nil. It reads no more than it must.
func (l *runLog) last() (*Run, error) {
	if l.size == 0 {
		return nil, nil
	}
	file, err := os.Open(l.path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the log of runs: %w", err)
	}
	defer file.Close()
	for length := int64(64 << 10); ; length *= 8 {
		start := max(0, l.size-length)
		data := make([]byte, l.size-start)
		if _, err := file.ReadAt(data, start); err != nil {
			return nil, fmt.Errorf("cannot read the log of runs: %w", err)
		}
		if start > 0 {
			_, data, _ = bytes.Cut(data, []byte{'\n'})
		}
		runs, err := l.runsOf(data)
		if err != nil {
			return nil, err
		}
		for _, run := range slices.Backward(runs) {
			if run.State != RunSkipped {
				return &run, nil
			}
		}
		if start == 0 {
			return nil, nil
		}
	}
}

// runsOf puts together the runs of whole lines. A last one that is being written is
// left out, and so are records of runs whose beginning is not there.
func (l *runLog) runsOf(data []byte) ([]Run, error) {
	var runs []Run
	for {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		if !whole {
			return runs, nil
		}
		var err error
		if runs, err = addRecord(runs, line); err != nil {
			return nil, fmt.Errorf("cannot understand %q (move the file away to do without what is known of past runs): %w", l.path, err)
		}
		data = rest
	}
}

// addRecord adds what a record tells to the runs that are known.
func addRecord(runs []Run, line []byte) ([]Run, error) {
	var one record
	if json.Unmarshal(line, &one) != nil {
		return runs, nil // damaged: the others are as good without it
	}
	if one.Version != recordVersion {
		return nil, fmt.Errorf("a record has version %d, this quotad knows %d", one.Version, recordVersion)
	}
	id := one.ID
	if one.Run != nil {
		one.Run.judge() // older daemons wrote that it was done
		id = one.Run.ID
	}
	run := findRun(runs, id)
	switch {
	case one.Run != nil && run == nil:
		return append(runs, *one.Run), nil
	case one.Run != nil && one.Run.State != RunRunning:
		*run = *one.Run // a whole one that is told again knows more
	case one.Pass != nil && run != nil:
		run.put(*one.Pass)
	case one.End != nil && run != nil:
		run.EndedAt, run.State, run.Reason, run.Detail, run.RetryAt = one.End.At, one.End.State, one.End.Reason, one.End.Detail, one.End.RetryAt
		run.judge()
	}
	return runs, nil
}

// findRun returns the run of that id, or nil. The latest are looked at first.
func findRun(runs []Run, id string) *Run {
	for i := len(runs) - 1; i >= 0; i-- {
		if runs[i].ID == id {
			return &runs[i]
		}
	}
	return nil
}
