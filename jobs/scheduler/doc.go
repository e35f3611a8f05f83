// Package scheduler ticks jobs at their slots. It is the only one that knows gocron:
// gocron keeps the timers, when a slot is due is our own arithmetic.
//
// Each job has an entry that waits for one slot. When its timer comes, the entry
// advances to the next slot, and gocron sets the next timer. Timers stop while the machine
// sleeps, and do not follow a clock that is set, so a heartbeat checks all entries too.
// Beat reports to the daemon's watchdog that it does. cron.go reads cron lines.
//
// The package writes no files. Scheduler.mu guards the entries and is not held while a tick is called.
package scheduler
