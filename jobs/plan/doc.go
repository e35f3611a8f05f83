// Package plan plays the schedule of the jobs against the limits of their
// credentials: will it fit, when does a limit run dry, who loses a turn, and which
// change of the configuration would do.
//
// There is one account of when passes come and by when they are over, the timetable of a
// run (timetable.go). Two questions are answered from it:
//
//   - [CheckFit] asks whether a schedule fits by itself. It adds up what the passes
//     ask for in each window of a limit, first as if each pass spent at its start,
//     then as if each were as late as it may be. The schedule fits if even that is
//     no more than the budget for jobs (load.go, event.go, demand.go).
//   - [Simulate] plays pass after pass from where the jobs and the ledger are now, on
//     limits that decide as the ledger does (a [slidinglog.Simulation]). What it prints
//     is what happens if every pass is on time and spends what it expects; a limit that comes
//     back within a job's max_wait delays it, as it does a run (sim.go,
//     jobsim.go).
//
// The verdict of a fit cannot be read off a simulation, which is one history: it begins
// with what was spent before, it knows no lateness, and where a limit runs dry it does
// not show what would have been asked for. It is a sum of the same passes instead: on
// limits without bounds, the most that a simulation comes to hold is the demand.
//
// # When a pass is late
//
// A pass may spend at any time from its start until it is over, and it counts in
// every window that this stretch touches. It is over
//
//   - timeout and kill_grace after its start, where the stagger is at least that long;
//   - else once each region of the run has taken that long, one after the other,
//     counted from the slot: passes wait for one another;
//   - before the next slot in either case: runs of a job do not overlap.
//
// So 100 regions in every hour, with a timeout of minutes, are 24 runs in 24 hours,
// and 25 when passes are late. A schedule that fits never runs dry in a simulation
// that begins with nothing spent. One that asks for too much on time does, if the
// simulation is long enough; its passes spend a millisecond after their starts.
//
// The package reads no clock, writes nothing and has no locks.
package plan
