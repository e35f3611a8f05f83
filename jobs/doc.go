// Package jobs runs jobs: one run per tick, one pass per region, each launched
// only if the budget allows and judged by what became of it.
//
// The flow. The scheduler calls Runner.Tick with a slot (runner.go). A slotClaim decides what
// becomes of it, and the run begins (begin.go). An executor goes through the ring: each
// pass at its time, through the gate, launched, judged, recorded; its methods stand in the order
// of a run's life (executor.go). A limit that comes back soon delays it (pace.go). Where the next
// run begins follows from what became of the passes. Operators run, stop, pause and move the
// cursor (operate.go), and everybody may look (status.go).
//
// # One log of a job
//
// All that is known of a job is the story that the lines of its log tell (record.go, story.go): a
// run begins, a pass begins and ends, a run ends, ticks were skipped, somebody paused the job or
// moved the cursor. The log is NAME.runs in the runner's directory (runlog.go). Ends and words of
// people are synced, and with them what was before. A daemon that is killed loses no line; a
// power cut may lose those since the last end, and the slot is run again. Now and then a line says
// all that the lines before it tell, so that a start need not read them.
//
// With other hosts the same lines stand in a log that all of them share (hosts.go), in the store
// that has the logs of credentials, too. What must be decided among them, such as who runs a slot,
// is told only if nobody has told anything since this host has read the log: jobControl.decide. What
// has happened, such as the end of a pass, is taken in at once, and told soon: jobControl.note.
// Each host writes down what it reads; if the store loses the log, they put it back (regain.go). A run
// holds its job until its last line. Whoever finds it in the way, and hears nothing, asks whether
// its host is there; if that does not answer in time, the run is over (vigil.go). So no host's
// clock is compared with another's, and nobody renews anything. On a host that is alone nothing is
// shared, and nothing of this costs anything.
//
// # Locks
//
// In their order:
//
//	Runner.reloading    while the jobs are replaced
//	hostsLog.turn       while this host tells the others something about a job: held over the network
//	jobControl.writing  while a change of one job is made and written: held over a disk
//	Runner.mu           the list of jobs
//	jobControl.mu       what readers see of one job
//	pacing.mu           what a run waits for
//	reserved.mu         what passes are expected to spend
//	Tokens.mu           what passes were granted
//
// Nothing is waited for under any but the first three, which no reader takes.
package jobs
