package jobs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// A jobControl is what is known of one job: its definition, the run under way, and
// the state that its log holds.
type jobControl struct {
	name  string
	log   *runLog
	hosts *hostsLog // nil: no other host runs the job

	// writing is held while a change is made and written, so that the file has changes in their
	// order. It is locked before mu.
	writing sync.Mutex

	mu        sync.Mutex // guards what follows and all that it points to; nothing is waited for under it
	job       *Job       // replaced, never changed
	state     logState
	here      hostFacts
	executor  *executor // of the run under way, or nil
	died      *Run      // that a killed daemon left open, until it has been reported
	unsaved   error     // why its end could not be written, until that has been reported
	question  question
	inquiring bool // this host is finding out whether the host of the last run is alive
}

// openJob returns the state of a job as the daemon left it, whether it stopped or
// was killed.
func openJob(c *Config, job *Job) (*jobControl, error) {
	j := &jobControl{name: job.Name, job: job}
	if c.Store != nil {
		j.hosts = newHostsLog(c.Store, job.Name)
	}
	var err error
	if j.log, err = openRunLog(filepath.Join(c.Dir, j.name+".runs")); err != nil {
		return nil, err
	}
	var own *Run // the last run of this host
	damaged, err := j.log.recall(func(one record) { own = j.recall(one, own) })
	if err != nil {
		return nil, err
	}
	if damaged > 0 {
		err = fmt.Errorf("%s of %q cannot be read and is left out: check the job's pause and cursor", quota.Count(damaged, "line", "lines"), j.log.path)
	}
	if j.here.Name != c.Host {
		err = errors.Join(err, j.setHere(func(h *hostFacts) { h.Name = c.Host }))
	}
	j.unsaved = errors.Join(err, j.recover(own, c.Now().UTC()))
	return j, nil
}

// recall applies a record that the daemon before this one has written, and returns the last run of
// this host.
func (j *jobControl) recall(one record, own *Run) *Run {
	if h := j.hosts; h != nil && !one.Read.IsZero() {
		h.at, h.fresh, h.snapshot = one.Read, false, one.Read.ID
	}
	j.apply([]record{one}, own, quota.ID{})
	if last := j.state.Last; last != nil && last.Host == j.here.Name && (own == nil || own.ID <= last.ID) {
		return last
	}
	return own
}

// recover ends the run during which the daemon was killed, if any: nothing of it runs any more,
// and no region stays running. After an error, such as a full disk, the next start recovers it
// again. The other hosts are sent the last run in any case: they may not know its end.
func (j *jobControl) recover(own *Run, now time.Time) (err error) {
	if own == nil {
		return nil
	}
	if own.State == RunRunning {
		for _, p := range own.Passes {
			if p.Outcome == Running && p.Process != nil {
				j.here.Leftovers = append(j.here.Leftovers, *p.Process)
			}
		}
		list := []record{{Host: &j.here}, diedRecord(own.ID, now)}
		j.apply(list, own, quota.ID{})
		j.died = own.copy()
		err = j.log.append(true, list...)
	}
	if j.hosts != nil && own == j.state.Last {
		j.hosts.pending = []record{{Run: own.copy()}}
	}
	return err
}

// apply applies records to what is known. Own is a run of this host: another host may have taken the
// job from it. The caller holds mu.
func (j *jobControl) apply(list []record, own *Run, at quota.ID) {
	for _, one := range list {
		if own != nil && own.ID == one.ID && own != j.state.Last {
			own.apply(one)
		}
		j.state.apply(one, at)
		if one.Host != nil {
			j.here = *one.Host
		}
	}
}

// own is the run under way on this host, or nil. The caller holds mu.
func (j *jobControl) own() *Run {
	if j.executor == nil {
		return nil
	}
	return j.executor.run
}

// commit applies and writes the records of a decision; then, which may be nil, is called with mu
// held as soon as they count. Shared records are sent to the other hosts soon. The first error is
// why they could not be written.
func (j *jobControl) commit(sync, shared bool, how decision, then func()) (writeErr, err error) {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.mu.Lock()
	list, err := how()
	if err != nil {
		j.mu.Unlock()
		return nil, err
	}
	j.apply(list, j.own(), quota.ID{})
	if then != nil {
		then()
	}
	if shared && j.hosts != nil && len(list) > 0 {
		j.hosts.pending = append(j.hosts.pending, list...)
		select {
		case j.hosts.news <- struct{}{}: // publish sends them
		default:
		}
	}
	lines, writeErr := encodeRecords(list) // they point to what may change
	j.mu.Unlock()
	return errors.Join(writeErr, j.log.write(lines, sync)), nil
}

// update commits what has happened on this host; found returns it, with mu held.
func (j *jobControl) update(sync, shared bool, found func() []record) error {
	err, _ := j.commit(sync, shared, func() ([]record, error) { return found(), nil }, nil)
	return err
}

// keepLog keeps the log on this host short and quickly read.
func (j *jobControl) keepLog(now time.Time) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	if !j.log.isLong() {
		return nil
	}
	j.mu.Lock()
	known := []record{{Known: &j.state}, {Host: &j.here}}
	if j.hosts != nil && !j.hosts.at.IsZero() {
		known = append(known, record{Read: j.hosts.at})
	}
	lines, err := encodeRecords(known)
	j.mu.Unlock()
	return errors.Join(err, j.log.keep(now, lines))
}

// setHere changes the facts of this host.
func (j *jobControl) setHere(how func(*hostFacts)) error {
	return j.update(true, false, func() []record {
		here := j.here
		how(&here)
		return []record{{Host: &here}}
	})
}

// define replaces the job's definition. Slots of a new schedule count from now on, and that is on
// disk before the first of them: if no daemon runs then, it was missed. Missed has the slots for
// which the schedule before was not ticked.
func (j *jobControl) define(job *Job, now time.Time) (missed Run, err error) {
	j.mu.Lock()
	was, schedule := j.job.Schedule, job.Schedule.String()
	j.job = job
	here, slot := j.here, j.slot()
	j.mu.Unlock()
	if here.Schedule == schedule && (!here.Expected.IsZero() || job.ExpectSuccess == 0) {
		return Run{}, nil
	}
	if here.Schedule != schedule && here.Schedule == was.String() {
		missed = gapBetween(was, slot, now.Add(1))
	}
	return missed, j.setHere(func(h *hostFacts) {
		if here.Schedule == "" || here.Expected.IsZero() { // it is new, or was put back
			h.Expected = now
		}
		if here.Schedule != schedule {
			h.Since, h.Schedule = now, schedule
		}
	})
}

// retire records that the job is not configured any more: it misses nothing.
func (j *jobControl) retire() error {
	return j.update(true, false, func() []record {
		here := j.here
		if here.Schedule == "" {
			return nil
		}
		here.Schedule = ""
		return []record{{Host: &here}}
	})
}

// slot is the last one whose fate this host knows. The caller holds mu.
func (j *jobControl) slot() time.Time {
	slot := latest(j.state.Slot, j.here.Since)
	if s := j.state.Skips; s != nil {
		slot = latest(slot, s.LastSlot)
	}
	return slot
}

// maxCatchUp is how old a missed slot may be at most, to be made up for.
const maxCatchUp = 24 * time.Hour

// mayMakeUp returns whether a slot is the latest one, and recent enough to be made up for.
func (j *Job) mayMakeUp(slot, now time.Time) bool {
	return j.CatchUp && !Latest(j.Schedule, now).After(slot) && now.Sub(slot) <= maxCatchUp
}

// overdue returns the latest slot at or before now if it was not ticked and is recent enough to be
// made up for; else the zero time.
func (j *jobControl) overdue(now time.Time) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	slot := Latest(j.job.Schedule, now)
	if slot.After(j.slot()) && j.job.mayMakeUp(slot, now) {
		return slot
	}
	return time.Time{}
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

// cursor is where the next run begins, given the run under way. The caller holds mu.
func (j *jobControl) cursor() regions.Cursor {
	cursor, _ := j.state.next()
	return cursor
}

// maxCounted bounds how many missed slots are counted one by one.
const maxCounted = 100_000

// gapBetween returns the slots between two instants, neither included.
func gapBetween(s Schedule, after, before time.Time) Run {
	until := before.Add(-1)
	n, first := CountSlots(s, after, until, maxCounted)
	if n == 0 {
		return Run{}
	}
	return Run{Ticks: n, Slot: first, LastSlot: Latest(s, until), Reason: Missed}
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
	return j.state.Bookmarks[region].Text
}

// endLeftovers ends the processes that a killed daemon left running.
func (j *jobControl) endLeftovers(ctx context.Context, end func(context.Context, Identity, time.Duration) (bool, error)) error {
	j.mu.Lock()
	left, grace := j.here.Leftovers, j.job.KillGrace
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
	err := j.setHere(func(h *hostFacts) { h.Leftovers = alive })
	return errors.Join(append(trouble, err)...)
}
