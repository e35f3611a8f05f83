// Package jobs runs jobs: one run per tick, one pass per region. A pass is launched only if the
// budget allows it, and its end decides where the next run begins.
//
// # The way of a run
//
//	tick.go     the scheduler calls Runner.Tick with a slot; slots that were missed
//	claim.go    the slot is claimed, and the run begins, or the slot is skipped for a reason
//	advance.go  the run goes through its ring: which region is next, and when (pace.go: after a limit)
//	pass.go     a pass from its admission to its record; gate.go decides whether it can be afforded
//	judge.go    what became of a pass, and whether that ends the run
//	end.go      the run ends; turn.go: where the next one begins
//
// A Runner is opened, started, stopped and given other jobs in start.go. A run token says what a pass
// spent (token.go). Operators run, stop and pause jobs and move the cursor (operate.go); any caller may
// read their status (status.go), with the regions that fail and the want of units (bad.go), and what the
// passes of the last run wrote (output.go).
//
// The example of [Runner] is a run whose budget ends half way.
//
// # The log of a job
//
// A jobControl holds what is known of one job (control.go). All of it follows from the records of
// the job's log which are applied one after the other (state.go): a run begins, a
// pass begins and ends, a run ends, ticks were skipped, an operator paused the job or moved the
// cursor. The order of the records counts, not the times in them: a clock may be set back. The log is
// NAME.runs in the runner's directory and, once that is long, NAME.runs.1 before it (history.go). The end
// of a pass or run and what an operator sets are synced, and with them all records before. A daemon that is killed loses no record. A power cut
// may lose those since the last sync; then the slot is run again. From time to time a record is a
// snapshot of all that the records before it say, so that a start need not read those.
//
// # Several hosts
//
// A job runs by its schedule on one host (hosts.go): the one that it names, else the first by name of those that
// live. Cursor, pause and runs are each host's own.
//
// # Locks
//
// In their order:
//
//	Runner.reloading  while the jobs are replaced
//	Runner.gate       while a pass asks the gate: held over the network
//	runLog.writing    while the log of a job is written: held over a disk
//	Runner.mu         the list of jobs
//	Runner.ending     while it is decided whether Stop waits for something
//	jobControl.mu     what is known of one job, and of its run
//	runLog.mu, runOutput.mu, Tokens.mu
//
// Nothing waits under any but the first three, which no reader takes.
package jobs
