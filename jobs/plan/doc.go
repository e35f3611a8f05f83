// Package plan simulates the schedule of the jobs against the limits of their credentials: does
// it fit, when does a limit run dry, which regions lose a turn, and which change of the
// configuration would be enough.
//
// The timetable of a run says when its passes start and by when they are over (timetable.go). It
// answers two questions:
//
//   - [CheckFit] asks whether a schedule fits by itself. It adds up what the passes
//     ask for in each window of a limit, first as if each pass spent at its start,
//     then as if each were as late as it may be. The schedule fits if even that is
//     no more than the budget for jobs (demand.go, load.go). Where it does not, a
//     search finds the changes that are each enough (change.go).
//   - [Simulate] plays pass after pass from the present state of the jobs and the ledger, on
//     limits that decide as the ledger does (a [slidinglog.Simulation]). Its result
//     is what happens if every pass is on time and spends what it expects; a limit that returns
//     within a job's max_wait delays it, as it does a run (sim.go). A forecast also has all
//     other callers spend as in the last hour (others.go).
//
// A [Planner] answers both for a runner and a service, and caches what it computed (planner.go).
//
// A simulation cannot say whether a schedule fits. It is one history: it begins with what was
// spent before, it knows no lateness, and where a limit runs dry it does not show what would have
// been asked for. CheckFit is a sum of the same passes instead: on limits without bounds, the
// maximum that a simulation holds is the demand.
//
// # When a pass is late
//
// A pass may spend at any time from its start until it is over, and it counts in
// every window that this time touches. It is over
//
//   - timeout and kill_grace after its start, if the stagger is at least that long;
//   - else once each region of the run has taken that long, one after the other,
//     counted from the slot: passes wait for one another;
//   - before the next slot in either case: runs of a job do not overlap.
//
// So 100 regions in every hour, with a timeout of minutes, are 24 runs in 24 hours,
// and 25 when passes are late. A schedule that fits never runs dry in a simulation
// that begins with nothing spent. One that asks for too much on time does, if the
// simulation is long enough; its passes spend a millisecond after their starts.
//
// The package reads no clock but for its cache, and writes nothing. Of its locks, Planner.planning is
// held while a plan is computed, and Planner.foreseeing while a forecast is.
package plan
