package jobs

import (
	"cmp"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"errors"
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
	Stop                // why it was skipped or ended early

	// Ring is every region of the run in its order; those without a pass were not reached.
	Ring   regions.Ring `json:"ring,omitempty"`
	Chosen bool         `json:"chosen,omitempty"` // an operator chose the regions: the cursor stays where it is
	Passes []Pass       `json:"passes,omitempty"` // in the order of their starts

	// Waits is what the run waits for until RetryAt instead of ending: a limit that returns soon or, without one, to
	// serve regions that failed again. Nil: it does not wait.
	Waits *Stop `json:"waits,omitempty"`

	Retry int `json:"retry,omitempty"` // how often regions that failed are served again, at its end

	// Of skipped slots that follow one another for the same reason only one record is kept: the slot of the latest and,
	// but for those that were missed, how many they are.
	Ticks    int       `json:"ticks,omitempty"`
	LastSlot time.Time `json:"last_slot,omitzero"`

	at map[regions.Region][]int // where in Passes those of a region are
}

// A Pass is one region within a run: one process, or the reason why there was none.
type Pass struct {
	Region  regions.Region `json:"region"`
	Attempt int            `json:"attempt,omitempty"` // counts the passes of the region that came before in the run
	Outcome Outcome        `json:"outcome"`
	// Stop has the reason of a pass that was not launched, or interrupted, the limit that stopped it, and when that lets
	// it continue. Its Detail says how the pass ended: "exit status 3".
	Stop
	Spent
	// Said is of a pass that failed for no reason that quotad has seen: the last line that it wrote to stderr.
	Said      string    `json:"said,omitempty"`
	Yields    bool      `json:"yields,omitempty"` // though exhausted, it had its turn: it ran dry too often
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	Tail      []string  `json:"tail,omitempty"`    // the last lines of its output
	Process   *Identity `json:"process,omitempty"` // while it runs; also of one whose daemon was killed: it may live on
	PID       int       `json:"pid,omitempty"`     // while it runs here, for people
	Deadline  time.Time `json:"deadline,omitzero"` // while it runs: when its timeout strikes

	token string // while it runs here
	from  int    // how many lines the run had written before it
}

// A Stop is why something was not done, or did not continue: a call, a pass, a run or a slot.
type Stop struct {
	Reason  Reason      `json:"reason,omitempty"`
	Detail  string      `json:"detail,omitempty"`  // for people
	Limit   string      `json:"limit,omitempty"`   // if one stopped it, and is known
	Needs   quota.Units `json:"needs,omitempty"`   // there, of the call that was refused
	RetryAt time.Time   `json:"retry_at,omitzero"` // when it would have continued; zero: unknown
}

// A Spent is what a pass was granted and denied. Of a pass under way, only Units and Calls are shown.
type Spent struct {
	Units quota.Units `json:"units"`          // debited, less what was returned
	Calls int64       `json:"calls"`          // of acquire that were granted
	Made  Made        `json:"made,omitempty"` // calls that were granted, less those that were released
	// Denied says that the daemon denied it units that it was not granted later, or that it settled past what it may
	// spend. What could never be granted is no denial.
	Denied   bool      `json:"denied,omitempty"`
	Refusals []Refusal `json:"refusals,omitempty"` // the last ones
}

// A Refusal is a call of a pass that was denied, or that the upstream refused.
type Refusal struct {
	Operation string      `json:"operation"`
	Left      quota.Units `json:"left"`
	Stop
}

// Made says how many calls of each operation were granted, and not released.
type Made map[string]quota.Units

// Cause is why a pass failed, in one line: what quotad has seen, what the pass wrote last to stderr, or how it ended.
func (p Pass) Cause() string { return cmp.Or(p.Said, p.Detail) }

// A halted is the error by which a run launches nothing more.
type halted struct{ why Stop }

func (h halted) Error() string { return "the run stopped: " + string(h.why.Reason) }

// ending returns how a run ends; cause is why it launched nothing more, nil if nothing was in its way.
func (r *Run) ending(cause error) (RunState, Stop) {
	halt, stopped := errors.AsType[halted](cause)
	switch {
	case r.through():
		return RunDone, Stop{}
	case stopped:
		return RunStopped, halt.why
	}
	return RunInterrupted, Stop{Reason: reasonOf(cause)}
}

// end ends a run, as failed if a region failed in it. It is the one place that judges that:
// people, logs and metrics go by the state.
func (r *Run) end(at time.Time, state RunState, why Stop) {
	r.EndedAt, r.State, r.Stop = at, state, why
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

// underWay returns the pass that is under way, the last one, or nil.
func (r *Run) underWay() *Pass {
	if n := len(r.Passes); n > 0 && r.Passes[n-1].Outcome == Running {
		return &r.Passes[n-1]
	}
	return nil
}

// served returns whether a region of the run was served.
func (r *Run) served(region regions.Region) bool {
	return r.hasPass(region, func(p *Pass) bool { return p.Outcome.Served() })
}

// hasPass returns whether the region has such a pass.
func (r *Run) hasPass(region regions.Region, such func(*Pass) bool) bool {
	return slices.ContainsFunc(r.of(region), func(i int) bool { return such(&r.Passes[i]) })
}

// through returns whether every region of the run was served.
func (r *Run) through() bool {
	return !slices.ContainsFunc(r.Ring, func(region regions.Region) bool { return !r.served(region) })
}

// of returns where in Passes those of a region are.
func (r *Run) of(region regions.Region) []int {
	if r.at == nil {
		r.at = make(map[regions.Region][]int, len(r.Ring))
		for i, p := range r.Passes {
			r.at[p.Region] = append(r.at[p.Region], i)
		}
	}
	return r.at[region]
}

// put adds a pass, or replaces what was known of it.
func (r *Run) put(p Pass) {
	if at := r.of(p.Region); p.Attempt < len(at) {
		r.Passes[at[p.Attempt]] = p
		return
	}
	r.at[p.Region] = append(r.at[p.Region], len(r.Passes))
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

// Latest returns the last pass of each region, in the order of their first ones: what became of the regions.
func (r *Run) Latest() (list []Pass) {
	for i, p := range r.Passes {
		if at := r.of(p.Region); at[0] == i {
			list = append(list, r.Passes[at[len(at)-1]])
		}
	}
	return list
}

// Failed returns what failed in the end: the last failed pass of each region that was not served when it was tried
// again.
func (r *Run) Failed() (list []Pass) {
	for i, p := range r.Passes {
		again := func(later int) bool { return later > i && r.Passes[later].Outcome.Served() }
		if p.Outcome.Failure() && !slices.ContainsFunc(r.of(p.Region), again) {
			list = append(list, p)
		}
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
