// Package jobs runs jobs: one run per tick, one pass per region. A pass is launched only if the
// budget allows it, and its end decides where the next run begins.
//
// # The way of a run
//
//	slot.go      the scheduler calls Runner.Tick with a slot, which may wait for another job: it is claimed, and the run
//	             begins, or it is skipped for a reason
//	executor.go  the run goes through its ring: which region is next, and when; the run ends
//	pass.go      a pass from its admission by the gate to its record
//	judge.go     what became of a pass, and whether that ends the run
//	turn.go      where the next run begins
//
// A Runner is opened, started, stopped and given other jobs in runner.go; a daemon that starts first ends what a killed
// one left. A run token says what a pass spent (token.go). Operators run, stop and pause jobs (control.go); any caller may
// read their status (status.go), with the regions that fail and the want of units (state.go), and what the
// passes of the last run wrote (output.go). The example of [Runner] is a run whose budget ends half way.
//
// A [Run] and a [Pass] are one type each inside, on disk and on the wire, and a [Stop] is why either ended early.
//
// # The files of a job
//
// A jobControl holds what is known of one job (control.go). What a restart needs is its state (state.go), which is in
// NAME.json of the runner's directory and is replaced as a whole; NAME.runs has what ended (files.go). Both are
// written before what they say is reported, and each state is synced. A daemon that is killed serves no region again but
// those under way. A power cut may lose the last lines of NAME.runs.
//
// A job runs by its schedule on one host (hosts.go): the one that it names, else the first by name of those that
// live. Cursor, pause and runs are each host's own.
//
// # Locks
//
// In their order:
//
//	Runner.gate       while a pass asks the gate: held over the network
//	files.writing     while the files of a job are written: held over a disk
//	Runner.mu         the list of jobs; whether Stop waits for something
//	jobControl.mu     what is known of one job, and of its run
//	runOutput.mu, Tokens.mu
//
// Nothing waits under any but the first two, which no reader takes.
package jobs
