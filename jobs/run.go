package jobs

import (
	"cmp"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// A Run is one tick of a job over its regions: what is known of it so far.
type Run struct {
	ID      string    `json:"id"`
	Job     string    `json:"job"`
	Trigger Trigger   `json:"trigger"`
	By      string    `json:"by,omitempty"`   // who asked for a manual run
	Host    string    `json:"host,omitempty"` // where it runs, if several hosts run the job
	Slot    time.Time `json:"slot"`           // the scheduled time; of a manual run, when it was asked for

	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	State     RunState  `json:"state"`
	Reason    Reason    `json:"reason,omitempty"`  // why it was skipped or ended early
	Detail    string    `json:"detail,omitempty"`  // for people
	RetryAt   time.Time `json:"retry_at,omitzero"` // of a run that stopped for the budget: when it would have continued

	// Ring is every region of the run in its order; those without a pass were
	// not reached.
	Ring   regions.Ring `json:"ring,omitempty"`
	Chosen bool         `json:"chosen,omitempty"` // an operator chose the regions: the cursor stays where it is
	Passes []Pass       `json:"passes,omitempty"` // in the order of their starts

	Waits *Pace `json:"waits,omitempty"` // for a limit that returns soon, or to try again, while it does

	Retry int `json:"retry,omitempty"` // how often regions that failed are served again, at its end

	// Of skipped slots that follow one another for the same reason only one record is kept: the slot of the latest and,
	// but for those that were missed, how many they are.
	Ticks    int       `json:"ticks,omitempty"`
	LastSlot time.Time `json:"last_slot,omitzero"`

	at map[passName]int // the index in Passes of each pass
}

// A Pass is one region within a run: one process, or the reason why there was none.
type Pass struct {
	Region  regions.Region `json:"region"`
	Attempt int            `json:"attempt,omitempty"` // counts the passes of the region that came before in the run
	Outcome Outcome        `json:"outcome"`
	Reason  Reason         `json:"reason,omitempty"` // of one that was not launched, or interrupted
	Detail  string         `json:"detail,omitempty"` // for people: "exit status 3"
	Limit   string         `json:"limit,omitempty"`  // of one that the budget stopped: which limit, if that is known
	Needs   quota.Units    `json:"needs,omitempty"`  // there, of the call that was denied
	Said    string         `json:"said,omitempty"`   // of one that failed for no reason that quotad has seen: the last line that it wrote to stderr
	Denied  bool           `json:"denied,omitempty"` // the daemon denied it units, or it settled past what it may spend
	// Unanswered is the last grant of one that says by its exit code alone that the budget was gone,
	// if quotad saw no answer to that call.
	Unanswered string      `json:"unanswered,omitempty"`
	Yields     bool        `json:"yields,omitempty"`  // though exhausted, it had its turn: it ran dry too often
	RetryAt    time.Time   `json:"retry_at,omitzero"` // of one that the budget stopped: when it would have been granted
	StartedAt  time.Time   `json:"started_at"`
	EndedAt    time.Time   `json:"ended_at,omitzero"`
	Units      quota.Units `json:"units"`              // spent: debited, less what was returned
	Calls      int64       `json:"calls"`              // of acquire that were granted
	Made       Made        `json:"made,omitempty"`     // of one that is over
	Refusals   []Refusal   `json:"refusals,omitempty"` // the last ones, of one that is over
	Tail       []string    `json:"tail,omitempty"`     // the last lines of its output
	Process    *Identity   `json:"process,omitempty"`  // while it runs; also of one whose daemon was killed: it may live on
	PID        int         `json:"pid,omitempty"`      // while it runs here, for people
	Deadline   time.Time   `json:"deadline,omitzero"`  // while it runs: when its timeout strikes

	token string // while it runs here
	from  int    // how many lines the run had written before it
}

// Cause is why a pass failed, in one line: what quotad has seen, what the pass wrote last to stderr, or
// how it ended.
func (p Pass) Cause() string { return cmp.Or(p.Said, p.Detail) }

// A Pace is what a run waits for instead of ending: a limit that returns soon or, without one, that regions that failed are
// served again.
type Pace struct {
	Limit string    `json:"limit"`
	Until time.Time `json:"until"`
}

// A Refusal is a call of a pass that quotad denied.
type Refusal struct {
	Operation string      `json:"operation"`
	Limit     string      `json:"limit,omitempty"`
	Needed    quota.Units `json:"needed"`
	Left      quota.Units `json:"left"`
	FitsAt    time.Time   `json:"fits_at,omitzero"`
}

// Made says how many calls of each operation were granted, and not released.
type Made map[string]quota.Units

// A Stop is why a run launches nothing more, or a pass was not launched.
type Stop struct {
	Reason  Reason
	Detail  string    // for people
	Limit   string    // if one stopped it
	RetryAt time.Time // when it would have continued; zero: unknown
}

func (s *Stop) Error() string { return "the run stopped: " + string(s.Reason) }

// A Trigger says why a run was begun.
type Trigger string

// The triggers of a run.
const (
	Scheduled Trigger = "schedule"
	AtStart   Trigger = "start"   // the job has RunAtStart
	CatchUp   Trigger = "catchup" // for slots that were missed
	Manual    Trigger = "manual"
)

// A RunState says how far a run has come. The text is part of the API.
type RunState string

// The states of a run.
const (
	RunRunning     RunState = "running"
	RunDone        RunState = "done"        // every region had its turn, and none failed
	RunFailed      RunState = "failed"      // a region failed in the end, however far the run came; its Reason says why it ended early, if it did
	RunStopped     RunState = "stopped"     // ended early at a region that could not be served; the next run begins there
	RunInterrupted RunState = "interrupted" // ended early by us
	RunSkipped     RunState = "skipped"     // a slot that did not become a run
)

// ending returns how a run ends; cause is why it launched nothing more, nil if nothing was in its way.
func (r *Run) ending(cause error) (RunState, Stop) {
	stop, stopped := errors.AsType[*Stop](cause)
	switch {
	case r.through():
		return RunDone, Stop{}
	case stopped:
		return RunStopped, *stop
	}
	return RunInterrupted, Stop{Reason: reasonOf(cause)}
}

// end ends a run, as failed if a region failed in it. It is the one place that judges that:
// people, logs and metrics go by the state.
func (r *Run) end(at time.Time, state RunState, why Stop) {
	r.EndedAt, r.State, r.Reason, r.Detail, r.RetryAt = at, state, why.Reason, why.Detail, why.RetryAt
	for i := range r.Passes {
		if p := &r.Passes[i]; p.Outcome == Running {
			p.Outcome, p.Reason, p.EndedAt, p.Process, p.Deadline = Interrupted, why.Reason, at, nil, time.Time{}
		}
	}
	if len(r.Failed()) > 0 {
		r.State = RunFailed
	}
}

// reasonOf names the cause for which we ended a run or a pass.
func reasonOf(cause error) Reason {
	if errors.Is(cause, ErrOperator) {
		return Operator
	}
	return Shutdown
}

// served returns whether a region of the run was served.
func (r *Run) served(region regions.Region) bool {
	return r.hasPass(region, func(p *Pass) bool { return p.Outcome.Served() })
}

func (r *Run) hasPass(region regions.Region, is func(*Pass) bool) bool {
	for n := range len(r.Passes) {
		if p := r.attempt(region, n); p == nil || is(p) {
			return p != nil
		}
	}
	return false
}

// through returns whether every region of the run was served.
func (r *Run) through() bool {
	return !slices.ContainsFunc(r.Ring, func(region regions.Region) bool { return !r.served(region) })
}

type passName struct {
	region  regions.Region
	attempt int
}

// attempt finds a pass by its name.
func (r *Run) attempt(region regions.Region, number int) *Pass {
	if r.at == nil || len(r.at) != len(r.Passes) {
		r.at = make(map[passName]int, len(r.Ring))
		for i, p := range r.Passes {
			r.at[passName{p.Region, p.Attempt}] = i
		}
	}
	if i, found := r.at[passName{region, number}]; found {
		return &r.Passes[i]
	}
	return nil
}

// attempts returns how many passes a region has had.
func (r *Run) attempts(region regions.Region) (n int) {
	for r.attempt(region, n) != nil {
		n++
	}
	return n
}

// put adds a pass, or replaces what was known of it.
func (r *Run) put(p Pass) {
	if known := r.attempt(p.Region, p.Attempt); known != nil {
		*known = p
		return
	}
	r.at[passName{p.Region, p.Attempt}] = len(r.Passes)
	r.Passes = append(r.Passes, p)
}

// head returns the run without its passes.
func (r *Run) head() Run {
	c := *r
	c.Passes, c.at = nil, nil
	return c
}

// copy returns a copy of a run, which may be nil, that shares nothing that may still change.
func (r *Run) copy() *Run {
	if r == nil {
		return nil
	}
	c := r.head()
	c.Passes = slices.Clone(r.Passes)
	return &c
}

// Spent returns what the passes of the run spent.
func (r *Run) Spent() (units quota.Units) {
	for _, p := range r.Passes {
		units += p.Units
	}
	return units
}

// Outcomes returns how many passes of the run have each outcome.
func (r *Run) Outcomes() map[Outcome]int {
	counts := map[Outcome]int{}
	for _, p := range r.Passes {
		counts[p.Outcome]++
	}
	return counts
}

// Latest returns the last pass of each region, in the order of their first ones: what
// became of the regions.
func (r *Run) Latest() (list []Pass) {
	at := map[regions.Region]int{}
	for _, p := range r.Passes {
		if i, known := at[p.Region]; known {
			list[i] = p
			continue
		}
		at[p.Region], list = len(list), append(list, p)
	}
	return list
}

// Failed returns what failed in the end: the last failed pass of each region that was not served
// when it was tried again.
func (r *Run) Failed() (list []Pass) {
	last := make(map[regions.Region]int)
	for i, p := range r.Passes {
		switch {
		case p.Outcome.Failure():
			last[p.Region] = i
		case p.Outcome == OK:
			delete(last, p.Region)
		}
	}
	for _, i := range slices.Sorted(maps.Values(last)) {
		list = append(list, r.Passes[i])
	}
	return list
}

// isUnfinished returns whether a run ended with its daemon before it had gone through the ring.
func (r *Run) isUnfinished() bool {
	return !r.Chosen && !r.through() && (r.State == RunInterrupted || r.State == RunFailed) && (r.Reason == Shutdown || r.Reason == Died)
}

// good returns whether a run is what a job's owner expects: the ring came round, and no region failed in the
// end. A run of chosen regions says nothing about the others.
func (r *Run) good() bool { return !r.Chosen && r.State == RunDone }

// runIDs are written with the digits of Crockford's base 32, in the order of their codes: ids sort as texts do.
var runIDs = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// newRunID returns an id of 15 letters and digits for a run that begins at t. Ids sort by their
// millisecond; 24 random bits distinguish those of the same one, on any host.
func newRunID(t time.Time) string {
	var id [9]byte
	binary.BigEndian.PutUint64(id[:], uint64(t.UnixMilli())<<16)
	rand.Read(id[6:]) // never fails: it ends the program instead
	return runIDs.EncodeToString(id[:])
}
