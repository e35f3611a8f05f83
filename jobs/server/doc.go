// Package server serves the jobs and their runs over the daemon's local API: Routes,
// PlanRoute and Section are given to a server of quota/server.
//
// A handler asks the jobs.Runner and answers with the types of jobs/api. What the
// runner refuses becomes a problem, which names its cure where it can. There are no
// files and no locks here: those are the runner's.
package server
