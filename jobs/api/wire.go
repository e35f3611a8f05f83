package api

import (
	"time"

	"quotad/jobs"
	"quotad/jobs/plan"
	"quotad/quota/api"
)

// Status is the body of GET /v1/status, the jobs and the configuration included.
type Status struct {
	api.Status
	Triage Triage `json:"triage"`
	Jobs   []Job  `json:"jobs"`
	// Rates has one for each limit whose window is at least an hour long; empty while the ledger does not answer.
	Rates  []plan.Rate       `json:"rates"`
	Config api.Configuration `json:"config"`
}

// Job is the state of a job.
type Job = jobs.Status

// RunRequest is the body of POST /v1/jobs/{job}/run.
type RunRequest struct {
	// Regions to run, in this order, without moving the cursor; none: the whole ring from the cursor on.
	Regions []string `json:"regions,omitempty"`
}

// PauseRequest is the body of POST /v1/jobs/{job}/pause.
type PauseRequest struct {
	Note  string `json:"note,omitempty"`   // why
	ForMs int64  `json:"for_ms,omitempty"` // how long; 0: until it is resumed
	End   bool   `json:"end,omitempty"`    // end the pause
}

// Selection narrows down a list.
type Selection struct {
	Job  string `json:"job,omitempty"`  // empty: all
	Most int    `json:"most,omitempty"` // how many, the soonest or the latest first; 0: 20
}

// MaxWait is how long a request for a run may wait for a change of it.
const MaxWait = 4 * time.Second

// A RunQuery says when a request for one run is answered: at once or, within a time, as soon as
// the run is over, more of its passes are, or they have written more.
type RunQuery struct {
	WaitMs  int64 `json:"wait_ms"` // at most MaxWait
	Ended   int   `json:"ended"`   // how many passes the caller knows to be over
	Written int   `json:"written"` // how many lines of output it knows; below 0, or none: it wants no lines
}

// A Triage lists what needs a person.
type Triage struct {
	Says     string    `json:"says"`     // the first of them, or that there is none
	Troubles []Trouble `json:"troubles"` // the worst first
	// Notes need no person. They explain the rest, such as limits that an operator closed.
	Notes []Trouble `json:"notes,omitempty"`
}

// Trouble is one thing that needs a person, or a note.
type Trouble struct {
	Kind  string    `json:"kind,omitempty"`  // "ledger", "closed", "starved": cmd/quotad/OPERATING.md lists them; empty: a note
	Of    string    `json:"of"`              // what it is about: "limit youtube daily", "credential youtube", "job trending", "ledger", "host", "config.toml"
	Says  string    `json:"says"`            // what is wrong, in one sentence that names it
	Do    string    `json:"do,omitempty"`    // a command that repairs it, or shows more
	Grave bool      `json:"grave,omitempty"` // calls or runs are lost now
	Since time.Time `json:"since,omitzero"`
}
