package jobs

import "errors"

// An Outcome says what became of a pass. The text is part of the API.
type Outcome string

// The outcomes of a pass.
const (
	Running     Outcome = "running"      // not over yet
	OK          Outcome = "ok"           // it did its work
	Exhausted   Outcome = "exhausted"    // a call was denied, or the command said so by its exit code; the run stops, or waits up to max_wait
	Failed      Outcome = "failed"       // by its exit code, or it could not be started
	Timeout     Outcome = "timeout"      // we ended it: it took too long
	Killed      Outcome = "killed"       // a signal ended it that was not ours
	Interrupted Outcome = "interrupted"  // we ended it, or were killed, through no fault of its own
	NotLaunched Outcome = "not_launched" // the reason says why; it is the same word if the pass did not fit
)

// Served returns whether the pass has had its turn: then the next run begins after its region. A
// failed pass has had it, so that one bad region does not starve the others.
func (o Outcome) Served() bool {
	return o == OK || o.Failure()
}

// Failure returns whether the outcome counts as a failure of the job.
func (o Outcome) Failure() bool {
	return o == Failed || o == Timeout || o == Killed
}

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

// A Reason names why something was not done. The text is part of the API. If the gate refuses for
// another reason than the budget, it is the decision's.
type Reason string

// The reasons for which a slot is skipped, a pass is not launched, or a run ends early.
const (
	Overlap           Reason = "overlap"            // the job's previous run was still under way
	Paused            Reason = "paused"             // the job was paused
	After             Reason = "after"              // the job that it runs after was not done until the next slot
	Missed            Reason = "missed"             // no daemon was running at the time
	DoesNotFit        Reason = "not_launched"       // what remained was less than the pass expects to use
	Closed            Reason = "closed"             // a limit was closed: the upstream or an operator says so
	BudgetGone        Reason = "exhausted"          // a pass met the end of the budget
	UpstreamRefuses   Reason = "upstream_refuses"   // it serves no call until a person changes something: a bad key, a quota of 0
	LedgerUnavailable Reason = "ledger_unavailable" // what remained was unknown; neither a denial nor a failure
	Shutdown          Reason = "shutdown"           // the daemon stopped
	Operator          Reason = "operator"           // an operator stopped the run
	Died              Reason = "died"               // the daemon was killed while the run was under way
)

// Errors of a Runner, to be found by errors.Is.
var (
	// ErrUnknown means that there is no such job, region or run.
	ErrUnknown = errors.New("not found")
	// ErrUnderWay means that a run of the job is under way.
	ErrUnderWay = errors.New("a run of the job is under way")
	// ErrInvalid means that a request makes no sense.
	ErrInvalid = errors.New("invalid")
	// ErrStopping means that the daemon begins nothing more.
	ErrStopping = errors.New("the daemon is stopping and begins nothing more")
)

// errClaimed means that a slot has become a run, or was skipped.
var errClaimed = errors.New("the slot was taken before")
