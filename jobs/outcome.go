package jobs

import (
	"errors"
	"fmt"
	"slices"

	"quotad/quota"
)

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
	LedgerUnavailable Reason = "ledger_unavailable" // nobody could tell what remained; neither a denial nor a failure
	Shutdown          Reason = "shutdown"           // the daemon stopped
	Operator          Reason = "operator"           // somebody stopped the run
	Died              Reason = "died"               // the daemon was killed while the run was under way
)

// ExitExhausted is the exit code by which a pass says that it stopped because
// the budget was gone, unless its job names others: EX_TEMPFAIL of sysexits(3).
const ExitExhausted = 75

// saysExhausted tells whether a pass says so by its exit code.
func (j *Job) saysExhausted(code int) bool {
	if len(j.ExhaustedCodes) == 0 {
		return code == ExitExhausted
	}
	return slices.Contains(j.ExhaustedCodes, code)
}

// judge says what became of a pass: why we ended it comes first, then our own
// record that we denied it units, then its exit code.
func (j *Job) judge(exit Exit, denied bool) (outcome Outcome, detail string) {
	switch {
	case errors.Is(exit.Cause, ErrTimeout):
		return Timeout, exit.Cause.Error()
	case exit.Cause != nil:
		return Interrupted, exit.Cause.Error()
	case exit.Err != nil:
		return Failed, exit.Err.Error()
	case denied:
		return Exhausted, ""
	case j.saysExhausted(exit.Code):
		return Exhausted, fmt.Sprintf("exit status %d, without a denial", exit.Code)
	case exit.Signal != "":
		return Killed, "killed by " + exit.Signal
	case exit.Code != 0:
		return Failed, fmt.Sprintf("exit status %d", exit.Code)
	case exit.Left > 0:
		return OK, fmt.Sprintf("left %s, of which %d could not be ended", quota.Count(exit.Swept, "process running", "processes running"), exit.Left)
	case exit.Swept > 0:
		return OK, "left " + quota.Count(exit.Swept, "process running, which was ended", "processes running, which were ended")
	}
	return OK, ""
}
