package jobs

import (
	"time"

	"quotad/quota"
	"quotad/regions"
)

// A Plan is what a schedule will do to its limits: every pass of every job,
// played against what the limits hold. It knows this daemon's jobs only, and
// takes each pass to spend what it expects to, at once.
type Plan struct {
	From    time.Time   `json:"from"`
	Until   time.Time   `json:"until"`
	Cut     bool        `json:"cut,omitempty"` // it ends earlier than was asked for: there are too many passes
	Passes  int         `json:"passes"`        // that will be launched
	Skipped int         `json:"skipped"`       // turns of a region that will be lost for want of budget
	Limits  []LimitPlan `json:"limits"`
	Jobs    []JobPlan   `json:"jobs"`
	Runs    []RunPlan   `json:"runs"`                // the next ones, up to 100
	Unknown []string    `json:"unplanned,omitempty"` // the jobs that do not say what they expect: they are in no figure
}

// A LimitPlan is what becomes of one limit.
type LimitPlan struct {
	Verdict
	Used     quota.Units `json:"used"`               // at the beginning, by whomever
	Peak     quota.Units `json:"peak"`               // the most that it will hold
	Spent    quota.Units `json:"spent"`              // by the jobs, in all of the plan
	ResetsAt time.Time   `json:"resets_at,omitzero"` // when a calendar window begins anew
	DryAt    time.Time   `json:"dry_at,omitzero"`    // when it stops a run for the first time
	Stops    int         `json:"stops"`              // how many runs it stops
	Skipped  int         `json:"skipped"`            // turns that are lost by that
	Hours    []HourPlan  `json:"hours"`              // all that the plan touches
}

// An HourPlan is what a limit sees in one hour.
type HourPlan struct {
	At      time.Time              `json:"at"` // a full hour of UTC
	Units   quota.Units            `json:"units"`
	Skipped int                    `json:"skipped"`
	Jobs    map[string]quota.Units `json:"jobs"` // of the units
}

// A JobPlan is what becomes of one job.
type JobPlan struct {
	Job         string                 `json:"job"`
	Credential  string                 `json:"credential"`
	Paused      bool                   `json:"paused,omitempty"` // at the beginning
	Runs        int                    `json:"runs"`
	Stopped     int                    `json:"stopped"` // runs that end early
	Passes      int                    `json:"passes"`
	Skipped     int                    `json:"skipped"`
	Spent       map[string]quota.Units `json:"spent"`        // by limit
	MostRegions int                    `json:"most_regions"` // the least of its Shares'
	Regions     []RegionPlan           `json:"regions"`      // in the order of the ring
}

// A RegionPlan is what becomes of one region of a job.
type RegionPlan struct {
	Region  regions.Region `json:"region"`
	Passes  int            `json:"passes"`
	Skipped int            `json:"skipped"`
}

// A RunPlan is one run as it will go.
type RunPlan struct {
	Job       string           `json:"job"`
	Slot      time.Time        `json:"slot"`
	Served    []regions.Region `json:"served"`               // in their order
	StoppedAt regions.Region   `json:"stopped_at,omitempty"` // where the budget ends; empty of a run that comes round
	Limit     string           `json:"limit,omitempty"`      // that stops it
}

// An Outset is what a plan begins with.
type Outset struct {
	From  time.Time
	Jobs  []Prospect
	Books []*quota.Simulation // of every credential, in their order; the plan writes in them
}

// Foresee returns what the jobs will do until an instant. It never asks for
// longer than some 300,000 passes.
func Foresee(o Outset, until time.Time) *Plan {
	f := newForecast(o, until)
	f.play()
	return f.plan
}
