package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"quotad/regions"
)

// A shared is what a host knows of a job from the others, and has to tell them.
type shared struct {
	runs   []Run  // of any host, in the order in which they began
	seen   string // the name of the last line that was taken in
	holder string // who held the job then
	skips  []Run  // the skipped ticks of each host
	untold string // the id of our last run, while the others may not know how it ended
}

// The parts of what is shared about a job. Only who holds it replaces the first.
const (
	turnPart     = "turn" // with the bookmarks
	pausePart    = "pause"
	skipsPart    = "skips/"    // and the host
	bookmarkPart = "bookmark/" // and the region; an empty one is none
)

// A turn is whose turn it is.
type turn struct {
	Cursor regions.Cursor `json:"cursor"`
	Dry    int            `json:"dry,omitempty"`
}

// sharedRuns is how many runs of other hosts are known at most.
const sharedRuns = 100

// look takes in what the other hosts have told since, and writes nothing. What cannot
// be found out is shown as this host knows it.
func (r *Runner) look(list []*jobControl) {
	var looks sync.WaitGroup
	for _, j := range list {
		looks.Go(func() { _, _ = r.load(context.Background(), j) })
	}
	looks.Wait()
}

// load takes in what the other hosts have told about a job since, and returns what
// they share besides.
func (r *Runner) load(ctx context.Context, j *jobControl) (parts map[string]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, hostsTime)
	defer cancel()
	j.mu.Lock()
	after := j.shared.seen
	j.mu.Unlock()
	parts, holder, lines, last, err := r.config.Hosts.Load(ctx, j.name, after)
	if err != nil {
		return nil, err
	}
	return parts, j.adopt(parts, holder, lines, after, last)
}

// refresh is load for a host that is about to change something: it tells first what
// the others could not be told before, and then what they have forgotten.
func (r *Runner) refresh(ctx context.Context, j *jobControl) error {
	parts, err := r.load(ctx, j)
	if err != nil {
		return err
	}
	j.mu.Lock()
	pause, untold := j.file.Pause, j.shared.untold
	j.mu.Unlock()
	if untold != "" {
		if err := r.tellEnd(ctx, j); err != nil {
			return err
		}
		if parts, err = r.load(ctx, j); err != nil { // they may have gone on without it
			return err
		}
	}
	if _, known := parts[pausePart]; known || pause == nil {
		return nil
	}
	return r.sharePause(ctx, j, pause)
}

// tellEnd tells how the last run of this host went, if the others do not know.
func (r *Runner) tellEnd(ctx context.Context, j *jobControl) error {
	j.mu.Lock()
	run := j.last.copy()
	id, told := j.shared.untold, j.shared.knows(run)
	var passes []Pass
	if run != nil {
		passes = run.Passes
	}
	parts, err := j.turnParts(passes)
	j.mu.Unlock()
	if err != nil || run == nil || run.ID != id || run.State == RunRunning {
		return err
	}
	var lines []string
	if !told {
		lines, err = encodeLines(run.records())
	}
	if err != nil {
		return err
	}
	if _, err := r.append(ctx, j, id, 0, parts, lines); err != nil {
		return err
	}
	j.setTold(id)
	return nil
}

// knows tells whether the others know how a run of ours has ended.
func (s *shared) knows(run *Run) bool {
	if run == nil {
		return true
	}
	known := findRun(s.runs, run.ID)
	return known != nil && known.State == run.State && known.EndedAt.Equal(run.EndedAt) && len(known.Passes) == len(run.Passes)
}

// isUntold tells whether the others may not know the end of the last run of this host.
func (j *jobControl) isUntold() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.shared.untold != ""
}

// setTold notes that the others know the end of a run, or have gone on without.
func (j *jobControl) setTold(id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.shared.untold == id {
		j.shared.untold = ""
	}
}

// append is Hosts.Append within a time.
func (r *Runner) append(ctx context.Context, j *jobControl, holder string, length time.Duration, parts map[string]string, lines []string) (held bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, hostsTime)
	defer cancel()
	return r.config.Hosts.Append(ctx, j.name, holder, length, parts, lines)
}

// tellSkips tells of the ticks that this host skipped. That it fails is no trouble:
// they are in its own log.
func (r *Runner) tellSkips(j *jobControl, skips Run) {
	parts := map[string]string{}
	if encode(parts, skipsPart+r.config.Host, skips) == nil {
		_, _ = r.append(context.Background(), j, "", 0, parts, nil)
	}
}

func (r *Runner) sharePause(ctx context.Context, j *jobControl, p *Pause) error {
	parts := map[string]string{}
	if err := encode(parts, pausePart, p); err != nil {
		return err
	}
	_, err := r.append(ctx, j, "", 0, parts, nil)
	return err
}

// adopt takes in what is shared about the job. What this host is about to tell
// itself, it knows better. The error is about parts that make no sense, which change
// nothing.
func (j *jobControl) adopt(parts map[string]string, holder string, lines []string, after, last string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var trouble []error
	j.shared.holder = holder
	if j.shared.seen == after { // otherwise somebody else has taken the lines in meanwhile
		trouble = append(trouble, j.shared.add(lines))
		j.shared.seen = last
	}
	if j.executor == nil && j.shared.knows(j.last) {
		j.shared.untold = "" // they have heard it, from the process before this one
	}
	return errors.Join(append(trouble, j.adoptPause(parts), j.adoptTurn(parts), j.adoptSkips(parts))...)
}

func (j *jobControl) adoptPause(parts map[string]string) error {
	pause, known, err := decode[*Pause](parts, pausePart)
	if known && err == nil {
		j.file.Pause = pause
	}
	return err
}

func (j *jobControl) adoptTurn(parts map[string]string) error {
	if j.executor != nil || j.shared.untold != "" {
		return nil
	}
	now, known, err := decode[turn](parts, turnPart)
	if known && err == nil {
		j.file.Cursor, j.file.Dry = now.Cursor, now.Dry
	}
	j.adoptBookmarks(parts)
	return err
}

func (j *jobControl) adoptSkips(parts map[string]string) error {
	var list []Run
	var trouble []error
	for name := range parts {
		if !strings.HasPrefix(name, skipsPart) {
			continue
		}
		skips, _, err := decode[*Run](parts, name)
		if skips != nil && err == nil {
			list = append(list, *skips)
		}
		trouble = append(trouble, err)
	}
	if len(list) > 0 {
		j.shared.skips = list
	}
	return errors.Join(trouble...)
}

// add takes in lines about runs.
func (s *shared) add(lines []string) error {
	var trouble []error
	for _, line := range lines {
		var err error
		if s.runs, err = addRecord(s.runs, []byte(line)); err != nil {
			trouble = append(trouble, fmt.Errorf("cannot understand what another host told of a run: %w", err))
		}
	}
	if more := len(s.runs) - sharedRuns; more > 0 {
		s.runs = slices.Delete(s.runs, 0, more)
	}
	return errors.Join(trouble...)
}

// known returns the runs and the skipped ticks that any host told of. A run that is
// said to be under way, but does not hold the job any more, has died with its host.
func (s *shared) known() []Run {
	var list []Run
	for _, run := range slices.Concat(s.runs, s.skips) {
		run = run.clone()
		if run.State == RunRunning && run.ID != s.holder {
			run.interrupt(run.lastSign())
		}
		list = append(list, run)
	}
	return list
}

// turnParts is what the others are to know of whose turn it is, after passes of the last run.
// The caller holds mu.
func (j *jobControl) turnParts(passes []Pass) (map[string]string, error) {
	now := turn{j.file.Cursor, j.file.Dry}
	if j.executor != nil && !j.last.Chosen {
		now = turn{j.cursor(), j.last.dryAfter(j.file.Dry)}
	}
	parts := map[string]string{}
	for _, p := range passes {
		if p.Outcome == OK && j.file.Bookmarks[p.Region] == "" {
			parts[bookmarkPart+string(p.Region)] = ""
		}
	}
	return parts, encode(parts, turnPart, now)
}

// latest returns the last run of any host, of which this one knows its own best,
// and the ticks that were skipped since. The caller holds mu.
func (j *jobControl) latest() (last, skips *Run) {
	last, skips = j.last, j.file.Skips
	for _, run := range j.shared.known() {
		switch {
		case run.State == RunSkipped && (skips == nil || run.ID > skips.ID):
			skips = &run
		case run.State != RunSkipped && j.executor == nil && (last == nil || run.ID > last.ID):
			last = &run
		}
	}
	if last != nil && skips != nil && skips.ID < last.ID {
		skips = nil
	}
	last = last.copy()
	if j.executor != nil {
		j.executor.show(last)
	}
	return last, skips.copy()
}

// encode adds a part.
func encode(parts map[string]string, name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("cannot tell other hosts the %s: %w", name, err)
	}
	parts[name] = string(text)
	return nil
}

// encodeLines writes records as the other hosts are told of them.
func encodeLines(list []record) ([]string, error) {
	lines := make([]string, len(list))
	for i, one := range list {
		text, err := json.Marshal(one.outline())
		if err != nil {
			return nil, fmt.Errorf("cannot tell other hosts of a run: %w", err)
		}
		lines[i] = string(text)
	}
	return lines, nil
}

// decode returns a part, and whether there is one.
func decode[T any](parts map[string]string, name string) (v T, known bool, err error) {
	text, known := parts[name]
	if !known {
		return v, false, nil
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return v, true, fmt.Errorf("cannot understand the %s that another host told: %w", name, err)
	}
	return v, true, nil
}

// adoptBookmarks takes in what other hosts share. The caller holds mu.
func (j *jobControl) adoptBookmarks(parts map[string]string) {
	for name, text := range parts {
		if region, is := strings.CutPrefix(name, bookmarkPart); is && j.file.Bookmarks[regions.Region(region)] != text {
			j.file.setBookmark(regions.Region(region), text)
		}
	}
}

// skip records slots that do not become a run, and tells of them.
func (r *Runner) skip(j *jobControl, reason Reason, slots gap) {
	run, err := j.skip(r.now(), reason, slots)
	r.trouble(j.name, err)
	r.config.Observe(RunChanged{run, j.current().Schedule.Next(r.now())})
	if reason != LedgerUnavailable {
		r.tellSkips(j, run)
	}
}

func (r *Runner) noteMissed(j *jobControl, missed gap) {
	if missed.n > 0 {
		r.skip(j, Missed, missed)
	}
}
