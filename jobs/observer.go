package jobs

// An Observer is told what happens. It is called while a job's next step waits,
// so it returns soon; it is called by many goroutines at the same time, but
// about one pass by one at a time. What it is given is its own.
type Observer interface {
	// RunChanged tells that a run has begun, has ended, or was skipped: its
	// State says which.
	RunChanged(Run)
	// PassChanged tells that a pass of a run has begun, has ended, or was
	// skipped: its Outcome says which.
	PassChanged(Run, Pass)
	// Output hands over a line that a pass wrote.
	Output(job string, run string, p Pass, line Line)
	// Trouble tells that the daemon could not keep what it should, and goes on.
	Trouble(job string, err error)
}
