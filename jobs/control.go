package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"quotad/regions"
)

// A stateFile is what the daemon keeps of a job over restarts besides the log of its
// runs. It is as it was after the run that it names: what the log knows of a later
// one is added to it at the next start.
type stateFile struct {
	Version int            `json:"v"`
	Run     string         `json:"run,omitempty"`
	Cursor  regions.Cursor `json:"cursor"`
	// Slot is the last one that was ticked, and Schedule what the job's schedule
	// was then: slots of another schedule cannot have been missed.
	Slot     time.Time `json:"slot,omitzero"`
	Schedule string    `json:"schedule,omitempty"` // empty while the job is not configured: it misses nothing
	Good     time.Time `json:"good,omitzero"`      // when the last good run ended, or the job was first seen or resumed
	Pause    *Pause    `json:"pause,omitempty"`
	Skips    *Run      `json:"skips,omitempty"` // the ticks skipped since the last run began, or since the last other skip

	// Dry is how many runs in a row began at the cursor's region and stopped
	// right there, although it had units to spend.
	Dry int `json:"dry,omitempty"`

	// Bookmarks are what passes left for the next ones of their regions.
	Bookmarks map[regions.Region]string `json:"bookmarks,omitempty"`

	// Leftovers are the processes of a daemon that was killed, until they are
	// ended for certain.
	Leftovers []Identity `json:"leftovers,omitempty"`
}

// settle takes in how a run has ended.
func (s *stateFile) settle(r *Run) {
	if !r.Chosen {
		s.Cursor, s.Dry = r.Ring.Advance(r.hadTurn), r.dryAfter(s.Dry)
	}
	if r.Trigger != Manual && r.Slot.After(s.Slot) {
		s.Slot = r.Slot
	}
	if r.good() {
		s.Good = latest(s.Good, r.EndedAt)
	}
	if s.Skips != nil && s.Skips.ID < r.ID {
		s.Skips = nil // they are in the log, before the run
	}
	s.dropBookmarks(r.Passes)
	s.Run = r.ID
}

// A jobControl is what is known of one job: its definition, the run under way, and
// what is kept on disk.
type jobControl struct {
	name  string
	store *regions.Store
	log   *runLog

	// writing is held while something is changed and written, so that the files
	// tell of changes in their order. It is taken before mu.
	writing sync.Mutex

	mu       sync.Mutex // guards what follows and all that it points to; nothing is waited for under it
	job      *Job       // replaced, never changed
	file     stateFile
	last     *Run      // the last run of this host, under way or over
	executor *executor // of the run under way, or nil
	died     *Run      // that a killed daemon left open, until it has been reported
	unsaved  error     // why what became of that one could not be written, until it has been reported
	shared   shared
}

// openJob returns the state of a job as the daemon left it, whether it stopped or
// was killed.
func openJob(dir string, store *regions.Store, job *Job, now time.Time) (*jobControl, error) {
	j := &jobControl{name: job.Name, store: store, job: job}
	found, err := store.Load(j.name, &j.file)
	if err != nil {
		return nil, err
	}
	if found && j.file.Version != recordVersion {
		return nil, fmt.Errorf("state in %q has version %d, this quotad knows %d (move the file away to start afresh, at the beginning of the ring)",
			store.Path(j.name), j.file.Version, recordVersion)
	}
	if j.log, err = openRunLog(filepath.Join(dir, j.name+".runs")); err != nil {
		return nil, err
	}
	if j.last, err = j.log.last(); err != nil {
		return nil, err
	}
	j.unsaved = j.recover(now)
	return j, nil
}

// recover takes in the run that the state file does not know yet. If the daemon was
// killed during it, nothing of it runs any more, and no region is running for ever. After
// an error, on a full disk for one, all of that is known, and recovered by the next start again.
func (j *jobControl) recover(now time.Time) error {
	run := j.last
	if run == nil {
		return nil
	}
	j.shared.untold = run.ID // until it is known that the other hosts know its end
	var err error
	if run.State == RunRunning {
		j.file.Leftovers = append(j.file.Leftovers, run.interrupt(now)...)
		copied := run.clone()
		j.died = &copied
		err = j.log.append(true, run.records()[1:]...)
	}
	if run.ID == j.file.Run {
		return err
	}
	j.file.settle(run)
	return errors.Join(err, j.save(j.file))
}

// save replaces the state file. The caller holds writing. After an error the daemon
// still knows everything, but a restart would not.
func (j *jobControl) save(f stateFile) error {
	f.Version = recordVersion
	return j.store.Save(j.name, f)
}

// change changes the state file.
func (j *jobControl) change(how func(*stateFile)) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.mu.Lock()
	how(&j.file)
	file := j.file.clone()
	j.mu.Unlock()
	return j.save(file)
}

// clone returns a copy that shares nothing that may still change.
func (s *stateFile) clone() stateFile {
	c := *s
	c.Skips = s.Skips.copy()
	return c
}

// skip records slots that do not become a run. Those that follow one another for
// the same reason share a record, of which a copy is returned.
func (j *jobControl) skip(now time.Time, reason Reason, slots gap) (Run, error) {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.mu.Lock()
	var over *Run
	skips := j.file.Skips
	if skips == nil || skips.Reason != reason {
		over = skips
		skips = &Run{ID: NewRunID(now), Job: j.name, Trigger: Scheduled, Slot: slots.first, StartedAt: now, State: RunSkipped, Reason: reason}
		j.file.Skips = skips
	}
	skips.EndedAt, skips.LastSlot, skips.Detail = now, slots.last, slots.detail
	skips.Ticks += slots.n
	run, file := skips.clone(), j.file.clone()
	j.mu.Unlock()
	var err error
	if over != nil {
		err = j.log.append(false, begunRecord(over)) // the state file, which is synced, knew it until now
	}
	return run, errors.Join(err, j.save(file))
}

// define replaces the job's definition. Slots of a new schedule count from now on,
// which is on disk before the first of them comes: if nobody is there then, it was
// missed. The gap is what the schedule before was not ticked for.
func (j *jobControl) define(job *Job, now time.Time) (missed gap, err error) {
	j.mu.Lock()
	was, schedule := j.job.Schedule, job.Schedule.String()
	j.job = job
	before, slot, good := j.file.Schedule, j.file.Slot, j.file.Good
	j.mu.Unlock()
	if before == schedule && (!good.IsZero() || job.ExpectSuccess == 0) {
		return gap{}, nil
	}
	if before != schedule && before == was.String() {
		missed = gapBetween(was, slot, now.Add(1))
	}
	return missed, j.change(func(f *stateFile) {
		if before == "" || good.IsZero() { // it is new, or was put back
			f.Good = now
		}
		if before != schedule {
			f.Slot, f.Schedule = now, schedule
		}
	})
}

// arrive notes that the schedule has come to slot, and returns the one before
// which it had come to, or the zero time if that was another schedule. It is
// false for a slot to which it has come already.
func (j *jobControl) arrive(slot time.Time) (after time.Time, isNew bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f, schedule := &j.file, j.job.Schedule.String()
	if slot.Equal(f.Slot) {
		return time.Time{}, false
	}
	if f.Schedule == schedule {
		after = f.Slot
	}
	f.Slot, f.Schedule = slot, schedule
	return after, true
}

// slot is the last one to which the schedule has come.
func (j *jobControl) slot() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file.Slot
}

// isAt tells whether the schedule has not come any further than to slot.
func (j *jobControl) isAt(slot time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slot.Equal(j.file.Slot)
}

// overdue returns the latest slot at or before now, if nobody ticked it and it
// is recent enough to be made up for; else the zero time.
func (j *jobControl) overdue(now time.Time) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	f, schedule := &j.file, j.job.Schedule
	if f.Slot.IsZero() || f.Schedule != schedule.String() {
		return time.Time{}
	}
	slot := Latest(schedule, now)
	if !slot.After(f.Slot) || now.Sub(slot) > j.job.MissedWithin {
		return time.Time{}
	}
	return slot
}

// underWay returns the executor of the run under way, or nil.
func (j *jobControl) underWay() *executor {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.executor
}

// current returns the job's definition.
func (j *jobControl) current() *Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.job
}

// cursor is where the next run begins, as far as the run under way has come. The
// caller holds mu.
func (j *jobControl) cursor() regions.Cursor {
	if j.executor != nil && !j.last.Chosen {
		return j.last.Ring.Advance(j.last.hadTurn)
	}
	return j.file.Cursor
}

// paused tells whether the job is paused at now.
func (j *jobControl) paused(now time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file.Pause.active(now)
}

// A gap is one slot or more that did not become a run.
type gap struct {
	n           int
	first, last time.Time
	detail      string // for people: why
}

// maxCounted bounds how many missed slots are counted one by one.
const maxCounted = 100_000

// gapBetween returns the slots between two instants, neither included.
func gapBetween(s Schedule, after, before time.Time) gap {
	until := before.Add(-1)
	n, first := CountSlots(s, after, until, maxCounted)
	if n == 0 {
		return gap{}
	}
	return gap{n: n, first: first, last: Latest(s, until)}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (j *jobControl) bookmark(region regions.Region) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file.Bookmarks[region]
}

// setBookmark replaces the map: a copy of the state may be on its way to the disk.
func (s *stateFile) setBookmark(region regions.Region, text string) {
	s.Bookmarks = maps.Clone(s.Bookmarks)
	if text == "" {
		delete(s.Bookmarks, region)
		return
	}
	if s.Bookmarks == nil {
		s.Bookmarks = map[regions.Region]string{}
	}
	s.Bookmarks[region] = text
}

// dropBookmarks takes away those of regions whose pass ended well: what they mark is
// done.
func (s *stateFile) dropBookmarks(passes []Pass) {
	for _, p := range passes {
		if p.Outcome == OK && s.Bookmarks[p.Region] != "" {
			s.setBookmark(p.Region, "")
		}
	}
}

// endLeftovers ends the processes that a killed daemon left running.
func (j *jobControl) endLeftovers(ctx context.Context, end func(context.Context, Identity, time.Duration) (bool, error)) error {
	j.mu.Lock()
	left, grace := j.file.Leftovers, j.job.KillGrace
	j.mu.Unlock()
	if len(left) == 0 {
		return nil
	}
	var trouble []error
	var alive []Identity // for the next start to end
	for _, id := range left {
		if _, err := end(ctx, id, grace); err != nil {
			trouble = append(trouble, fmt.Errorf("a daemon that was killed left a process: %w", err))
			alive = append(alive, id)
		}
	}
	err := j.change(func(f *stateFile) { f.Leftovers = alive })
	return errors.Join(append(trouble, err)...)
}
