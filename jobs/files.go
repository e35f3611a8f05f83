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
	"time"
)

// Files are the two of a job: NAME.json has its state, and is replaced as a whole; NAME.runs has a line for each
// pass and each run that ended. Any number of goroutines may read the second one meanwhile.
type files struct {
	dir, job string

	writing sync.Mutex // held over the disk, and guards what follows
	size    int64      // of NAME.runs
	trimAt  int64      // from which size on it is looked through for what is too old
	unkept  []byte     // lines that could not be written
}

const (
	stateEnding, runsEnding = ".json", ".runs"
	asideEnding             = ".unreadable"

	maxRuns   = 8 << 20            // bytes of NAME.runs
	keepRuns  = 1000               // runs that are kept, however old they are
	keepFor   = 7 * 24 * time.Hour // and for how long all are
	firstTrim = 1 << 20
	// maxUnwritten bounds what is kept in memory while the disk is full.
	maxUnwritten = 1 << 20
)

func (f *files) path(ending string) string { return filepath.Join(f.dir, f.job+ending) }

// load reads the state. What cannot be understood is set aside under another name, and said in aside: the job
// begins without it. A last line of NAME.runs that was cut short is ended: it is left out.
func (f *files) load(s *state) (aside, err error) {
	text, err := os.ReadFile(f.path(stateEnding))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read the state of the job: %w", err)
	}
	if err == nil {
		wrong := json.Unmarshal(text, s)
		if wrong == nil && s.Version != stateVersion {
			wrong = fmt.Errorf("it has version %d, this quotad knows %d", s.Version, stateVersion)
		}
		if wrong != nil {
			*s = state{}
			aside = f.setAside(stateEnding, wrong, "the job begins at its first region, and is not paused")
		}
	}
	file, err := os.OpenFile(f.path(runsEnding), os.O_RDWR|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return aside, nil
	}
	begin, last := make([]byte, len(linePrefix)), []byte{'\n'}
	if err == nil {
		defer file.Close()
		f.size, err = file.Seek(0, io.SeekEnd)
	}
	if err == nil && f.size > 0 {
		f.trimAt = max(firstTrim, f.size)
		_, _ = file.ReadAt(begin, 0)
		if _, err = file.ReadAt(last, f.size-1); !bytes.Equal(begin, linePrefix) {
			f.size = 0
			return errors.Join(aside, f.setAside(runsEnding, errors.New("another version of quotad wrote it"), "its earlier runs are not shown")), nil
		}
	}
	if err == nil && last[0] != '\n' {
		_, err = file.Write([]byte{'\n'})
		f.size++
	}
	if err != nil {
		return aside, fmt.Errorf("cannot read the runs of the job: %w", err)
	}
	return aside, nil
}

func (f *files) setAside(ending string, why error, what string) error {
	path := f.path(ending)
	if err := os.Rename(path, path+asideEnding); err != nil {
		why = errors.Join(why, err)
	}
	return fmt.Errorf("cannot understand %s, which is now %s%s: %w: %s", path, filepath.Base(path), asideEnding, why, what)
}

// replace writes the state. With sync it is on disk on return. The caller holds writing.
func (f *files) replace(text []byte, sync bool) error {
	if err := replaceFile(f.path(stateEnding), text, sync); err != nil {
		return fmt.Errorf("cannot write the state of the job: %w", err)
	}
	return nil
}

func replaceFile(path string, text []byte, sync bool) error {
	file, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil && sync {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil || !sync {
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

var linePrefix = fmt.Appendf(nil, `{"v":%d,`, stateVersion)

// add appends a line. What a full disk has cut short is removed, and comes before what is added next. The caller holds
// writing.
func (f *files) add(one runsLine) error {
	one.Version = stateVersion
	text := append(append(f.unkept, encoded(one)...), '\n')
	file, err := os.OpenFile(f.path(runsEnding), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		if _, err = file.Write(text); err != nil {
			err = errors.Join(err, file.Truncate(f.size))
		}
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		if len(text) <= maxUnwritten {
			f.unkept = text
		}
		return fmt.Errorf("cannot add to the runs of the job: %w", err)
	}
	f.unkept, f.size = nil, f.size+int64(len(text))
	return nil
}

// encoded returns a value of this package as JSON.
func encoded(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // nothing in it can fail
	}
	return text
}

// trim removes the oldest runs from NAME.runs, if it is long. The caller holds writing.
func (f *files) trim(now time.Time) error {
	if f.size < max(f.trimAt, firstTrim) {
		return nil
	}
	text, err := os.ReadFile(f.path(runsEnding))
	if err == nil {
		if kept := text[tooOld(text, now):]; len(kept) < len(text) {
			err = replaceFile(f.path(runsEnding), kept, false)
			f.size = int64(len(kept))
		}
	}
	if err != nil {
		return fmt.Errorf("cannot shorten the runs of the job: %w", err)
	}
	f.trimAt = min(maxRuns, f.size+f.size/4+firstTrim)
	return nil
}

// tooOld returns where what is kept of lines begins: all of the last runs, and those that are not old, but no more than
// three quarters of what fits.
func tooOld(text []byte, now time.Time) (from int) {
	var ends []int // of the runs
	var at []time.Time
	offset := 0
	for one := range bytes.Lines(text) {
		offset += len(one)
		if run := decoded(one).Run; run != nil {
			ends, at = append(ends, offset), append(at, run.StartedAt)
		}
	}
	for i, end := range ends {
		if fits := len(text)-from <= maxRuns*3/4; fits && (len(ends)-i <= keepRuns || now.Sub(at[i]) <= keepFor) {
			break
		}
		from = end
	}
	if rest := len(text) - from; rest > maxRuns { // of one run that is under way
		from += bytes.IndexByte(text[from+rest-maxRuns*3/4:], '\n') + 1 + rest - maxRuns*3/4
	}
	return from
}

// decoded returns what a line says; one that is damaged says nothing.
func decoded(text []byte) (one runsLine) {
	if err := json.Unmarshal(text, &one); err != nil || one.Version != stateVersion {
		return runsLine{}
	}
	return one
}

// latest returns the last n runs that ended, the latest first. It reads no more of the file than it needs.
func (f *files) latest(n int) ([]Run, error) {
	for length := int64(256 << 10); ; length *= 4 {
		text, whole, err := f.end(length)
		if err != nil {
			return nil, err
		}
		runs, _ := runsOf(text)
		if len(runs) > n || whole {
			slices.Reverse(runs)
			return runs[:min(n, len(runs))], nil
		}
	}
}

// find returns a run and its passes that ended, as far as the file has them: of one that has not ended, the passes alone.
func (f *files) find(id string) (run Run, passes []Pass, err error) {
	text, _, err := f.end(2 * maxRuns)
	if err != nil {
		return run, nil, err
	}
	var lines []byte
	for one := range bytes.Lines(text) {
		if bytes.Contains(one, []byte(id)) {
			lines = append(lines, one...)
		}
	}
	runs, passesOf := runsOf(lines) // others' too: the line of a slot that was skipped names the run in its way
	if i := slices.IndexFunc(runs, func(r Run) bool { return r.ID == id }); i >= 0 {
		run = runs[i]
	}
	if of := passesOf[id]; of != nil {
		passes = of.Passes
	}
	return run, passes, nil
}

// runsOf returns the runs of lines, in the order in which they ended, and the passes of each run by its id.
func runsOf(text []byte) (runs []Run, passes map[string]*Run) {
	passes, at := map[string]*Run{}, map[string]int{}
	for one := range bytes.Lines(text) {
		got := decoded(one)
		switch {
		case got.Pass != nil:
			if passes[got.Of] == nil {
				passes[got.Of] = &Run{}
			}
			passes[got.Of].put(*got.Pass)
		case got.Run != nil:
			if _, known := at[got.Run.ID]; !known {
				at[got.Run.ID], runs = len(runs), append(runs, Run{})
			}
			runs[at[got.Run.ID]] = *got.Run
		}
	}
	for i := range runs {
		if of := passes[runs[i].ID]; of != nil {
			runs[i].Passes = of.Passes
		}
	}
	return runs, passes
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
