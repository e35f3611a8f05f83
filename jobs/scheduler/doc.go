// Package scheduler ticks jobs at their slots. One loop waits for the next slot of any job (scheduler.go), and looks
// every few seconds at the wall clock, which a timer does not follow. Beat reports that to the daemon's watchdog.
//
// It is the only package that knows gocron, which reads cron lines; when one is due is our own arithmetic (cron.go).
//
// It writes no files. Scheduler.mu guards the entries and is not held while a tick is called.
package scheduler
