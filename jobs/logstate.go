package jobs

import (
	"maps"
	"slices"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// A logState is what the records of a job's log say together. Every host that reads the same
// records has the same state.
type logState struct {
	// Last is the run that began last, on any host. While it is not over, it holds the job. Other
	// runs are in the log alone.
	Last  *Run   `json:"last,omitempty"`
	Terms *terms `json:"terms,omitempty"`
	// Cursor and Dry are those before the last run; if Moved, those after it. Dry is how many runs
	// in a row began at the cursor's region and stopped right there, although they had units to
	// spend.
	Cursor regions.Cursor `json:"cursor,omitempty"`
	Dry    int            `json:"dry,omitempty"`
	Moved  bool           `json:"moved,omitempty"`

	Slot  time.Time `json:"slot,omitzero"`   // the newest that was claimed
	Good  time.Time `json:"good,omitzero"`   // when the last good run ended, or the job was resumed
	Skips *Run      `json:"skips,omitempty"` // the ticks that were skipped last, for one reason

	Pause     *Pause                      `json:"pause,omitempty"`
	Bookmarks map[regions.Region]bookmark `json:"bookmarks,omitempty"`

	// The places of the last records about runs and the pause in the hosts' log, and how far it
	// was read. They are zero on a host that is alone.
	Turn   quota.ID `json:"turn,omitzero"`
	Paused quota.ID `json:"paused,omitzero"`
	Seen   quota.ID `json:"seen,omitzero"`

	// Took is the average of a pass in the last run but one that has a pass that ended well.
	Took Made `json:"took,omitempty"`

	// Gate has the passes of the last run that asked the gate and are not over.
	Gate []atGate `json:"gate,omitempty"`

	Alive quota.ID `json:"heard,omitzero"` // where the last run's host appended last
	Asked quota.ID `json:"asked,omitzero"` // where a host asked whether it is alive, until it answers
}

// An atGate is a pass that asked the gate.
type atGate struct {
	Region  regions.Region `json:"region"`
	Attempt int            `json:"attempt,omitempty"`
	At      quota.ID       `json:"at,omitzero"` // its place in the hosts' log
}

// A bookmark is what a pass left for the next one of its region.
type bookmark struct {
	Text string   `json:"text"`
	At   quota.ID `json:"at,omitzero"` // its place in the hosts' log
}

// isNew returns whether no record was applied yet.
func (s *logState) isNew() bool {
	return s.Last == nil && s.Cursor == "" && s.Pause == nil && s.Skips == nil && len(s.Bookmarks) == 0
}

// running is the run that holds the job, or nil.
func (s *logState) running() *Run {
	if s.Last == nil || s.Last.State != RunRunning {
		return nil
	}
	return s.Last
}

// apply applies a record, whose place in the hosts' log is zero if it has none yet.
func (s *logState) apply(one record, at quota.ID) {
	switch {
	case one.Known != nil:
		*s = *one.Known
	case one.Run != nil && one.Run.State == RunSkipped:
		s.Skips = one.Run
		if one.Run.Reason != LedgerUnavailable {
			s.claim(one.Run.LastSlot, at)
		}
	case one.Run != nil:
		s.begin(one.Run, one.Terms, at)
	case one.ID != "":
		s.applyToLast(one)
	case one.Cursor != nil:
		s.Cursor, s.Dry, s.Moved = *one.Cursor, 0, true
	case one.Pause != nil:
		s.Pause = one.Pause
	case !one.Resumed.IsZero():
		if s.Pause != nil {
			s.Good = latest(s.Good, one.Resumed) // no good run was expected meanwhile
		}
		s.Pause = nil
	case one.Bookmark != nil:
		s.setBookmark(one.Bookmark.Region, bookmark{Text: one.Bookmark.Text})
	}
	s.place(one, at)
}

// place records the place in the hosts' log of a record that was applied.
func (s *logState) place(one record, at quota.ID) {
	if at.IsZero() {
		return
	}
	s.Seen = at
	switch {
	case one.Known != nil:
		s.Turn, s.Paused = later(s.Turn, at), later(s.Paused, at)
		for region, mark := range s.Bookmarks {
			if mark.At.IsZero() {
				s.setBookmark(region, bookmark{mark.Text, at})
			}
		}
	case one.Pause != nil, !one.Resumed.IsZero():
		s.Paused = at
	case one.Bookmark != nil:
		if mark, found := s.Bookmarks[one.Bookmark.Region]; found && mark.Text == one.Bookmark.Text {
			s.setBookmark(one.Bookmark.Region, bookmark{mark.Text, at})
		}
	case one.Asks:
		if s.running() != nil && one.ID == s.Last.ID {
			s.Asked = at
		}
	case one.Run != nil, one.Cursor != nil, s.Last != nil && one.ID == s.Last.ID:
		s.Turn = at
		if one.Cursor == nil {
			s.Alive = at
		}
		if one.Gate != nil {
			s.leaveGate(*one.Gate)
			s.Gate = append(s.Gate, atGate{one.Gate.Region, one.Gate.Attempt, at})
		}
	}
}

// leaveGate records that a pass is over, or asks the gate again.
func (s *logState) leaveGate(p Pass) {
	s.Gate = slices.DeleteFunc(slices.Clone(s.Gate), func(g atGate) bool { return g.Region == p.Region && g.Attempt == p.Attempt })
}

func later(a, b quota.ID) quota.ID {
	if a.Less(b) {
		return b
	}
	return a
}

// claim records that a slot became a run or was skipped. A host whose clock is far ahead of the
// log's claims nothing.
func (s *logState) claim(slot time.Time, at quota.ID) {
	if at.IsZero() || slot.Sub(at.Time()) <= claimMargin {
		s.Slot = latest(s.Slot, slot)
	}
}

// begin applies a run that begins, or a whole one that is over.
func (s *logState) begin(r *Run, t *terms, at quota.ID) {
	known := s.Last != nil && s.Last.ID == r.ID
	switch {
	case known && r.State == RunRunning, !known && r.State != RunRunning && s.Last != nil && s.Last.ID > r.ID:
		return // it is known, or another run has begun since
	case known:
		*s.Last = *r.copy()
	default:
		s.Cursor, s.Dry = s.next()
		s.Took = s.measured()
		s.Last, s.Terms, s.Moved, s.Skips = r, t, false, nil
	}
	s.Asked, s.Gate = quota.ID{}, nil
	if r.Trigger != Manual {
		s.claim(r.Slot, at)
	}
	s.dropBookmarks(r.Passes)
	s.succeeded()
}

// applyToLast applies a record about the run that began last. Those about other runs come too
// late to count.
func (s *logState) applyToLast(one record) {
	if s.Last == nil || s.Last.ID != one.ID {
		return
	}
	if one.Asks {
		return
	}
	s.Asked = quota.ID{}
	s.Last.apply(one)
	switch {
	case one.Pass != nil:
		if one.Pass.Outcome != Running {
			s.leaveGate(*one.Pass)
		}
		s.dropBookmarks([]Pass{*one.Pass})
	case one.End != nil:
		s.Gate = nil
		s.succeeded()
	}
}

// dropBookmarks drops the bookmarks of passes that ended well: that work is done.
func (s *logState) dropBookmarks(passes []Pass) {
	for _, p := range passes {
		if p.Outcome == OK {
			s.setBookmark(p.Region, bookmark{})
		}
	}
}

// measured is the average of the calls of the last run's passes that ended well, rounded up. If
// there are none, it is that of an earlier run, or nil.
func (s *logState) measured() Made {
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

func (s *logState) succeeded() {
	if s.Last.State != RunRunning && s.Last.good() {
		s.Good = latest(s.Good, s.Last.EndedAt)
	}
}

// next returns where the next run begins, given how far the last one has come, and how many runs
// have run dry there.
func (s *logState) next() (regions.Cursor, int) {
	if s.Last == nil || s.Last.Chosen || s.Moved || len(s.Last.Ring) == 0 {
		return s.Cursor, s.Dry
	}
	return s.Last.Ring.Advance(s.Last.hadTurn), s.Last.dryAfter(s.Dry)
}

// setBookmark replaces the map: a copy of the state may be on its way to the disk.
func (s *logState) setBookmark(region regions.Region, mark bookmark) {
	if mark.Text == "" && s.Bookmarks[region].Text == "" {
		return
	}
	s.Bookmarks = maps.Clone(s.Bookmarks)
	if mark.Text == "" {
		delete(s.Bookmarks, region)
		return
	}
	if s.Bookmarks == nil {
		s.Bookmarks = map[regions.Region]bookmark{}
	}
	s.Bookmarks[region] = mark
}

// join adds to the state in a snapshot what this host's state has beyond it, and returns whether
// that was anything. Before is how far the writer of the snapshot had read the log.
func (s *logState) join(mine *logState, before quota.ID) (more bool) {
	switch {
	case mine.isNew():
		return false
	case s.isNew():
		*s = *mine
		return true
	case !before.Less(mine.Seen):
		return false
	}
	if s.Turn.Less(mine.Turn) {
		s.Last, s.Terms, s.Took, s.Skips, s.Turn = mine.Last, mine.Terms, mine.Took, mine.Skips, mine.Turn
		s.Cursor, s.Dry, s.Moved = mine.Cursor, mine.Dry, mine.Moved
		more = true
	}
	if s.Paused.Less(mine.Paused) {
		s.Pause, s.Paused = mine.Pause, mine.Paused
		more = true
	}
	for region, mark := range mine.Bookmarks {
		if before.Less(mark.At) && s.Bookmarks[region].At.Less(mark.At) {
			s.setBookmark(region, mark)
			more = true
		}
	}
	for _, region := range slices.Collect(maps.Keys(s.Bookmarks)) {
		if _, found := mine.Bookmarks[region]; !found && !mine.Seen.Less(s.Bookmarks[region].At) {
			s.setBookmark(region, bookmark{})
			more = true
		}
	}
	if mine.Slot.After(s.Slot) || mine.Good.After(s.Good) {
		s.Slot, s.Good = latest(s.Slot, mine.Slot), latest(s.Good, mine.Good)
		more = true
	}
	return more
}
