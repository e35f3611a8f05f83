package jobs

import (
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"quotad/regions"
)

// A desk is where one job is run from: its definition, its memory, and the walk
// over its regions that is under way, if any.
type desk struct {
	name    string
	store   *regions.Store
	history *history

	mu     sync.Mutex // guards what follows, and everything that memory points to
	job    *Job       // replaced, never changed
	memory memory
	walk   *walk
	died   *Run // that a killed daemon left open, until it has been told of
	shared shared
}

// openDesk returns the desk of a job as the daemon left it, whether it stopped
// or was killed.
func openDesk(dir string, store *regions.Store, job *Job, now time.Time) (*desk, error) {
	d := &desk{name: job.Name, store: store, job: job}
	if _, err := store.Load(d.name, &d.memory); err != nil {
		return nil, err
	}
	var err error
	if d.history, err = openHistory(filepath.Join(dir, d.name+".history")); err != nil {
		return nil, err
	}
	return d, d.closeLast(now)
}

// closeLast ends the run that was under way when the daemon was killed: nothing
// of it runs any more, and no region is running for ever.
func (d *desk) closeLast(now time.Time) error {
	run := d.memory.Last
	if run == nil || run.State != RunRunning {
		return nil
	}
	d.shared.rest = run.ID
	past, err := d.history.read()
	if err != nil {
		return err
	}
	// The history is written before the memory: a run may be over there already.
	if i := slices.IndexFunc(past, func(r Run) bool { return r.ID == run.ID }); i >= 0 {
		d.memory.Last = &past[i]
		return d.keep()
	}
	d.memory.Leftovers = append(d.memory.Leftovers, run.interrupt(now)...)
	d.died = run.copy()
	return d.keep(run)
}

// keep adds runs that are over to the history, and then saves the memory. What
// is nil is left out. The caller holds mu. After an error the daemon still knows
// everything, but a restart would not.
func (d *desk) keep(over ...*Run) error {
	var trouble []error
	for _, run := range over {
		if run != nil {
			trouble = append(trouble, d.history.append(run))
		}
	}
	trouble = append(trouble, d.store.Save(d.name, &d.memory))
	return errors.Join(trouble...)
}

// skip records slots that do not become a run. Those that follow one another for
// the same reason share a record, of which a copy is returned. The caller holds mu.
func (d *desk) skip(now time.Time, reason Reason, slots gap) (Run, error) {
	var over *Run
	skips := d.memory.Skips
	if skips == nil || skips.Reason != reason {
		over = skips
		skips = &Run{ID: NewRunID(now), Job: d.name, Trigger: Scheduled, Slot: slots.first, StartedAt: now, State: RunSkipped, Reason: reason}
		d.memory.Skips = skips
	}
	skips.EndedAt, skips.LastSlot, skips.Detail = now, slots.last, slots.detail
	skips.Ticks += slots.n
	return skips.clone(), d.keep(over)
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

// take notes that the schedule has come to slot, and returns the gap before it.
// It is false for a slot that has been taken already.
func (d *desk) take(slot time.Time) (missed gap, ok bool) {
	after, isNew := d.arrive(slot)
	if !isNew || after.IsZero() {
		return gap{}, isNew
	}
	return gapBetween(d.current().Schedule, after, slot), true
}

// arrive notes that the schedule has come to slot, and returns the one before
// which it had come to, or the zero time if that was another schedule. It is
// false for a slot to which it has come already.
func (d *desk) arrive(slot time.Time) (after time.Time, isNew bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, schedule := &d.memory, d.job.Schedule.String()
	if slot.Equal(m.Slot) {
		return time.Time{}, false
	}
	if m.Schedule == schedule {
		after = m.Slot
	}
	m.Slot, m.Schedule = slot, schedule
	return after, true
}

// isAt tells whether the schedule has not come any further than to slot.
func (d *desk) isAt(slot time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slot.Equal(d.memory.Slot)
}

// overdue returns the latest slot at or before now, if nobody ticked it and it
// is recent enough to be made up for; else the zero time.
func (d *desk) overdue(now time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, schedule := &d.memory, d.job.Schedule
	if m.Slot.IsZero() || m.Schedule != schedule.String() {
		return time.Time{}
	}
	slot := Latest(schedule, now)
	if !slot.After(m.Slot) || now.Sub(slot) > d.job.MissedWithin {
		return time.Time{}
	}
	return slot
}

// define replaces the job's definition. Slots of a new schedule count from now on,
// which is on disk before the first of them comes: if nobody is there then, it was
// missed. The gap is what the schedule before was not ticked for.
func (d *desk) define(job *Job, now time.Time) (missed gap, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	was, m := d.job.Schedule, &d.memory
	d.job = job
	if m.Schedule == job.Schedule.String() {
		return gap{}, nil
	}
	if m.Schedule == was.String() {
		missed = gapBetween(was, m.Slot, now.Add(1))
	}
	m.Slot, m.Schedule = now, job.Schedule.String()
	return missed, d.keep()
}

// underWay returns the desk's walk, or nil.
func (d *desk) underWay() *walk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.walk
}

// current returns the job's definition.
func (d *desk) current() *Job {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.job
}

// paused tells whether the job is paused at now.
func (d *desk) paused(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.memory.Pause.active(now)
}
