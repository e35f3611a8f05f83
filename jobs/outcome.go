package jobs

// An Outcome says what became of a pass. The text is part of the API.
type Outcome string

// The outcomes of a pass.
const (
	Running     Outcome = "running"     // not over yet
	OK          Outcome = "ok"          // it did its work
	Exhausted   Outcome = "exhausted"   // the budget was gone; the run stops
	Failed      Outcome = "failed"      // by its exit code, or it could not be started
	Timeout     Outcome = "timeout"     // we ended it: it took too long
	Killed      Outcome = "killed"      // a signal ended it that was not ours
	Interrupted Outcome = "interrupted" // we ended it, or died ourselves, through no fault of its own
	Skipped     Outcome = "skipped"     // it was not launched; the reason says why
)

// Served tells whether the pass has had its turn: then the next run begins
// behind its region. A failed pass has had it, so that one bad region starves
// nobody.
func (o Outcome) Served() bool {
	return o == OK || o.Failure()
}

// Failure tells whether the outcome counts as a failure of the job.
func (o Outcome) Failure() bool {
	return o == Failed || o == Timeout || o == Killed
}

// A Reason names why something was not done. The text is part of the API.
// Where the gate refuses for another reason than the budget, it is the
// decision's own.
type Reason string

// The reasons for which a run or a pass is skipped, or a run ends early.
const (
	Overlap           Reason = "overlap"            // the job's previous run was still under way
	Paused            Reason = "paused"             // the job was paused
	Missed            Reason = "missed"             // the daemon was not there at the time
	Unaffordable      Reason = "unaffordable"       // what remained was less than the pass expects to use
	PassFailed        Reason = "failed"             // a pass failed, and the job wants the run to end then
	BudgetGone        Reason = "exhausted"          // a pass met the end of the budget
	RunCapExceeded    Reason = "run_cap_exceeded"   // the run has spent what it may
	UpstreamRefuses   Reason = "upstream_refuses"   // it serves no call until a person changes something: a bad key, a quota of 0
	LedgerUnavailable Reason = "ledger_unavailable" // nobody could tell what remained; neither a denial nor a failure
	Shutdown          Reason = "shutdown"           // the daemon stopped
	Operator          Reason = "operator"           // somebody stopped the run
	Died              Reason = "died"               // the daemon was killed while the run was under way
)
