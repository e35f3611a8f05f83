package plan

import (
	"time"

	"quotad/quota"
	"quotad/regions"
)

// A Plan is what will become of the limits: every pass of every job, simulated against the limits
// as they are. It knows this daemon's jobs only. Each pass spends at its start what its job
// expects, or else what recent passes of it spent.
type Plan struct {
	From    time.Time `json:"from"`
	Until   time.Time `json:"until"`
	Cut     bool      `json:"cut,omitempty"` // it ends earlier than was asked for: there are too many passes
	Passes  int       `json:"passes"`        // that will be launched
	Skipped int       `json:"skipped"`       // turns of a region that will be lost for want of budget
	Limits  []Limit   `json:"limits"`
	Jobs    []Job     `json:"jobs"`
	Runs    []Run     `json:"runs"`                // the next ones, up to 100
	Unknown []string  `json:"unplanned,omitempty"` // jobs without expects or recent passes: they are in no figure
}

// A Limit is what becomes of one limit.
type Limit struct {
	Fit
	Used     quota.Units `json:"used"`               // at the beginning, by any caller
	Peak     quota.Units `json:"peak"`               // the maximum that it will hold
	Spent    quota.Units `json:"spent"`              // by the jobs, in all of the plan
	ResetsAt time.Time   `json:"resets_at,omitzero"` // when the next period of a calendar window begins
	PerHour  quota.Units `json:"per_hour"`           // that calls cost in the last hour; 0 of windows that are shorter
	DryAt    time.Time   `json:"dry_at,omitzero"`    // when it refuses something for the first time
	Stops    int         `json:"stops"`              // how many runs it stops
	Skipped  int         `json:"skipped"`            // turns that are lost by that
	Hours    []Hour      `json:"hours"`              // all that the plan touches

	isForeseen bool // the window is long enough for a forecast by the hour
}

// An Hour is what a limit spends in one hour.
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
	Measured   bool                   `json:"measured,omitempty"` // what a pass spends was measured in recent passes
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
	StoppedAt regions.Region   `json:"stopped_at,omitempty"` // where the budget ends, or its own; empty if the run comes round
	Limit     string           `json:"limit,omitempty"`      // that stops it
	Capped    bool             `json:"capped,omitempty"`     // it ends where it has spent its units_per_run
}
