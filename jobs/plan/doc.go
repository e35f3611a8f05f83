// Package plan adds up what the schedule of the jobs asks of each limit, and foresees the next 24
// hours.
//
// [CheckFit] is the sum: of each limit, the most that passes ask for in one window (demand.go). It
// looks at the next 8 days and, for a job that is due less often than that, at the time around each
// of its slots within 366 days. A calendar limit is asked by its longest period, so a day may have
// 25 hours. The sum is taken twice: as if each pass spent at its start, and as if each spent at the
// worst time from its start to its end. Where only the second is too much, the schedule may not
// fit, if passes fall together. A [Fit] says by how much, and [Change] which other interval of one
// job is enough (fit.go, change.go).
//
// A pass may spend at any time until it is over, and counts in each window that this time touches.
// It is over
//
//   - timeout and kill_grace after its start, if the stagger is at least that long;
//   - else once each region of the run has taken that long, one after the other, counted from the
//     slot: passes wait for one another;
//   - before the next slot in either case: runs of a job do not overlap.
//
// So 100 regions in every hour, with a timeout of minutes, are 24 runs in 24 hours, and 25 when
// passes are late. Time is counted in buckets, at most 1440 in a window. The first sum is of windows
// that begin with a bucket, so it is never too much; the second rounds up, so it is never too little.
//
// A [Forecast] is what becomes of a limit in the next 24 hours: the coming slots, and everybody else
// as in the last hour or minute (forecast.go). What both need of a log is read once, newest first (past.go). A [Planner]
// asks for both on behalf of a runner and a service (planner.go).
//
// The package reads no clock but for the age of a forecast, and writes nothing. Planner.foreseeing is
// its one lock: it is held while a forecast is made, and only who has no forecast at all waits for it.
package plan
