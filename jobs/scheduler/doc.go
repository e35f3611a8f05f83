// Package scheduler ticks jobs at their slots. It is the only one that knows gocron:
// gocron keeps the timers, when a slot is due is our own arithmetic.
//
// Each job has an entry (entry.go) that waits for one slot. A timer that comes has its
// entry take the slot and sets the next timer. Because timers stand still while the
// machine sleeps, and do not follow a clock that is set, a heartbeat looks at all entries
// too; beat.go lets the daemon's watchdog know that it does. cron.go reads cron lines.
//
// The package writes no files. Scheduler.mu guards the entries and is not held while a
// tick is called.
package scheduler
