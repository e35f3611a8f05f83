// Package jobs runs jobs: one run per tick, one pass per region. A pass is launched only if the
// budget allows it, and its end decides where the next run begins.
//
// The scheduler calls Runner.Tick with a slot (runner.go). A slotClaim decides what becomes of the
// slot, and the run begins (begin.go). An executor goes through the ring (executor.go): each pass
// waits for its time and a place, asks the gate (gate.go), is launched (launch.go), is
// judged (job.go, executor.go) and recorded. Its run token says what it spent (token.go). A limit
// that returns soon delays the run (pace.go). Where the next run begins follows from the outcomes
// of the passes (run.go). Operators run, stop and pause jobs and move the cursor (operate.go);
// any caller may read their status (status.go).
//
// # The log of a job
//
// A jobControl holds what is known of one job (control.go). All of it follows from the records of
// the job's log (record.go), which are applied one after the other (logstate.go): a run begins, a
// pass begins and ends, a run ends, ticks were skipped, an operator paused the job or moved the
// cursor. The log is NAME.runs in the runner's directory (runlog.go). The end of a pass or run and
// what an operator sets are synced, and with them all records before. A daemon that is killed
// loses no record. A power cut may lose those since the last sync; then the slot is run again. From
// time to time a record is a snapshot of all that the records before it say, so that a start need
// not read those.
//
// # Several hosts
//
// With other hosts, the same records are in a log that all hosts share (hosts.go). The store of the
// logs of credentials keeps it, too. What hosts must decide together, such as which one runs a slot,
// is appended only if this host has read all that was appended before: jobControl.decide. What has
// happened, such as the end of a pass, counts at once and is appended soon: jobControl.update. Each
// host writes what it reads to its own file. If the store loses the log, the hosts restore it
// (regain.go).
//
// A run holds its job until its last record. If it prevents another run and its host is silent, a
// host asks whether that one is alive; without an answer in time, the run is over (vigil.go). So
// no host's clock is compared with another's, and no lease is renewed. A host that is alone shares
// nothing, and pays nothing for this.
//
// # Locks
//
// In their order:
//
//	Runner.reloading     while the jobs are replaced
//	Runner.gate          while a pass asks the gate: held over the network
//	hostsLog.appending   while this host appends to the log of a job: held over the network
//	jobControl.writing   while a change of one job is made and written: held over a disk
//	Runner.mu            the list of jobs
//	jobControl.mu        what readers see of one job, and what its run waits for
//	Tokens.mu            what passes were granted, and are expected to spend
//
// Nothing waits under any but the first four, which no reader takes.
package jobs
