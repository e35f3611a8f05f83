// Package api serves the jobs and their runs over the daemon's local API, on the
// plumbing of quota/api, and asks for them.
package api

import (
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/regions"
)

// Status is the body of GET /v1/status, the jobs and the configuration included.
type Status struct {
	api.Status
	Jobs   []Job             `json:"jobs"`
	Config api.Configuration `json:"config"`
}

// Job is how a job is.
type Job struct {
	Name       string                 `json:"name"`
	Credential string                 `json:"credential"`
	Schedule   string                 `json:"schedule"` // "every 30m0s", "cron 0 9 * * * Europe/Berlin"
	Regions    []regions.Region       `json:"regions"`  // in the order of the ring
	Expects    map[string]quota.Units `json:"expects,omitempty"`
	Cursor     regions.Cursor         `json:"cursor"`            // where the next run begins
	NextRun    time.Time              `json:"next_run,omitzero"` // its next slot that is not paused
	Pause      *jobs.Pause            `json:"pause,omitempty"`   // while it is paused
	LastRun    *jobs.Run              `json:"last_run,omitempty"`
	Skipped    *jobs.Run              `json:"skipped,omitempty"` // the ticks since that did not become a run
}

// RunRequest is the body of POST /v1/jobs/{job}/run.
type RunRequest struct {
	// Regions to run, in this order, without moving the cursor; none: the whole
	// ring from the cursor on.
	Regions []string `json:"regions,omitempty"`
}

// PauseRequest is the body of POST /v1/jobs/{job}/pause.
type PauseRequest struct {
	Note  string `json:"note,omitempty"`   // why
	ForMs int64  `json:"for_ms,omitempty"` // how long; 0: until it is resumed
}

// Bookmark is what a pass leaves for the next pass of its region: the body of PUT
// /v1/bookmark, and the answer of its routes.
type Bookmark struct {
	Bookmark string `json:"bookmark"` // empty: none
}

// CursorRequest is the body of POST /v1/jobs/{job}/cursor.
type CursorRequest struct {
	Region string `json:"region,omitempty"` // empty: the beginning of the ring
}

// Selection narrows down a list.
type Selection struct {
	Job  string `json:"job"`  // empty: all
	Most int    `json:"most"` // how many, the soonest or the latest first; 0: 20
}

func jobOf(s jobs.Status) Job {
	return Job{
		Name:       s.Job.Name,
		Credential: s.Job.Credential,
		Schedule:   s.Job.Schedule.String(),
		Regions:    s.Job.Regions,
		Expects:    s.Job.Expects,
		Cursor:     s.Cursor,
		NextRun:    s.Next,
		Pause:      s.Pause,
		LastRun:    brief(s.Last),
		Skipped:    brief(s.Skips),
	}
}

// brief leaves out of a run, which may be nil, what only its own page tells, and
// what is nobody's business.
func brief(r *jobs.Run) *jobs.Run {
	if r == nil {
		return nil
	}
	for i := range r.Passes {
		r.Passes[i].Tail, r.Passes[i].Process = nil, nil
	}
	if r.Passes == nil {
		r.Passes = []jobs.Pass{}
	}
	return r
}
