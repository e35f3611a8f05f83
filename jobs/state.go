package jobs

import (
	"slices"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// A state is what this host keeps of a job in NAME.json. Its size does not grow with the ring.
type state struct {
	Version int `json:"v"`

	// Cursor is where the next run begins, given the run under way. Dry is how many runs in a row
	// began at its region and stopped right there, although they had units to spend.
	Cursor regions.Cursor `json:"cursor,omitempty"`
	Dry    int            `json:"dry,omitempty"`

	Slot       time.Time `json:"slot,omitzero"`      // that became a run last, or was skipped
	Good       time.Time `json:"good,omitzero"`      // when the last good run ended, the ring came round, or the job was resumed
	Served     int       `json:"served,omitempty"`   // passes that ended well since the ring came round
	GoodSlot   time.Time `json:"good_slot,omitzero"` // the slot of the last good run
	Unfinished bool      `json:"unfinished,omitempty"`
	Skips      *Run      `json:"skips,omitempty"` // the slots that were skipped last, for one reason
	Pause      *Pause    `json:"pause,omitempty"`
	Overlaps   int       `json:"overlaps,omitempty"` // slots in a row at which a run was under way, or the run before had been

	// Run is the run under way, with the pass under way alone. Without its Ring: that is the job's, From this cursor,
	// unless an operator chose it.
	Run  *Run           `json:"run,omitempty"`
	From regions.Cursor `json:"from,omitempty"`

	Bad   []Failing `json:"bad,omitempty"`   // the regions that fail
	Short *Shortage `json:"short,omitempty"` // nil: the last run was not short of units
	Took  []Made    `json:"took,omitempty"`  // the average pass of each of the last runs with one that ended well

	// Schedule is the job's schedule. It is empty while the job is not configured: then it misses
	// nothing. Slots up to Since cannot have been missed: they were of another schedule.
	Schedule string    `json:"schedule,omitempty"`
	Since    time.Time `json:"since,omitzero"`
}

// stateVersion is that of the files of a job. What is of another version is not read.
const stateVersion = 3

// meanOf is how many runs count for what a pass usually needs.
const meanOf = 10

// claimAhead is how far ahead of the clock what is recorded may lie and still count: a clock that was
// ahead once hides nothing.
const claimAhead = time.Minute

// notAhead returns an instant unless it lies so far ahead of now that it means nothing.
func notAhead(t, now time.Time) time.Time {
	if t.After(now.Add(claimAhead)) {
		return time.Time{}
	}
	return t
}

// claim records that a slot became a run or was skipped, at a time. One before it that lay too far
// ahead is forgotten: the clock was set back.
func (s *state) claim(slot, at time.Time) {
	s.Slot = quota.Later(notAhead(s.Slot, at), slot)
}

// skip records slots that did not become a run.
func (s *state) skip(r *Run) {
	s.Skips = r
	if r.Reason == Overlap {
		s.Overlaps++
	}
	s.claim(r.LastSlot, r.EndedAt)
}

// begin records that a run begins.
func (s *state) begin(r *Run) {
	s.From, s.Skips = s.Cursor, nil
	if r.Trigger != Manual {
		s.claim(r.Slot, r.StartedAt)
	}
}

// pass records that a pass of a run is over.
func (s *state) pass(r *Run, p *Pass, dry int) {
	s.Cursor, s.Dry = r.advance(s.From, dry)
	if p.Outcome == OK || p.Attempt >= r.Retry { // else it is tried again
		s.Bad = r.failing(s.Bad, *p)
	}
}

// end records that a run is over.
func (s *state) end(r *Run) {
	if r.good() {
		s.GoodSlot = r.Slot
	}
	s.Bad = r.failing(s.Bad, r.Failed()...)
	if !r.Chosen {
		s.Short = r.shortage(s.Short)
		s.Served += r.Outcomes()[OK]
	}
	if r.good() || !r.Chosen && s.Served >= len(r.Ring) && len(s.Bad) == 0 { // a pace may spread the ring over several runs
		s.Good, s.Served = r.EndedAt, 0
	}
	s.Unfinished = r.isUnfinished()
	var made []Made
	for _, p := range r.Passes {
		if p.Outcome == OK {
			made = append(made, p.Made)
		}
	}
	if len(made) > 0 {
		s.Took = append(s.Took[max(0, len(s.Took)-meanOf+1):len(s.Took):len(s.Took)], mean(made))
	}
}

// mean returns the average of some calls, rounded up; nil of none.
func mean(list []Made) Made {
	if len(list) == 0 {
		return nil
	}
	sum, n := Made{}, quota.Units(len(list))
	for _, made := range list {
		for operation, calls := range made {
			sum[operation] += calls
		}
	}
	for operation, calls := range sum {
		sum[operation] = (calls + n - 1) / n
	}
	return sum
}

// A Failing is a region whose last passes failed, whatever later runs did without it.
type Failing struct {
	Region regions.Region `json:"region"`
	Since  time.Time      `json:"since"`
	Times  int            `json:"times"` // runs in a row
	Cause  string         `json:"cause,omitempty"`
	Run    string         `json:"run,omitempty"` // the last of them
}

const (
	maxCause   = 120 // bytes of a Cause
	MaxFailing = 100 // regions of a job that are known to fail
)

// failing returns the regions that fail after passes of a run that are over. A region without a pass among
// them is as it was. The list before is not changed.
func (r *Run) failing(before []Failing, passes ...Pass) []Failing {
	list := before
	for _, p := range passes {
		i := slices.IndexFunc(list, func(f Failing) bool { return f.Region == p.Region })
		one := Failing{Region: p.Region, Since: p.EndedAt}
		if i >= 0 {
			one = list[i]
		}
		switch {
		case p.Outcome == OK && i >= 0:
			list = slices.Delete(slices.Clone(list), i, i+1)
		case !p.Outcome.Failure() || one.Run == r.ID || i < 0 && len(list) == MaxFailing:
		default:
			one.Times, one.Run, one.Cause = one.Times+1, r.ID, quota.Clipped(p.Cause(), maxCause)
			list = slices.Clone(list)
			if i < 0 {
				i, list = len(list), append(list, one)
			}
			list[i] = one
		}
	}
	return list
}

// A Shortage says for how long a job has been short of units: its last runs on this host, without those of
// regions that an operator chose, ended because a pass did not fit or was denied.
type Shortage struct {
	Since time.Time `json:"since"`
	// Runs are those in a row that served no region.
	Runs int `json:"runs,omitempty"`
	// Region is where the last run stopped, and Times how many did there without having served it.
	Region regions.Region `json:"region"`
	Times  int            `json:"times"`
	Stop                  // of the last one
}

// shortage returns how short of units the job is after a run; nil: it is not. A run that was not short,
// and served nothing either, leaves that as it was.
func (r *Run) shortage(before *Shortage) *Shortage {
	served := slices.ContainsFunc(r.Passes, func(p Pass) bool { return p.Outcome.Served() })
	i := slices.IndexFunc(r.Passes, func(p Pass) bool {
		return (p.Outcome == Exhausted || p.Outcome == NotLaunched && (p.Reason == DoesNotFit || p.Reason == Closed)) && !r.served(p.Region)
	})
	switch {
	case i < 0 && served:
		return nil
	case i < 0:
		return before
	}
	p := r.Passes[i]
	s := Shortage{Since: p.StartedAt, Region: p.Region, Times: 1, Stop: p.Stop}
	s.Detail = quota.Clipped(p.Detail, maxCause)
	if before != nil && !served {
		s.Since, s.Runs = before.Since, before.Runs
	}
	if before != nil && before.Region == p.Region {
		s.Since, s.Times = before.Since, before.Times+1
	}
	if !served {
		s.Runs++
	}
	return &s
}
