// Package jobs runs jobs: one run per tick, one pass per region, each launched
// only if the budget allows and judged by what became of it.
//
// The flow. The scheduler calls Runner.Tick with a slot (runner.go). A slotClaim locks
// the job and claims the slot among the hosts (claim.go), and the run begins (begin.go).
// An executor goes through the ring: each pass at its time, through the gate, launched,
// judged, recorded; its methods stand in the order of a run's life (executor.go). A
// publisher tells the other hosts meanwhile (publisher.go). Where the next run begins
// follows from what became of the passes. Operators run, stop, pause and move the cursor
// (operate.go), and everybody may look (status.go).
//
// On disk, in the directory of the runner, for each job of that name:
//
//	NAME.json  the state: cursor, pause, last slot, skipped ticks. Replaced as a whole when
//	           one of them changes and when a run ends, never during a pass.
//	NAME.runs  the log of the runs: a line when a run begins, when a pass starts, when its
//	           process is known, when it ends, and when the run ends. The ends are synced,
//	           and with them what was before. A daemon that is killed loses no line; a power
//	           cut may lose those since the last end, and the slot is run again.
//
// Both carry a version. What the log knows of a run later than the one that the state
// names is added to the state at the start.
//
// With other hosts the same is told to Hosts: whose turn it is, the pause, the lines about
// runs without what only one host has a use for.
//
// The locks, in their order:
//
//	Runner.reloading    while the jobs are replaced
//	jobControl.writing  while a change of one job is made and written: held over a disk
//	Runner.mu           the list of jobs
//	jobControl.mu       what readers see of one job
//	reserved.mu         what passes are expected to spend
//	Tokens.mu           what passes were granted
//	publisher.mu        what is to be told
//
// Nothing is waited for under any but the first two, which no reader takes.
package jobs
