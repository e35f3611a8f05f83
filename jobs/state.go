package jobs

import (
	"bytes"
	"encoding/json"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// A state is what the records of a job's log say together, in their order.
type state struct {
	// Last is the run that began last on this host. Earlier ones are in the log alone.
	Last *Run `json:"last,omitempty"`
	// Cursor and Dry are those before the last run; if Moved, those after it. Dry is how many runs
	// in a row began at the cursor's region and stopped right there, although they had units to
	// spend.
	Cursor regions.Cursor `json:"cursor,omitempty"`
	Dry    int            `json:"dry,omitempty"`
	Moved  bool           `json:"moved,omitempty"`

	Slot time.Time `json:"slot,omitzero"` // that was claimed last
	Good time.Time `json:"good,omitzero"` // when the last good run ended, or the job was resumed
	// GoodSlot is the slot of the last good run on this host.
	GoodSlot time.Time `json:"good_slot,omitzero"`
	Skips    *Run      `json:"skips,omitempty"` // the ticks that were skipped last, for one reason

	Pause *Pause `json:"pause,omitempty"`

	Bad   []Failing `json:"bad,omitempty"`   // the regions that fail
	Short *Shortage `json:"short,omitempty"` // nil: the last run on this host was not short of units

	// Took is the average of a pass in the last run but one that has a pass that ended well.
	Took Made `json:"took,omitempty"`

	Here hostFacts `json:"here,omitzero"`
}

// apply applies a record.
func (s *state) apply(one logRecord) {
	switch {
	case one.Known != nil:
		*s = *one.Known
	case one.Run != nil && one.Run.State == RunSkipped:
		s.Skips = one.Run
		if one.Run.Reason != LedgerUnavailable {
			s.claim(one.Run.LastSlot, one.Run.EndedAt)
		}
	case one.Run != nil:
		s.begin(one.Run)
	case one.ID != "":
		s.applyToLast(one)
	case one.Cursor != nil:
		s.Cursor, s.Dry, s.Moved = *one.Cursor, 0, true
	case one.Pause != nil:
		s.Pause = one.Pause
	case !one.Resumed.IsZero():
		if s.Pause != nil {
			s.Good = one.Resumed // no good run was expected meanwhile
		}
		s.Pause = nil
	}
	if one.Host != nil {
		s.Here = *one.Host
	}
}

// claim records that a slot became a run or was skipped, at a time. One before it that lay too far
// ahead is forgotten: the clock was set back.
func (s *state) claim(slot, at time.Time) {
	s.Slot = quota.Later(notAhead(s.Slot, at), slot)
}

// ahead returns the furthest of what was recorded under a clock that has been set back since; zero
// if it was not.
func (s *state) ahead(now time.Time) (furthest time.Time) {
	for _, t := range []time.Time{s.Slot, s.Good} {
		if notAhead(t, now).IsZero() {
			furthest = quota.Later(furthest, t)
		}
	}
	return furthest
}

// begin applies a run that begins.
func (s *state) begin(r *Run) {
	if s.Last != nil && s.Last.ID == r.ID {
		return
	}
	s.Cursor, s.Dry = s.next()
	s.Took = s.measured()
	s.Last, s.Moved, s.Skips = r, false, nil
	if r.Trigger != Manual {
		s.claim(r.Slot, r.StartedAt)
	}
}

// applyToLast applies a record about the run that began last.
func (s *state) applyToLast(one logRecord) {
	if s.Last == nil || s.Last.ID != one.ID {
		return
	}
	s.Last.apply(one)
	if p := one.Pass; p != nil {
		if p.Outcome == OK || p.Attempt >= s.Last.Retry { // else it is tried again
			s.Bad = s.Last.failing(s.Bad, *p)
		}
	}
	if one.End != nil {
		if s.Last.good() {
			s.Good, s.GoodSlot = s.Last.EndedAt, s.Last.Slot
		}
		if !s.Last.Chosen {
			s.Short = s.Last.shortage(s.Short)
		}
		s.Bad = s.Last.failing(s.Bad, s.Last.Failed()...)
	}
}

// running is the run under way, or nil.
func (s *state) running() *Run {
	if s.Last == nil || s.Last.State != RunRunning {
		return nil
	}
	return s.Last
}

// measured is the average of the calls of the last run's passes that ended well, rounded up. If
// there are none, it is that of an earlier run, or nil.
func (s *state) measured() Made {
	if s.Last == nil {
		return s.Took
	}
	sum, passes := Made{}, quota.Units(0)
	for _, p := range s.Last.Passes {
		if p.Outcome == OK {
			passes++
			for operation, calls := range p.Made {
				sum[operation] += calls
			}
		}
	}
	if passes == 0 {
		return s.Took
	}
	for operation, calls := range sum {
		sum[operation] = (calls + passes - 1) / passes
	}
	return sum
}

// next returns where the next run begins, given how far the last one has come, and how many runs
// have run dry there.
func (s *state) next() (regions.Cursor, int) {
	if s.Last == nil || s.Moved {
		return s.Cursor, s.Dry
	}
	return s.Last.advance(s.Cursor, s.Dry)
}

// apply applies what a record says of the run.
func (r *Run) apply(one logRecord) {
	switch {
	case one.Pass != nil:
		r.put(*one.Pass)
	case one.End != nil:
		one.End.of(r)
	}
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

// skippedSlot is a slot that does not become a run.
func skippedSlot(slot time.Time, reason Reason, detail string) Run {
	return Run{Ticks: 1, Slot: slot, LastSlot: slot, Reason: reason, Detail: detail}
}

// A logRecord is a line of a job's log: one fact about its runs, or what an operator set. It has one
// of the following.
type logRecord struct {
	Version int `json:"v"`

	Run  *Run    `json:"run,omitempty"` // one that begins, or skipped ticks, as they stand now
	ID   string  `json:"id,omitempty"`  // of the run that what follows belongs to
	Pass *Pass   `json:"pass,omitempty"`
	End  *ending `json:"end,omitempty"`

	Cursor  *regions.Cursor `json:"cursor,omitempty"`
	Pause   *Pause          `json:"pause,omitempty"`
	Resumed time.Time       `json:"resumed,omitzero"`

	Known *state     `json:"known,omitempty"` // a snapshot: what the records before this one say
	Host  *hostFacts `json:"host,omitempty"`
}

// HostFacts are what only this host uses.
type hostFacts struct {
	// Schedule is the job's schedule. It is empty while the job is not configured: then it misses
	// nothing. Slots up to Since cannot have been missed: they were of another schedule, or this host
	// could not decide what becomes of them.
	Schedule string    `json:"schedule,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Expected time.Time `json:"expected,omitzero"` // since when good runs are expected
}

// recordVersion is that of the lines. Those of other versions are refused.
const recordVersion = 2

func passRecord(id string, p Pass) logRecord { return logRecord{ID: id, Pass: &p} }

// encodeRecords writes records as lines.
func encodeRecords(list ...logRecord) []byte {
	var lines bytes.Buffer
	for _, one := range list {
		one.Version = recordVersion
		lines.Write(encoded(one))
		lines.WriteByte('\n')
	}
	return lines.Bytes()
}

// encoded returns a value of this package as JSON.
func encoded(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // nothing in it can fail
	}
	return text
}
