// Package server serves the jobs and their runs over the daemon's local API: its Routes,
// PlanRoute, Section and RatesSection are added to a server of quota/server.
//
// A handler (jobs.go) asks the jobs.Runner and answers with the types of jobs/api. A refusal of the runner becomes a
// problem, with its cure if that is known (hints.go). There are no files and no locks here: those are the runner's.
package server
