package plan

import (
	"time"

	"quotad/quota"
	"quotad/regions"
)

// A Plan is what will become of the limits: every pass of every job, played against what the
// limits hold. It knows this daemon's jobs only, and has each pass spend what its job expects, or
// else what passes of it took of late, at its start.
type Plan struct {
	From    time.Time `json:"from"`
	Until   time.Time `json:"until"`
	Cut     bool      `json:"cut,omitempty"` // it ends earlier than was asked for: there are too many passes
	Passes  int       `json:"passes"`        // that will be launched
	Skipped int       `json:"skipped"`       // turns of a region that will be lost for want of budget
	Limits  []Limit   `json:"limits"`
	Jobs    []Job     `json:"jobs"`
	Runs    []Run     `json:"runs"`                // the next ones, up to 100
	Unknown []string  `json:"unplanned,omitempty"` // the jobs that neither say what they expect nor ever took anything: they are in no figure
}

// A Limit is what becomes of one limit.
type Limit struct {
	Fit
	Used     quota.Units `json:"used"`               // at the beginning, by whomever
	Peak     quota.Units `json:"peak"`               // the most that it will hold
	Spent    quota.Units `json:"spent"`              // by the jobs, in all of the plan
	ResetsAt time.Time   `json:"resets_at,omitzero"` // when a calendar window begins anew
	PerHour  quota.Units `json:"per_hour"`           // spent in the last hour; 0 of windows that are shorter
	DryAt    time.Time   `json:"dry_at,omitzero"`    // when it refuses something for the first time
	Stops    int         `json:"stops"`              // how many runs it stops
	Skipped  int         `json:"skipped"`            // turns that are lost by that
	Hours    []Hour      `json:"hours"`              // all that the plan touches

	isForeseen bool // an hour says something of its window
}

// An Hour is what a limit sees in one hour.
type Hour struct {
	At      time.Time              `json:"at"` // a full hour of UTC
	Units   quota.Units            `json:"units"`
	Skipped int                    `json:"skipped"`
	Jobs    map[string]quota.Units `json:"jobs"` // of the units
}

// A Job is what becomes of one job.
type Job struct {
	Job        string                 `json:"job"`
	Credential string                 `json:"credential"`
	Paused     bool                   `json:"paused,omitempty"`   // at the beginning
	Measured   bool                   `json:"measured,omitempty"` // what a pass spends is what passes took of late
	Runs       int                    `json:"runs"`
	Stopped    int                    `json:"stopped"` // runs that end early
	Passes     int                    `json:"passes"`
	Skipped    int                    `json:"skipped"`
	Spent      map[string]quota.Units `json:"spent"`   // by limit
	Regions    []Region               `json:"regions"` // in the order of the ring
}

// A Region is what becomes of one region of a job.
type Region struct {
	Region  regions.Region `json:"region"`
	Passes  int            `json:"passes"`
	Skipped int            `json:"skipped"`
}

// A Run is one run as it will go.
type Run struct {
	Job       string           `json:"job"`
	Slot      time.Time        `json:"slot"`
	Served    []regions.Region `json:"served"`               // in their order
	StoppedAt regions.Region   `json:"stopped_at,omitempty"` // where the budget ends, or its own; empty of a run that comes round
	Limit     string           `json:"limit,omitempty"`      // that stops it
	Capped    bool             `json:"capped,omitempty"`     // it ends where it has spent its units_per_run
}
