package jobs

import (
	"bufio"
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

// A history is the file of a job's runs that are over: one JSON object a line,
// the oldest first, only ever appended to until it is rewritten shorter. One
// goroutine at a time may append; any number may read meanwhile.
type history struct {
	path  string
	lines int // that the file holds, at least
}

const (
	// keptRuns and keptFor bound a job's history: at least so many runs are
	// kept, at most twice as many, and none that are older.
	keptRuns = 500
	keptFor  = 90 * 24 * time.Hour
)

// openHistory returns the history in the file at path, which need not exist. A
// last line that was cut short by a power cut is removed, or the next one would
// be written onto its end.
func openHistory(path string) (*history, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &history{path: path}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read history: %w", err)
	}
	whole := bytes.LastIndexByte(data, '\n') + 1
	if whole < len(data) {
		if err := os.Truncate(path, int64(whole)); err != nil {
			return nil, fmt.Errorf("cannot mend history: %w", err)
		}
	}
	return &history{path: path, lines: bytes.Count(data[:whole], []byte{'\n'})}, nil
}

// append adds a run that is over. On return it is on disk.
func (h *history) append(run *Run) error {
	line, err := json.Marshal(run)
	if err != nil {
		return fmt.Errorf("cannot encode run %s: %w", run.ID, err)
	}
	if err := appendSynced(h.path, append(line, '\n')); err != nil {
		return fmt.Errorf("cannot add to history: %w", err)
	}
	h.lines++
	if h.lines < 2*keptRuns {
		return nil
	}
	return h.shorten(run.EndedAt.Add(-keptFor))
}

func appendSynced(path string, line []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(line)
	return errors.Join(err, f.Sync(), f.Close())
}

// shorten rewrites the file with the latest keptRuns of the runs since a time.
func (h *history) shorten(since time.Time) error {
	runs, err := h.read()
	if err != nil {
		return err
	}
	runs = slices.DeleteFunc(runs, func(r Run) bool { return r.StartedAt.Before(since) })
	runs = runs[max(0, len(runs)-keptRuns):]
	var data bytes.Buffer
	encode := json.NewEncoder(&data)
	for i := range runs {
		if err := encode.Encode(&runs[i]); err != nil {
			return fmt.Errorf("cannot encode run %s: %w", runs[i].ID, err)
		}
	}
	if err := regions.WriteFile(h.path, data.Bytes()); err != nil {
		return err
	}
	h.lines = len(runs)
	return nil
}

// read returns the runs of the file, the oldest first. A line that is no run,
// or is being written, is left out.
func (h *history) read() ([]Run, error) {
	f, err := os.Open(h.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read history: %w", err)
	}
	defer f.Close()
	var runs []Run
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return runs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read history: %w", err)
		}
		var run Run
		if json.Unmarshal(line, &run) == nil {
			runs = append(runs, run)
		}
	}
}
