package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Files are the two of a job: NAME.json has its state, and is replaced as a whole; NAME.runs has a line for each
// pass and each run that ended. Any number of goroutines may read the second one meanwhile.
type files struct {
	dir, job string

	writing sync.Mutex // held over the disk, and guards what follows
	unkept  []byte     // lines that could not be written
}

const (
	stateEnding, runsEnding = ".json", ".runs"
	asideEnding             = ".unreadable"

	maxRuns = 8 << 20 // bytes of NAME.runs
	// maxUnkept bounds what is kept in memory while the disk is full.
	maxUnkept = 1 << 20
)

func (f *files) path(ending string) string { return filepath.Join(f.dir, f.job+ending) }

// load reads the state. What cannot be understood is set aside under another name, as aside says: the job
// begins without it.
func (f *files) load(s *state) (aside, err error) {
	path := f.path(stateEnding)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the state of the job: %w", err)
	}
	wrong := json.Unmarshal(text, s)
	if wrong == nil && s.Version != stateVersion {
		wrong = fmt.Errorf("it has version %d, this quotad knows %d", s.Version, stateVersion)
	}
	if wrong == nil {
		return nil, nil
	}
	*s = state{}
	wrong = errors.Join(wrong, os.Rename(path, path+asideEnding))
	return fmt.Errorf("cannot understand %s, which is now %s%s: %w: the job begins at its first region, and is not paused",
		path, filepath.Base(path), asideEnding, wrong), nil
}

// replace writes the state, which is on disk on return. The caller holds writing.
func (f *files) replace(text []byte) error {
	if err := replaceFile(f.path(stateEnding), text); err != nil {
		return fmt.Errorf("cannot write the state of the job: %w", err)
	}
	return nil
}

func replaceFile(path string, text []byte) error {
	file, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = file.Write(text); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path)) // a sync of the file does not make its name durable (fsync(2))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// A runsLine of NAME.runs is a pass that ended, of the run of that id, or a run that ended, or skipped slots. Of two with one
// name the later one counts.
type runsLine struct {
	Version int    `json:"v"`
	Of      string `json:"of,omitempty"`
	Pass    *Pass  `json:"pass,omitempty"`
	Run     *Run   `json:"run,omitempty"`
}

// add appends lines. What a full disk has cut short is removed, and comes before what is added next; what a power cut
// has cut short is ended. The caller holds writing.
func (f *files) add(lines []runsLine) error {
	if len(lines) == 0 {
		return nil
	}
	text := f.unkept
	for _, one := range lines {
		one.Version = stateVersion
		encoded, _ := json.Marshal(one) // nothing in it can fail
		text = append(append(text, encoded...), '\n')
	}
	if err := f.write(text); err != nil {
		if len(text) <= maxUnkept {
			f.unkept = text
		}
		return fmt.Errorf("cannot add to the runs of the job: %w", err)
	}
	f.unkept = nil
	return nil
}

func (f *files) write(text []byte) error {
	file, err := os.OpenFile(f.path(runsEnding), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	size, err := file.Seek(0, io.SeekEnd)
	last := []byte{'\n'}
	if err == nil && size > 0 {
		_, err = file.ReadAt(last, size-1)
	}
	if last[0] != '\n' {
		text = append([]byte{'\n'}, text...)
	}
	if err == nil {
		if _, err = file.Write(text); err != nil {
			err = errors.Join(err, file.Truncate(size))
		}
	}
	if err = errors.Join(err, file.Close()); err != nil || size < maxRuns {
		return err
	}
	kept, _, err := f.end(maxRuns * 3 / 4) // without the oldest lines
	if err != nil {
		return err
	}
	return replaceFile(f.path(runsEnding), kept)
}

// latest returns the last n runs that ended, the latest first. It reads no more of the file than it needs.
func (f *files) latest(n int) ([]Run, error) {
	for length := int64(256 << 10); ; length *= 4 {
		text, whole, err := f.end(length)
		if err != nil {
			return nil, err
		}
		runs := slices.DeleteFunc(runsOf(text), func(r Run) bool { return r.State == "" })
		if len(runs) > n || whole {
			slices.Reverse(runs)
			return runs[:min(n, len(runs))], nil
		}
	}
}

// find returns a run with its passes that ended, as far as the file has them: of one that has not ended, its id and the
// passes alone.
func (f *files) find(id string) (Run, error) {
	text, _, err := f.end(2 * maxRuns)
	if err != nil {
		return Run{}, err
	}
	var naming []byte // lines that name it: a skipped slot does, too
	for line := range bytes.Lines(text) {
		if bytes.Contains(line, []byte(id)) {
			naming = append(naming, line...)
		}
	}
	runs := runsOf(naming)
	if i := slices.IndexFunc(runs, func(r Run) bool { return r.ID == id }); i >= 0 {
		return runs[i], nil
	}
	return Run{}, nil
}

// runsOf returns the runs of lines, in the order of their first ones. A line that is damaged, or of another version, is
// left out.
func runsOf(text []byte) (runs []Run) {
	at := map[string]int{}
	run := func(id string) *Run {
		if _, known := at[id]; !known {
			at[id], runs = len(runs), append(runs, Run{ID: id})
		}
		return &runs[at[id]]
	}
	for line := range bytes.Lines(text) {
		var one runsLine
		switch err := json.Unmarshal(line, &one); {
		case err != nil || one.Version != stateVersion:
		case one.Pass != nil:
			run(one.Of).put(*one.Pass)
		case one.Run != nil:
			known := run(one.Run.ID)
			one.Run.Passes = known.Passes
			*known = *one.Run
		}
	}
	return runs
}

// end returns the last whole lines of NAME.runs, of about a length, and whether they are all.
func (f *files) end(length int64) (lines []byte, whole bool, err error) {
	file, err := os.Open(f.path(runsEnding))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true, nil
	}
	start := int64(0)
	if err == nil {
		defer file.Close()
		if size, _ := file.Seek(0, io.SeekEnd); size > length {
			start = size - length
		}
		lines, err = io.ReadAll(io.NewSectionReader(file, start, 2*length))
	}
	if err != nil {
		return nil, false, fmt.Errorf("cannot read the runs of the job: %w", err)
	}
	if start > 0 {
		lines = lines[bytes.IndexByte(lines, '\n')+1:]
	}
	return lines[:bytes.LastIndexByte(lines, '\n')+1], start == 0, nil
}
